"""Recordings that are played forward in time into an interval buffer."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Protocol

import numpy as np

from agent.replay.recorded_samples import HOST, STATEMENTS, STATUS, Reading
from agent.window.interval_buffer import RAW_INTERVALS, IntervalBuffer
from agent.window.intervals import Interval
from collectors.base import Sample

INTERVALS_AT_ONCE = 100
"""Intervals that are added at once, as each addition makes a new window of all."""
SPACING_READINGS = 1000
"""Readings at the beginning of a recording from which the distance of samples is measured."""
SPACING_DECIMALS = 3
"""Decimals of that distance: a sampling interval of 1 s is measured as 1.00002."""


class Recording(Protocol):
    """The recorded data of one server; times are seconds of the recording's clock."""

    buffer: IntervalBuffer
    start: float
    """The time of its beginning."""

    @property
    def next_at(self) -> float:
        """The time of the next reading or interval; infinite at the end."""

    @property
    def end(self) -> float:
        """When its last interval is complete; infinite until that is known."""

    def play(self, until: float) -> None:
        """Add the data up to that time to `buffer`, and close the intervals complete by then."""

    def skip_to_end(self) -> None:
        """Read the rest without adding it to `buffer`, only to know the end."""

    def has_recent_data(self, now: float) -> bool:
        """Return whether it has data shortly before that time."""


class SampleRecording:
    """A recording of samples, which become intervals as in the daemon."""

    def __init__(self, readings: Iterator[Reading], buffer: IntervalBuffer) -> None:
        self.buffer = buffer
        self._readings = readings
        self._next = next(readings, None)
        self.start = self._last_at = self._next.at if self._next else math.nan

    @property
    def next_at(self) -> float:
        """The time of the next reading; infinite at the end."""
        return self._next.at if self._next else math.inf

    @property
    def end(self) -> float:
        """When the last interval is complete, which is known once all readings were played."""
        return math.inf if self._next else self._last_at + self.buffer.grace

    def play(self, until: float) -> None:
        """Append the samples up to that time; each interval is closed when it is due."""
        while self._next is not None and self._next.at <= until:
            self._close_due(self._next.at)
            for sample in self._next.samples:
                self.buffer.append(sample)
            if self._next.has_status:
                self._last_at = self._next.at
            self._next = next(self._readings, None)
        self._close_due(until)

    def skip_to_end(self) -> None:
        """Read the rest without adding it to the buffer, only to know the end."""
        while self._next is not None:
            if self._next.has_status:
                self._last_at = self._next.at
            self._next = next(self._readings, None)

    def has_recent_data(self, now: float) -> bool:
        """Return whether the latest status sample is no older than the longest gap."""
        return now - self._last_at <= self.buffer.max_gap

    def _close_due(self, now: float) -> None:
        """Close the due intervals one by one, as in the daemon, but all at once in a gap."""
        width = self.buffer.width
        while (due := self.buffer.due) is not None and due <= now:
            is_in_gap = due - self.buffer.grace - width > self._last_at + RAW_INTERVALS * width
            self.buffer.window(now if is_in_gap else due)


class IntervalRecording:
    """A recording of intervals, as an agent has written them."""

    def __init__(self, intervals: Iterator[Interval], buffer: IntervalBuffer) -> None:
        self.buffer = buffer
        self._intervals = intervals
        self._next = next(intervals, None)
        self.start = self._next.end - self._next.seconds if self._next else math.nan
        self._last_at = self.start

    @property
    def next_at(self) -> float:
        """The end of the next interval; infinite when there is none."""
        return self._next.end if self._next else math.inf

    @property
    def end(self) -> float:
        """The end of the last interval, which is known once all were read."""
        return math.inf if self._next else self._last_at

    def play(self, until: float) -> None:
        """Add the intervals that have ended by that time, in parts."""
        while part := list(islice(self._ended_by(until), INTERVALS_AT_ONCE)):
            self._last_at = part[-1].end
            self.buffer.append_intervals(part, self._last_at)

    def skip_to_end(self) -> None:
        """Read the rest without adding it to the buffer, only to know the end."""
        for interval in self._ended_by(math.inf):
            self._last_at = interval.end

    def _ended_by(self, time: float) -> Iterator[Interval]:
        """Yield the intervals that have ended by that time."""
        while self._next is not None and self._next.end <= time:
            taken, self._next = self._next, next(self._intervals, None)
            yield taken

    def has_recent_data(self, now: float) -> bool:
        """Return whether the latest interval ended at most two widths ago."""
        return now - self._last_at <= 2 * self.buffer.width


def measure_sampling(readings: Iterator[Reading]) -> tuple[float | None, Iterator[Reading]]:
    """Return the seconds between two samples, and an iterator of all readings.

    The slowest source counts: an interval holds two samples of each. None if the server was read
    less than twice.
    """
    first = list(islice(readings, SPACING_READINGS))
    found = [
        _sample_spacing([s for r in first for s in r.samples if s.collector == name])
        for name in (STATUS, STATEMENTS, HOST)
    ]
    known = [distance for distance in found if distance is not None]
    return (max(known) if found[0] is not None else None), chain(first, readings)


def _sample_spacing(samples: Sequence[Sample]) -> float | None:
    if len(samples) < 2:
        return None
    return round(float(np.median(np.diff([sample.at for sample in samples]))), SPACING_DECIMALS)
