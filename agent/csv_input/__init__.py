"""Readers of tables in CSV files; an error names the line and a remedy."""
