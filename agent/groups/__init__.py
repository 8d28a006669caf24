"""Groups of targets: their intervals on one time base, and their load and capacity together."""
