"""A business metric's values, each in the interval that it was read in."""

import math
from collections import deque
from collections.abc import Iterable

import numpy as np

from agent.window.concurrency import Source, concurrency
from agent.window.intervals import Window
from models.business_unit import UnitValues

MAX_VALUES = 5000
"""The latest that are kept: three and a half days at one a minute, 80 KiB."""


class ValueSeries:
    """Values with their times (monotonic seconds), in the order in which they were read."""

    def __init__(self) -> None:
        self._pairs: deque[tuple[float, float]] = deque(maxlen=MAX_VALUES)

    def append(self, at: float, value: float) -> None:
        """Keep a value; the oldest gives way."""
        self._pairs.append((at, value))

    def restore(self, pairs: Iterable[tuple[float, float]]) -> None:
        """Put values before ours, oldest first; there is room for no more than the latest."""
        ours = tuple(self._pairs)
        first = ours[0][0] if ours else math.inf
        before = [pair for pair in pairs if pair[0] < first]
        room = MAX_VALUES - len(ours)
        self._pairs.extendleft(reversed(before[-room:] if room > 0 else []))

    @property
    def latest(self) -> tuple[float, float] | None:
        """The time and the value of the latest one."""
        return self._pairs[-1] if self._pairs else None

    def joined(self, window: Window, source: Source | None) -> UnitValues:
        """Average the values that were read in each interval; one without a value is left out."""
        at, values = np.array(tuple(self._pairs), dtype=np.float64).reshape(-1, 2).T
        end = window["end"]
        first = np.searchsorted(at, end - window["seconds"], side="right")
        last = np.searchsorted(at, end, side="right")
        sums = np.concatenate(([0.0], np.cumsum(values)))
        there = last > first
        first, last = first[there], last[there]
        threads = np.full(len(end), np.nan) if source is None else concurrency(window, source)
        return UnitValues(
            (sums[last] - sums[first]) / (last - first),
            window["throughput"][there],
            threads[there],
        )
