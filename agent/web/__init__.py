"""The HTTP server: access, limits, and pages that no client can block."""
