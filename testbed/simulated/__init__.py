"""Servers whose capacity is known, and days and months of their load."""
