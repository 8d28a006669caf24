"""The agent: sampling, assessment, history, the pages, and the command line."""

__version__ = "0.1.0"
