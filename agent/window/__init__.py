"""The window: from samples to intervals, and from intervals to arrays."""
