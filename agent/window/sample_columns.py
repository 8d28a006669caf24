"""Samples of one collector as arrays, and their rates and averages between interval edges."""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from math import nan

import numpy as np
from numpy.typing import NDArray

from collectors.base import Sample
from models import rates
from models.arrays import Array, Mask

MAX_AGE = 120.0  # seconds for which a last value is valid: twice a collector's longest interval


class SampleColumns:
    """One collector's samples by name, and their rates and averages between interval edges (s).

    `max_gap` is the longest time in seconds that two samples may be apart. Rates, averages, maxima
    and last values have the shape (edges − 1,) and are NaN where not known; a name's values have
    the shape (samples,) and are NaN where it was absent.
    """

    def __init__(self, samples: Sequence[Sample], edges: Array, max_gap: float) -> None:
        self.at = np.array([sample.at for sample in samples], dtype=np.float64)
        self._values = [sample.values for sample in samples]
        self.names = frozenset[str]().union(*self._values)
        self.edges = edges
        self.seconds: Array = edges[1:] - edges[:-1]
        self._brackets = rates.Brackets(edges, self.at, max_gap)

    def __getitem__(self, name: str) -> Array:
        """Return the values of that name, shape (samples,)."""
        if name not in self.names:
            return np.full(self.at.size, nan)
        return np.array([values.get(name, nan) for values in self._values], dtype=np.float64)

    def stalls(self, name: str, counted: Array) -> Array:
        """Count the samples so far at which statements rose but the counter `name` did not.

        The server does not measure `name` then. `counted` are the statements so far, shape
        (samples,), as is the result.
        """
        stalled = (np.diff(counted) > 0) & (np.diff(self[name]) == 0)
        return np.append(0.0, np.cumsum(stalled))[: self.at.size]

    def increases(
        self, value: Array, epoch: Array | None = None, monotonic: Array | None = None
    ) -> Array:
        """Compute the rise of a counter, all of shape (samples,): see `rates.increases`."""
        return self._brackets.increases(value, epoch=epoch, monotonic=monotonic)

    def rate(self, *names: str, unchanged: str | None = None, epoch: Array | None = None) -> Array:
        """Compute the rate of the counters' sum, per second.

        No rate is known over a change of the gauge `unchanged`, or of `epoch`, shape (samples,).
        """
        total = sum((self[name] for name in names[1:]), self[names[0]])
        epoch = epoch if unchanged is None else np.nan_to_num(self[unchanged])
        return self.increases(total, epoch) / self.seconds

    def average(self, name: str) -> Array:
        """Average a gauge's known samples."""
        values = self[name]
        known = np.isfinite(values)
        return rates.averages(self.edges, self.at[known], values[known])[0]

    def maximum(self, name: str) -> Array:
        """Compute a gauge's maximum; infinite where not known.

        The first sample after each interval counts too.
        """
        values = self[name]
        positions = np.searchsorted(self.at, self.edges, side="left")
        parts = [values[a : b + 1] for a, b in pairwise(positions)]
        return np.array([np.nanmax(p) if np.isfinite(p).any() else np.inf for p in parts])

    def last(self, name: str) -> Array:
        """Return the last value at each interval's end; NaN where too old."""
        index, is_recent = self._last_samples
        return np.where(is_recent, self[name][index], np.nan)

    @cached_property
    def _last_samples(self) -> tuple[NDArray[np.intp], Mask]:
        """The index of the last sample at each interval's end, and whether it is recent enough."""
        ends = self.edges[1:]
        positions = np.searchsorted(self.at, ends, side="right") - 1
        index = np.maximum(positions, 0)
        longest = max(MAX_AGE, self._brackets.max_gap)  # a recording's may be further apart
        return index, (positions >= 0) & (ends - self.at[index] <= longest)
