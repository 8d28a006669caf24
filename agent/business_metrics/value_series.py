"""A business metric's values with their times, and their averages over intervals."""

import math
from collections import deque
from collections.abc import Iterable

import numpy as np

from agent.window.concurrency import ConcurrencySource, concurrency
from agent.window.intervals import Window
from models.business_metric_headroom import UnitValues

MAX_VALUES = 5000
"""Latest values that are kept: three and a half days at one a minute, 80 KiB."""


class ValueSeries:
    """Values with their times (monotonic seconds), in the order in which they were read."""

    def __init__(self) -> None:
        self._pairs: deque[tuple[float, float]] = deque(maxlen=MAX_VALUES)

    def append(self, at: float, value: float) -> None:
        """Add a value; beyond `MAX_VALUES` the oldest one is dropped."""
        self._pairs.append((at, value))

    def restore(self, pairs: Iterable[tuple[float, float]]) -> None:
        """Insert values, oldest first, before those present; only the latest that fit are kept."""
        present = tuple(self._pairs)
        first = present[0][0] if present else math.inf
        before = [pair for pair in pairs if pair[0] < first]
        room = MAX_VALUES - len(present)
        self._pairs.extendleft(reversed(before[-room:] if room > 0 else []))

    @property
    def latest(self) -> tuple[float, float] | None:
        """The time and the value of the latest one, None without any."""
        return self._pairs[-1] if self._pairs else None

    def interval_averages(self, window: Window, source: ConcurrencySource | None) -> UnitValues:
        """Average the values read in each interval; intervals without a value are left out."""
        at, values = np.array(tuple(self._pairs), dtype=np.float64).reshape(-1, 2).T
        end = window["end"]
        first = np.searchsorted(at, end - window["seconds"], side="right")
        last = np.searchsorted(at, end, side="right")
        sums = np.concatenate(([0.0], np.cumsum(values)))
        has_value = last > first
        first, last = first[has_value], last[has_value]
        threads = np.full(len(end), np.nan) if source is None else concurrency(window, source)
        return UnitValues(
            (sums[last] - sums[first]) / (last - first),
            window["throughput"][has_value],
            threads[has_value],
        )
