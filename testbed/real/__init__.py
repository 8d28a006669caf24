"""Real servers: their programs, limits of what they may use, clients, and the agent's daemon."""
