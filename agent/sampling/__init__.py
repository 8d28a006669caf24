"""Sampling: the collectors of a target, each on its schedule."""
