"""The window: samples become intervals, and intervals arrays."""
