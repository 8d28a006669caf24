"""Recordings that are played into a history as time goes by."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Protocol

import numpy as np

from agent.replay.recorded_readings import STATEMENTS, STATUS, Reading
from agent.window.interval_buffer import RAW_INTERVALS, IntervalBuffer
from agent.window.intervals import Interval
from collectors.base import Sample

INTERVALS_AT_ONCE = 100
"""Intervals that are added at once: each time makes a new window of all."""
SPACING_READINGS = 1000
"""Readings at the beginning of a recording from which the distance of samples is measured."""
SPACING_DECIMALS = 3
"""Decimals of that distance: a sampling interval of 1 s is measured as 1.00002."""


class Recording(Protocol):
    """What is known of one server over time; times are seconds of the recording's clock."""

    history: IntervalBuffer
    start: float
    """Its first time."""

    @property
    def next_at(self) -> float:
        """The time of what comes next; infinite at the end."""

    @property
    def end(self) -> float:
        """When its last interval is complete; infinite as long as that is not known."""

    def play(self, until: float) -> None:
        """Put all up to that time into the history, and close what is complete by then."""

    def is_heard(self, now: float) -> bool:
        """Whether it has something shortly before that time."""


class Samples:
    """A recording of samples, which become intervals as in the daemon."""

    def __init__(self, readings: Iterator[Reading], history: IntervalBuffer) -> None:
        self.history = history
        self._readings = readings
        self._next = next(readings, None)
        self.start = self._last = self._next.at if self._next else math.nan

    @property
    def next_at(self) -> float:
        """The time of the next reading; infinite at the end."""
        return self._next.at if self._next else math.inf

    @property
    def end(self) -> float:
        """When the last interval is complete, which is known once all was read."""
        return math.inf if self._next else self._last + self.history.grace

    def play(self, until: float) -> None:
        """Append the samples up to that time; each interval is closed when it is due."""
        while self._next is not None and self._next.at <= until:
            self._close(self._next.at)
            for sample in self._next.samples:
                self.history.append(sample)
            if self._next.of_status:
                self._last = self._next.at
            self._next = next(self._readings, None)
        self._close(until)

    def is_heard(self, now: float) -> bool:
        """Whether the latest sample of the server's status is no older than a gap may be."""
        return now - self._last <= self.history.max_gap

    def _close(self, now: float) -> None:
        """As the daemon looks often, one interval after the other; at once where there is none."""
        width = self.history.width
        while (due := self.history.due) is not None and due <= now:
            is_over = due - self.history.grace - width > self._last + RAW_INTERVALS * width
            self.history.window(now if is_over else due)


class Intervals:
    """A recording of intervals, as an agent has written them."""

    def __init__(self, intervals: Iterator[Interval], history: IntervalBuffer) -> None:
        self.history = history
        self._intervals = intervals
        self._next = next(intervals, None)
        self.start = self._next.end - self._next.seconds if self._next else math.nan
        self._last = self.start

    @property
    def next_at(self) -> float:
        """The end of the next interval; infinite when there is none."""
        return self._next.end if self._next else math.inf

    @property
    def end(self) -> float:
        """The end of the last interval, which is known once all were read."""
        return math.inf if self._next else self._last

    def play(self, until: float) -> None:
        """Add the intervals that have ended by that time, a part at once."""
        while part := list(islice(self._until(until), INTERVALS_AT_ONCE)):
            self._last = part[-1].end
            self.history.extend(part, self._last)

    def _until(self, time: float) -> Iterator[Interval]:
        """Take those that have ended by that time."""
        while self._next is not None and self._next.end <= time:
            taken, self._next = self._next, next(self._intervals, None)
            yield taken

    def is_heard(self, now: float) -> bool:
        """Whether the latest interval has ended no longer ago than two take."""
        return now - self._last <= 2 * self.history.width


def sampling_of(readings: Iterator[Reading]) -> tuple[float | None, Iterator[Reading]]:
    """Measure how far apart the samples are that bound an interval, s, and give all readings back.

    The slower source counts; None where there are fewer than two samples.
    """
    first = list(islice(readings, SPACING_READINGS))
    found = [
        _distance([s for r in first for s in r.samples if s.collector == name])
        for name in (STATUS, STATEMENTS)
    ]
    known = [distance for distance in found if distance is not None]
    return (max(known) if found[0] is not None else None), chain(first, readings)


def _distance(samples: Sequence[Sample]) -> float | None:
    if len(samples) < 2:
        return None
    return round(float(np.median(np.diff([sample.at for sample in samples]))), SPACING_DECIMALS)
