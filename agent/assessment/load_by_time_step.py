"""A target's load as sums by steps of wall-clock time, for as long as a forecast looks back."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from models.arrays import Array
from models.forecast.hourly_means import hourly_means


class LoadSum(NamedTuple):
    """The measured seconds of one step, numbered from the Unix epoch, and the queries in them."""

    step: int
    seconds: float
    queries: float


class LoadSums:
    """Load sums by steps of `width` seconds, of the latest `kept` steps."""

    def __init__(self, width: float, kept: int) -> None:
        self._width, self._kept = width, kept
        self._seconds = np.zeros(kept, dtype=np.float32)  # exact within 1e-7, half the memory
        self._queries = np.zeros(kept, dtype=np.float32)
        self._last = 0
        """The number of the latest step; its sums are the last elements."""

    def add(self, sums: Iterable[LoadSum]) -> None:
        """Add sums, in any order; those older than the kept steps, or impossible, are ignored.

        Intervals that begin before a step or end after it make a sum of up to two steps' length. If
        all are older, the clock was far ahead and has been set back: all earlier sums are deleted.
        """
        added = list(sums)
        latest = max((load_sum.step for load_sum in added), default=self._last)
        if latest <= self._last - self._kept:
            self._seconds[:] = self._queries[:] = 0.0
            self._last = latest
        for load_sum in added:
            self._advance_to(load_sum.step)
            index = self._kept - 1 - (self._last - load_sum.step)
            is_valid = 0 <= load_sum.seconds <= 2 * self._width and 0 <= load_sum.queries < np.inf
            if index >= 0 and is_valid:
                self._seconds[index] += load_sum.seconds
                self._queries[index] += load_sum.queries

    def add_intervals(self, end: Array, seconds: Array, throughput: Array) -> None:
        """Add new intervals: ends (Unix s), lengths (s) and queries/s, shape (k,) each.

        Each counts in the step of its middle.
        """
        steps = np.floor((end - seconds / 2) / self._width).astype(int)
        known = np.minimum(seconds, self._width)
        parts = zip(steps.tolist(), known.tolist(), (throughput * known).tolist(), strict=True)
        self.add(LoadSum(*part) for part in parts)

    def means(self, now: float) -> Array:
        """Compute means (queries/s) up to the last complete step before `now` (Unix seconds).

        Shape (steps,), oldest first, NaN where less than half of a step is known.
        """
        ends = self._width * (self._last + 1 + np.arange(1.0 - self._kept, 1.0))
        known = (self._seconds > 0) & (ends <= now)
        measured = self._seconds[known].astype(np.float64)
        seconds, rates = np.minimum(measured, self._width), self._queries[known] / measured
        until = self._width * np.floor(now / self._width)
        return hourly_means(ends[known], seconds, rates, until, self._width)

    def _advance_to(self, step: int) -> None:
        """Shift the sums so that `step` is the last element, if it is later than all before."""
        ahead = min(step - self._last, self._kept)
        if ahead <= 0:
            return
        for column in (self._seconds, self._queries):
            column[: self._kept - ahead] = column[ahead:].copy()
            column[self._kept - ahead :] = 0.0
        self._last = step
