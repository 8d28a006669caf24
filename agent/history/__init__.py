"""The history in a file: what an earlier life of the agent knew, and what outlives this one."""
