"""A server's capacity: resource walls, contention, and which of them comes first."""
