"""Servers that lie to the agent, and clients that attack its pages."""
