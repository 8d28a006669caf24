"""Query classes, live: the calls of each, and its part of the server's use."""
