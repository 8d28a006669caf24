"""Replay of a recorded server: the agent's results at each time."""
