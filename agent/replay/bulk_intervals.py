"""The intervals of a long recording, the same as the daemon's, but computed many at once."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Protocol

import numpy as np

from agent.assessment.hourly_load import HourlyLoad
from agent.assessment.recent_load import RecentLoad
from agent.replay.recorded_samples import STATUS, Reading
from agent.support.clock_pair import ClockPair
from agent.window.intervals import Interval, Window, compute_intervals
from agent.window.sample_columns import MAX_AGE
from collectors.base import Sample
from models.arrays import Array

READINGS_AT_ONCE = 2000
"""Readings in memory beside the window."""


class Sink(Protocol):
    """A receiver of intervals: an interval buffer, or a writer of a history file."""

    width: float
    max_gap: float

    @property
    def grace(self) -> float:
        """How long after its end an interval counts as complete, s."""

    def append_intervals(self, intervals: Iterable[Interval], now: float) -> None:
        """Add intervals that follow the previous ones."""


def add_readings(
    sink: Sink,
    readings: Iterable[Reading],
    load: HourlyLoad,
    recent: RecentLoad | None = None,
) -> float | None:
    """Add every interval of the readings; return the time of the last status reading, if any.

    Their load is added to `load`, by the hour, and to `recent`, of the last week; the readings'
    times are Unix seconds.
    """
    filler = _Filler(sink, load, recent)
    for part in _batches(readings):
        filler.add(part)
        filler.close(sink.grace)
    filler.close(0.0)
    return filler.last


class _Filler:
    """Makes intervals of samples, and keeps the samples of those that are not complete yet."""

    def __init__(self, sink: Sink, load: HourlyLoad, recent: RecentLoad | None) -> None:
        self.last: float | None = None
        self._sink, self._load, self._recent = sink, load, recent
        self._raw_samples: dict[str, list[Sample]] = {}
        self._closed: float | None = None
        self._read_until = -math.inf
        self._keep_seconds = max(MAX_AGE, sink.max_gap)

    def add(self, part: Iterable[Reading]) -> None:
        """Add samples that follow the previous ones."""
        for reading in part:
            self._read_until = reading.at
            for sample in reading.samples:
                self._raw_samples.setdefault(sample.collector, []).append(sample)
        if STATUS in self._raw_samples:
            self.last = self._raw_samples[STATUS][-1].at
        self._drop_far_from_status()

    def close(self, grace: float) -> None:
        """Add the intervals that ended `grace` seconds or more before the last sample."""
        if self.last is None or STATUS not in self._raw_samples:
            return
        width = self._sink.width
        if self._closed is None:
            self._closed = width * math.ceil(self._raw_samples[STATUS][0].at / width)
        count = math.floor((self.last - grace - self._closed) / width)
        if count <= 0:
            return
        edges = self._closed + width * self._edges_with_samples(self._closed, count)
        end = self._closed + width * count
        found = Window(compute_intervals(self._raw_samples, edges, self._sink.max_gap))
        self._sink.append_intervals(found.as_intervals, end)
        if len(found):
            self._load.add_intervals(found["end"], found["seconds"], found["throughput"])
            if self._recent is not None:
                self._recent.observe(found, ClockPair(end, end))
        self._closed = end
        self._keep_samples(lambda at: at >= end - self._keep_seconds)

    def _drop_far_from_status(self) -> None:
        """Drop samples of the host from a time without the server's: no interval needs them."""
        begin = self._keep_seconds + (-math.inf if self.last is None else self.last)
        end = self._read_until - self._keep_seconds
        if begin < end:
            self._keep_samples(lambda at: not begin < at < end)

    def _keep_samples(self, is_needed: Callable[[float], bool]) -> None:
        kept = {n: [s for s in known if is_needed(s.at)] for n, known in self._raw_samples.items()}
        self._raw_samples = {name: samples for name, samples in kept.items() if samples}

    def _edges_with_samples(self, first: float, count: int) -> Array:
        """Return which of the `count` + 1 edges from `first` on (s) are not inside a gap.

        Their indices have the shape (k,) and rise. A gap is one interval then, without throughput.
        """
        at = np.array([sample.at for sample in self._raw_samples[STATUS]], dtype=np.float64)
        places = (at - first) / self._sink.width
        breaks = np.flatnonzero(np.diff(at) > self._sink.max_gap)
        firsts = np.floor(places[np.concatenate(([0], breaks + 1))]).clip(0, count)
        lasts = np.ceil(places[np.concatenate((breaks, [len(at) - 1]))]).clip(0, count)
        runs = [np.arange(a, b + 1) for a, b in zip(firsts, lasts, strict=True)]
        return np.unique(np.concatenate(runs))


def _batches(readings: Iterable[Reading]) -> Iterator[list[Reading]]:
    rest = iter(readings)
    while part := list(islice(rest, READINGS_AT_ONCE)):
        yield part
