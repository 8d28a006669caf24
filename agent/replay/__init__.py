"""Replay of a recorded server: what the agent would have said of it, and when."""
