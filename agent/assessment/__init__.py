"""The snapshot of a target, and the counters that outlive one assessment."""
