"""A target's query classes: samples in, once a minute a new state out.

`append` is called by the workers that read, `advance` by the one that fits.
"""

import time
from collections import deque
from dataclasses import replace

from agent.config.query_classes import ClassSettings
from agent.query_classes.assessment import ClassWindow, assess_classes
from agent.query_classes.class_intervals import ClassInterval, ClassIntervalMaker
from agent.query_classes.class_registry import ClassRegistry
from agent.query_classes.digest_deltas import Lost
from agent.query_classes.state import ClassesState, IntervalUsage
from agent.support.queue_drain import take_all
from collectors.base import Sample

MOST_KNOWN = 30_000
"""Classes that are remembered; beyond, all but the tracked ones are forgotten."""
MOST_NEW = 60
"""Intervals whose use is kept for whoever writes it down."""


class ClassMonitor:
    """Everything about the query classes of one target."""

    def __init__(self, settings: ClassSettings) -> None:
        self.state: ClassesState | None = None
        self.settings = settings
        registry = ClassRegistry()
        self._maker = ClassIntervalMaker(registry)
        self._window = ClassWindow.empty(settings, registry)
        self._waiting: list[ClassInterval] = []
        self._closes: float | None = None
        self._new: deque[IntervalUsage] = deque(maxlen=MOST_NEW)

    def take_new(self) -> list[IntervalUsage]:
        """What was used in the intervals since this was asked last, oldest first."""
        return take_all(self._new)

    def append(self, sample: Sample) -> None:
        """Take in a sample of any collector."""
        self._maker.append(sample)

    def advance(self, now: float, unix: float) -> None:
        """Work on what has come in, up to `now` (monotonic seconds; `unix` is the same instant)."""
        renumbered = False
        for made in self._maker.intervals(now):
            interval = self._without_changes(made) if renumbered else made
            if self._closes is None:
                self._closes = interval.end - interval.seconds + self.settings.interval
            self._waiting.append(interval)
            if interval.end >= self._closes:
                self._assess(unix - (now - interval.end))
                renumbered |= self._forget_most()
                self._closes = max(self._closes + self.settings.interval, interval.end)

    def _assess(self, at: float) -> None:
        """A minute is over."""
        begun = time.perf_counter()
        intervals, self._waiting = self._waiting, []
        state, used = assess_classes(intervals, self._window, at)
        self._new.append(used)
        seconds = time.perf_counter() - begun
        self.state = replace(state, lost=dict(self._maker.deltas.lost), seconds=seconds)

    def _forget_most(self) -> bool:
        """Forget all but the tracked classes where too many were met; their numbers are new."""
        tracked = self._window.tracked
        if len(tracked.registry) <= MOST_KNOWN:
            return False
        tracked.forget_others()
        self._maker.deltas.forget(Lost.CHURN)
        return True

    def _without_changes(self, interval: ClassInterval) -> ClassInterval:
        """One that was made with numbers that are no longer valid: only its use is known."""
        if interval.changes is not None:
            self._maker.deltas.lost[Lost.CHURN] += 1
        return replace(interval, changes=None)
