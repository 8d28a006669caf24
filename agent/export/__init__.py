"""Every way out of a snapshot: metrics, the page, pictures."""
