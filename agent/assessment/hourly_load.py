"""A target's load by the hour, for as many days as a forecast looks back."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from models.forecast.daily_peaks import DAY_HOURS
from models.forecast.hourly_means import HOUR, hourly_means
from models.forecast.trend import RECENT
from models.rates import Array

KEPT = DAY_HOURS * (RECENT + 1)
"""Hours: what a trend rests on, and the day that has begun. 14 KiB a target."""


class HourlySum(NamedTuple):
    """The measured seconds of one hour, counted since 1970, and the queries in them."""

    hour: int
    seconds: float
    queries: float


class HourlyLoad:
    """Sums by hour of the wall clock; the oldest make room for the newest."""

    def __init__(self) -> None:
        self._seconds = np.zeros(KEPT)
        self._queries = np.zeros(KEPT)
        self._last = 0
        """The latest hour, which the last place holds."""

    def add(self, sums: Iterable[HourlySum]) -> None:
        """Add to what is known, in any order; what is too old is left out."""
        for found in sums:
            self._move_on_to(found.hour)
            place = KEPT - 1 - (self._last - found.hour)
            if place >= 0 and 0 <= found.seconds <= HOUR and 0 <= found.queries < np.inf:
                self._seconds[place] += found.seconds
                self._queries[place] += found.queries

    def add_intervals(self, end: Array, seconds: Array, throughput: Array) -> None:
        """Add new intervals by their middle: ends in Unix seconds, lengths in s, queries/s.

        A clock that was far ahead, and is set back, leaves nothing of what was before.
        """
        hours = np.floor((end - seconds / 2) / HOUR).astype(int)
        if hours.max() <= self._last - KEPT:
            self._seconds[:] = self._queries[:] = 0.0
            self._last = int(hours.max())
        parts = zip(hours.tolist(), seconds.tolist(), (throughput * seconds).tolist(), strict=True)
        self.add(HourlySum(*part) for part in parts)

    def means(self, now: float) -> Array:
        """Hourly means (queries/s) up to the last complete hour before `now` (Unix seconds).

        Shape (hours,), oldest first, NaN where less than half of an hour is known.
        """
        ends = HOUR * (self._last + 1 + np.arange(1.0 - KEPT, 1.0))
        known = (self._seconds > 0) & (ends <= now)
        seconds = np.minimum(self._seconds[known], HOUR)
        rates = self._queries[known] / self._seconds[known]
        return hourly_means(ends[known], seconds, rates, HOUR * np.floor(now / HOUR))

    def _move_on_to(self, hour: int) -> None:
        """Let the last place be this hour's, if it is later than all before."""
        ahead = min(hour - self._last, KEPT)
        if ahead <= 0:
            return
        for column in (self._seconds, self._queries):
            column[: KEPT - ahead] = column[ahead:].copy()
            column[KEPT - ahead :] = 0.0
        self._last = hour
