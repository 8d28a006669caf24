"""Prometheus, and what speaks its HTTP API, as a source of samples."""
