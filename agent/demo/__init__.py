"""The demo: a private server under a generated load, watched by the agent."""
