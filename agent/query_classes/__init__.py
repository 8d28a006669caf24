"""Live query classes: the calls of each, and its share of the server's use."""
