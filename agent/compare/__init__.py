"""Comparison of a server before and after: two periods of a recording, each assessed for itself."""
