"""When the load reaches the capacity: a forecast of its daily peaks, and how sure that is."""
