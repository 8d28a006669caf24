"""The configuration: where it is read, checked and told of, and the accounts it names."""
