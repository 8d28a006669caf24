"""The agent: owns time, state, configuration and every way out."""

__version__ = "0.1.0"
