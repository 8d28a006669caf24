"""A target's load as sums by steps of the wall clock, for as long as a forecast looks back."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from models.forecast.hourly_means import hourly_means
from models.rates import Array


class LoadSum(NamedTuple):
    """The measured seconds of one step, numbered since 1970, and the queries in them."""

    step: int
    seconds: float
    queries: float


class LoadSums:
    """Sums by steps of `width` seconds; of `kept` steps the oldest make room for the newest."""

    def __init__(self, width: float, kept: int) -> None:
        self._width, self._kept = width, kept
        self._seconds = np.zeros(kept, dtype=np.float32)  # exact within 1e-7, in half of the memory
        self._queries = np.zeros(kept, dtype=np.float32)
        self._last = 0
        """The latest step, which the last place holds."""

    def add(self, sums: Iterable[LoadSum]) -> None:
        """Add loads, in any order; those that are too old are left out."""
        for found in sums:
            self._move_on_to(found.step)
            place = self._kept - 1 - (self._last - found.step)
            is_possible = 0 <= found.seconds <= self._width and 0 <= found.queries < np.inf
            if place >= 0 and is_possible:
                self._seconds[place] += found.seconds
                self._queries[place] += found.queries

    def add_intervals(self, end: Array, seconds: Array, throughput: Array) -> None:
        """Add new intervals: ends (Unix s), lengths (s) and queries/s, shape (k,) each.

        Each counts at its middle. After a clock that was far ahead is set back, nothing older is
        kept.
        """
        steps = np.floor((end - seconds / 2) / self._width).astype(int)
        if steps.max() <= self._last - self._kept:
            self._seconds[:] = self._queries[:] = 0.0
            self._last = int(steps.max())
        known = np.minimum(seconds, self._width)
        parts = zip(steps.tolist(), known.tolist(), (throughput * known).tolist(), strict=True)
        self.add(LoadSum(*part) for part in parts)

    def means(self, now: float) -> Array:
        """Means (queries/s) up to the last complete step before `now` (Unix seconds).

        Shape (steps,), oldest first, NaN where less than half of a step is known.
        """
        ends = self._width * (self._last + 1 + np.arange(1.0 - self._kept, 1.0))
        known = (self._seconds > 0) & (ends <= now)
        measured = self._seconds[known].astype(np.float64)
        seconds, rates = np.minimum(measured, self._width), self._queries[known] / measured
        until = self._width * np.floor(now / self._width)
        return hourly_means(ends[known], seconds, rates, until, self._width)

    def _move_on_to(self, step: int) -> None:
        """Let the last place be this step's, if it is later than all before."""
        ahead = min(step - self._last, self._kept)
        if ahead <= 0:
            return
        for column in (self._seconds, self._queries):
            column[: self._kept - ahead] = column[ahead:].copy()
            column[self._kept - ahead :] = 0.0
        self._last = step
