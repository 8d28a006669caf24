"""Groups of targets: their nodes on one time base, and what they do together."""
