"""Where statement time goes: processor, disk, network, locks, and what no resource explains."""
