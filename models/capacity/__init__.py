"""A server's capacity: resource limits, contention, and which of them comes first."""
