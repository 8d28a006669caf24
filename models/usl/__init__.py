"""The Universal Scalability Law: the law itself, and what points say of it."""
