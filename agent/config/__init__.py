"""The configuration: where it is read, checked and reported, and the accounts it names."""
