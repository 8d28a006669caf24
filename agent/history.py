"""What a target's collectors have read: raw samples for a short while, intervals for the window.

`append` is called from the sampling threads, `window` from the one that fits.
"""

import math
import sys
import threading
from collections import deque
from collections.abc import Iterable

import numpy as np

from agent.intervals import Interval, Window, intervals
from agent.queues import take_all
from collectors.base import Sample
from models.capacity.keep import LIMIT, thin

RAW_INTERVALS = 4  # how many intervals' raw samples are kept
OVERLAP = 0.01  # of an interval, by which two may do that follow each other
MOST_NEW = 100  # intervals that wait to be taken, where nobody does
CROWDED = 2 * LIMIT  # intervals; beyond, those that matter least are let go


class History:
    """Samples in, intervals out, in bounded memory whatever the horizon.

    `width` is an interval's length and `horizon` the window's, in seconds; `sampling` the slowest
    sampling interval: an interval is complete when a sample beyond its end can be there.
    """

    def __init__(self, width: float, horizon: float, sampling: float) -> None:
        self.width = width
        self.horizon = horizon
        self.server: str | None = None  # whose intervals these are
        self.max_gap = 3 * sampling + 1.0
        self._grace = 1.5 * sampling + 0.25
        self._keep = RAW_INTERVALS * width + self._grace + self.max_gap
        self._raw: dict[str, deque[Sample]] = {}
        self._intervals: deque[Interval] = deque()
        self._new: deque[Interval] = deque(maxlen=MOST_NEW)
        self._closed_until: float | None = None
        self._window = Window(())
        self._lock = threading.Lock()

    def carry(self, before: "History") -> None:
        """Begin with the intervals of another history, as wide as ours; its raw samples stay there.

        `before` may still be in use by the lane that fits: copying a deque is one step.
        """
        self._intervals.extend(before._intervals.copy())
        if self._intervals:
            self._forget(self._intervals[-1].end)
        self._window = Window(self._intervals)

    def restore(self, intervals: Iterable[Interval]) -> None:
        """Take in intervals of an earlier life, oldest first, as far as they are before ours.

        To be called by the lane that fits.
        """
        first = min((i.end - i.seconds for i in self._intervals), default=math.inf)
        old = (i for i in intervals if i.end <= first + OVERLAP * self.width)
        before = [_with_shared_names(interval) for interval in old]
        self._intervals = deque([*before, *self._intervals])
        self._thin()
        self._window = Window(self._intervals)

    def turn_to(self, server: str) -> bool:
        """Hold what is that server's alone; answers whether another's was forgotten.

        To be called by the lane that fits.
        """
        before, self.server = self.server, server
        if before is None or before == server:
            return False
        with self._lock:
            self._raw.clear()
            self._closed_until = None
        self._intervals.clear()
        self._new.clear()
        self._window = Window(())
        return True

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

    def window(self, now: float) -> Window:
        """The intervals of the horizon that are complete at `now` (monotonic seconds)."""
        with self._lock:
            first = self._raw["status"][0].at if "status" in self._raw else None
            if self._closed_until is None and first is not None:
                self._closed_until = self.width * math.ceil(first / self.width)
            if self._closed_until is None or now < self._closed_until + self.width + self._grace:
                return self._window
            raw = {name: list(samples) for name, samples in self._raw.items()}
        self._close(raw, now, self._closed_until)
        self._forget(now - self._grace)
        self._thin()
        self._window = Window(self._intervals)
        return self._window

    def _forget(self, now: float) -> None:
        """Let go what has aged out of the horizon, also when nothing newer came."""
        while self._intervals and self._intervals[0].end <= now - self.horizon:
            self._intervals.popleft()

    def _thin(self) -> None:
        """Keep the spread over load and age; what is kept stands for what is not."""
        if len(self._intervals) <= CROWDED:
            return
        rows = list(self._intervals)
        ends, loads = [row.end for row in rows], [row.throughput for row in rows]
        kept = thin(ends, loads, now=ends[-1], counts=[row.stands_for for row in rows])
        self._intervals = deque(
            rows[i]._replace(stands_for=float(count))
            for i, count in zip(kept.indices, kept.counts, strict=True)
        )

    def _close(self, raw: dict[str, list[Sample]], now: float, closed_until: float) -> None:
        """Add the intervals that are complete by now; what raw samples no longer cover is lost."""
        oldest = self.width * math.floor((now - RAW_INTERVALS * self.width) / self.width)
        start = max(closed_until, oldest)
        count = int((now - self._grace - start) // self.width)
        if count > 0:
            edges = start + self.width * np.arange(count + 1, dtype=np.float64)
            found = [_with_shared_names(i) for i in intervals(raw, edges, self.max_gap)]
            self._intervals.extend(found)
            self._new.extend(found)
            self._closed_until = float(edges[-1])


def _with_shared_names(interval: Interval) -> Interval:
    """The same; its resources' names are kept once for all intervals: a fifth of their memory."""
    used = {sys.intern(name): share for name, share in interval.resources.items()}
    return interval._replace(resources=used)
