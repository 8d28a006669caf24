"""The rows of a history as text: CSV for people and their tools, OpenMetrics for Prometheus'."""
