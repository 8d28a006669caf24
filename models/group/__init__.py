"""Several servers that share a load: totals, imbalance, the bottleneck, scaling over nodes."""
