"""A private server under a made-up load, to see the product work."""
