"""Business metrics of a target: read on a session of their own, joined with the throughput."""
