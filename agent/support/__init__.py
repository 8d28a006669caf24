"""Helpers for all parts of the agent: logs, escaping, threads, files, HTTP."""
