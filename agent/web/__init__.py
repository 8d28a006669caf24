"""The ways out over HTTP: who gets in, and nobody blocks it."""
