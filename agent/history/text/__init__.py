"""A history's rows as text: CSV for people and their tools, OpenMetrics for Prometheus."""
