"""The configuration: reading and checking it, reporting mistakes, and the accounts it names."""
