"""The HTTP server: access control, limits, and routes that no client can block."""
