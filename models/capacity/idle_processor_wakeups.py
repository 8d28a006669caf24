"""How many queries find a processor busy, measured by how often it goes idle.

A query that finds the processor idle pays for waking it: the interrupt, the way out of the idle
state (on a virtual machine through the hypervisor), cold caches. Of queries that come at random a
share 1 − U finds one processor idle. Clients that a processor of their own serialises send theirs
evenly: each query finds the server idle again, however busy it was, and the utilisation nears 1
long before the processor is full. The kernel counts how often a processor goes idle, so that share
is measured and not assumed: `saved` is the share of the queries that found it busy.
"""

import numpy as np
from numpy.typing import NDArray

from models.capacity.batched_cost_share import SharedCost

FULL_BUSY_SHARE = 0.9
"""A processor is full only where at least this share of the queries found it busy."""
SHORT_QUERY_SECONDS = 1.5e-3
"""Seconds of processor time: of longer queries waking a processor is a tenth at most."""
FULL_CONCURRENCY = 2.0
"""Where idle entries are not counted, a processor is full of short queries only where so many are
at work at once for each: before a full one they queue."""


class CpuWakeups(SharedCost):
    """How many queries of each interval found a processor busy, which none of them had to wake."""

    @property
    def allows_full(self) -> NDArray[np.bool_]:
        """Where the processor may be full, shape (intervals,); true where nothing is known."""
        return ~(self.saved < FULL_BUSY_SHARE)
