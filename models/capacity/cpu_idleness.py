"""How many queries find a processor busy, measured by how often it goes idle.

A query that finds the processor idle pays for waking it: the interrupt, the way out of the idle
state (on a virtual machine through the hypervisor), cold caches. Of queries that come at random a
share 1 − U finds one processor idle. Clients that a processor of their own serialises send theirs
evenly: each query finds the server idle again, however busy it was, and the utilisation nears 1
long before the processor is full. The kernel counts how often a processor goes idle, so that share
is measured and not assumed.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from models.usl.law import Array

MIN_POINTS = 6
"""So many intervals must tell how often the processor went idle."""
LOADED = 0.2
"""From this share of the highest throughput on, idle entries of the system's own hardly count."""
AT_LOW_LOAD = 0.9
"""The quantile of the idle entries per query that counts as their number at low loads."""
DEGREE = 3
"""The share over the throughput is smoothed by a polynomial: as a regressor it must have no noise
of its own, which would hide what it explains."""
BUSY = 0.9
"""A processor is full only where at least this share of the queries found it busy."""


@dataclass(frozen=True, eq=False)
class Idleness:
    """How idle a processor was in each interval, from the queries' point of view."""

    found_busy: Array = field(repr=False)
    """The share of the queries that found it busy, shape (intervals,); NaN where not known."""
    per_query: float
    """How often one of the processors goes idle for each query, at low loads."""

    @classmethod
    def of(cls, x: Array, entries: Array) -> "Idleness | None":
        """Compare the idle entries per query with those at low loads.

        x in queries/s, entries of one processor per second, both of shape (intervals,). None where
        too few of them are known.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            per_query = np.where(x > 0, entries / x, np.nan)
        known = np.isfinite(per_query)
        if np.count_nonzero(known) < MIN_POINTS:
            return None
        loaded = known & (x >= LOADED * x[known].max())
        at_low_load = float(np.quantile(per_query[loaded], AT_LOW_LOAD))
        if at_low_load <= 0:
            return None
        return cls(np.clip(1 - per_query / at_low_load, 0.0, 1.0), at_low_load)

    @property
    def allows_full(self) -> NDArray[np.bool_]:
        """Where the processor may be full, shape (intervals,); true where nothing is known."""
        return ~(self.found_busy < BUSY)

    def selected(self, found_busy: Array) -> "Idleness":
        """Take the same with other intervals."""
        return replace(self, found_busy=found_busy)

    def smoothed(self, t: Array, u: Array, weights: Array) -> "Idleness":
        """Smooth the share over the throughput t; what weighs nothing is left out.

        Where nothing is known it is the utilisation u, as for queries that come at random.
        """
        found_busy = np.where(np.isfinite(self.found_busy), self.found_busy, np.clip(u, 0.0, 1.0))
        used = (weights > 0) & np.isfinite(found_busy)
        if np.count_nonzero(used) <= DEGREE:
            return self.selected(np.nan_to_num(found_busy))
        powers = np.vander(t, DEGREE + 1)
        root = np.sqrt(weights[used])
        rows, right = powers[used] * root[:, None], found_busy[used] * root
        coefficients = np.linalg.lstsq(rows, right, rcond=None)[0]
        return self.selected(np.clip(powers @ coefficients, 0.0, 1.0))
