"""The time until the load reaches the capacity: a forecast of daily peaks, and its uncertainty."""
