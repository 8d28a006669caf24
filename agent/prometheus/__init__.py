"""Prometheus, or a server that offers its HTTP API, as a source of samples."""
