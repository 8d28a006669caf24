"""A target's recent data: raw samples for a short while, intervals for the window.

`append` is called from the sampling threads, `window` from the one that fits.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable

import numpy as np

from agent.support.queue_drain import take_all
from agent.window.intervals import Interval, Window, intervals
from collectors.base import Sample
from models.capacity.thinning import MAX_INTERVALS, thin

RAW_INTERVALS = 4  # how many intervals' raw samples are kept
OVERLAP = 0.01  # of an interval, by which two may do that follow each other
MAX_NEW = 100  # intervals that wait to be taken
CROWDED = 2 * MAX_INTERVALS  # intervals; beyond, those that matter least are let go


class IntervalBuffer:
    """Samples in, intervals out, in bounded memory whatever the horizon.

    `width` is an interval's length and `horizon` the window's, in seconds; intervals begin at
    `phase` after multiples of the width; `sampling` is the slowest sampling interval: an interval
    is complete when a sample beyond its end can be there.
    """

    def __init__(self, width: float, horizon: float, sampling: float, phase: float = 0.0) -> None:
        self.width = width
        self.horizon = horizon
        self._phase = phase
        self.server: str | None = None  # whose intervals these are
        self.max_gap = 3 * sampling + 1.0
        self._grace = 1.5 * sampling + 0.25
        self._keep = RAW_INTERVALS * width + self._grace + self.max_gap
        self._raw: dict[str, deque[Sample]] = {}
        self._new: deque[Interval] = deque(maxlen=MAX_NEW)
        self._closed_until: float | None = None
        self.held = Window()
        """The intervals that were complete when it was last looked."""
        self._lock = threading.Lock()

    def carry(self, before: "IntervalBuffer") -> None:
        """Begin with the intervals of another history, as wide as ours; its raw samples stay there.

        `before` may still be in use by the worker that fits: a window never changes.
        """
        window = before.held
        self._hold(window, window["end"].max(initial=-math.inf))

    def restore(self, intervals: Iterable[Interval]) -> None:
        """Take in intervals of an earlier life, oldest first, as far as they are before ours.

        To be called by the worker that fits.
        """
        ours = self.held
        first = (ours["end"] - ours["seconds"]).min(initial=math.inf)
        old = Window(i for i in intervals if i.end <= first + OVERLAP * self.width)
        self._hold(old.followed_by(ours))

    def turn_to(self, server: str) -> bool:
        """Hold only that server's intervals; returns whether another's were dropped.

        To be called by the worker that fits.
        """
        before, self.server = self.server, server
        if before is None or before == server:
            return False
        with self._lock:
            self._raw.clear()
            self._closed_until = None
        self._new.clear()
        self.held = Window()
        return True

    def extend(self, intervals: Iterable[Interval], now: float) -> None:
        """Add intervals that were completed elsewhere and follow ours; `now` in seconds of theirs.

        To be called by the worker that fits.
        """
        self._hold(self.held.followed_by(Window(intervals)), now)

    def take_new(self) -> list[Interval]:
        """The intervals that were completed since the last call."""
        return take_all(self._new)

    def append(self, sample: Sample) -> None:
        """Keep a sample; those of one collector come in the order of their time."""
        with self._lock:
            raw = self._raw.setdefault(sample.collector, deque())
            raw.append(sample)
            while raw[0].at < sample.at - self._keep:
                raw.popleft()

    @property
    def grace(self) -> float:
        """How long after its end an interval counts as complete, in seconds."""
        return self._grace

    @property
    def due(self) -> float | None:
        """When the next interval will be complete (monotonic seconds); None before any sample."""
        start = self._next_start()
        return None if start is None else start + self.width + self._grace

    def window(self, now: float) -> Window:
        """The intervals of the horizon that are complete at `now` (monotonic seconds)."""
        with self._lock:
            start = self._closed_until = self._next_start()
            if start is None or now < start + self.width + self._grace:
                return self.held
            raw = {name: list(samples) for name, samples in self._raw.items()}
        new = self._close(raw, now, start)
        self._hold(self.held.followed_by(new), now - self._grace)
        return self.held

    def _next_start(self) -> float | None:
        """Where the next interval begins; None before any sample."""
        if self._closed_until is not None or "status" not in self._raw:
            return self._closed_until
        return self._edge(math.ceil, self._raw["status"][0].at)

    def _edge(self, rounded: Callable[[float], int], at: float) -> float:
        """The edge between two intervals that is next to an instant."""
        return self._phase + self.width * rounded((at - self._phase) / self.width)

    def _hold(self, window: Window, now: float = -math.inf) -> None:
        """Keep these, without those beyond the horizon; of many, a thinned selection.

        The selection is even over load and age, and each kept interval represents those dropped.
        """
        window = window.select(window["end"] > now - self.horizon)
        if len(window) > CROWDED:
            end = window["end"]
            counts = window["stands_for"]
            kept = thin(end, window["throughput"], now=float(end[-1]), counts=counts)
            window = window.select(kept.indices).standing_for(kept.counts)
        self.held = window

    def _close(self, raw: dict[str, list[Sample]], now: float, closed_until: float) -> Window:
        """The intervals that are complete by now; what raw samples no longer cover is lost."""
        oldest = self._edge(math.floor, now - RAW_INTERVALS * self.width)
        start = max(closed_until, oldest)
        count = int((now - self._grace - start) // self.width)
        if count <= 0:
            return Window()
        edges = start + self.width * np.arange(count + 1, dtype=np.float64)
        found = list(intervals(raw, edges, self.max_gap))
        self._new.extend(found)
        self._closed_until = float(edges[-1])
        return Window(found)
