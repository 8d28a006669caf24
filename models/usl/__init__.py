"""The Universal Scalability Law: the law, and its fit to measured points."""
