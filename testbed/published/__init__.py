"""Throughput by load that others have published, and estimators of its peak."""
