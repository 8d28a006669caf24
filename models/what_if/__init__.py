"""Predictions of what other hardware, another load or a cheaper query would change."""
