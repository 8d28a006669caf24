"""Samples of one collector as arrays, and their rates and averages between interval edges."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from collectors.base import Sample
from models import rates
from models.arrays import Array

MAX_AGE = 120.0  # seconds for which a last value is valid: twice a collector's longest interval


class SampleColumns:
    """One collector's samples by name; NaN where a name was absent.

    `max_gap` is the longest time in seconds that two samples may be apart.
    """

    def __init__(self, samples: Sequence[Sample], max_gap: float) -> None:
        self.at = np.array([sample.at for sample in samples], dtype=np.float64)
        self.names = frozenset(name for sample in samples for name in sample.values)
        self.max_gap = max_gap
        self._samples = samples

    def __getitem__(self, name: str) -> Array:
        """Return the values of that name, shape (samples,)."""
        values = [sample.values.get(name, np.nan) for sample in self._samples]
        return np.array(values, dtype=np.float64)

    def stalls(self, name: str, counted: Array) -> Array:
        """Count the samples up to each with more statements but no more of `name` than before.

        `counted` are the statements so far. Both of shape (samples,): the server does not measure
        `name` then.
        """
        stalled = (np.diff(counted) > 0) & (np.diff(self[name]) == 0)
        return np.append(0.0, np.cumsum(stalled))[: self.at.size]

    def rate(
        self,
        edges: Array,
        *names: str,
        unchanged: str | None = None,
        epoch: Array | None = None,
    ) -> Array:
        """Compute the rate of the counters' sum between edges (s), shape (edges − 1,), or NaN.

        No rate is known over a change of the gauge `unchanged`, or of `epoch`, shape (samples,).
        """
        total: Array = np.sum([self[name] for name in names], axis=0)
        epoch = epoch if unchanged is None else np.nan_to_num(self[unchanged])
        risen = rates.increases(edges, self.at, total, max_gap=self.max_gap, epoch=epoch)
        return risen / np.diff(edges)

    def average(self, edges: Array, name: str) -> Array:
        """Average a gauge's known samples between edges (s), shape (edges − 1,), or NaN."""
        values = self[name]
        known = np.isfinite(values)
        return rates.averages(edges, self.at[known], values[known])[0]

    def maximum(self, edges: Array, name: str) -> Array:
        """Compute a gauge's maximum between edges (s), shape (edges − 1,); inf where not known.

        The first sample after each interval counts too.
        """
        values = self[name]
        positions = np.searchsorted(self.at, edges, side="left")
        parts = [values[a : b + 1] for a, b in pairwise(positions)]
        return np.array([np.nanmax(p) if np.isfinite(p).any() else np.inf for p in parts])

    def last(self, edges: Array, name: str) -> Array:
        """Return the last value at each interval's end, shape (edges − 1,); NaN where too old."""
        positions = np.searchsorted(self.at, edges[1:], side="right") - 1
        index = np.maximum(positions, 0)
        longest = max(MAX_AGE, self.max_gap)  # a recording's samples may be further apart
        known = (positions >= 0) & (edges[1:] - self.at[index] <= longest)
        return np.where(known, self[name][index], np.nan)
