"""A target's recent data: raw samples for a short while, intervals for the window.

`append` is called by the sampling workers, `window` by the worker that assesses.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable

import numpy as np

from agent.support.queue_drain import take_all
from agent.window.intervals import Interval, Window, compute_intervals
from collectors.base import Sample
from models.capacity.thinning import MAX_INTERVALS, thin

RAW_INTERVALS = 4  # number of intervals whose raw samples are kept
SAMPLINGS_WAITED = 1.5  # sampling intervals after its end at which an interval is complete
MAX_OVERLAP = 0.01  # share of an interval by which consecutive ones may overlap
MAX_NEW_INTERVALS = 100  # intervals that wait for `take_new`
THIN_ABOVE = 2 * MAX_INTERVALS  # intervals; of more, the least informative are dropped


def max_gap(sampling: float) -> float:
    """Return the greatest distance of two samples that is no gap; both in seconds."""
    return 3 * sampling + 1.0


class IntervalBuffer:
    """Turns samples into intervals, in bounded memory whatever the horizon.

    `width` is an interval's length and `horizon` the window's, in seconds; intervals begin at
    `phase` after multiples of the width; `sampling` is the slowest sampling interval: an interval
    is complete when a sample beyond its end can have arrived.
    """

    def __init__(self, width: float, horizon: float, sampling: float, phase: float = 0.0) -> None:
        self.width = width
        self.horizon = horizon
        self._phase = phase
        self.server: str | None = None  # the server whose intervals these are
        self.max_gap = max_gap(sampling)
        self._grace = SAMPLINGS_WAITED * sampling + 0.25
        self._raw_seconds = RAW_INTERVALS * width + self._grace + self.max_gap
        self._raw: dict[str, deque[Sample]] = {}
        self._new_intervals: deque[Interval] = deque(maxlen=MAX_NEW_INTERVALS)
        self._completed_until: float | None = None
        self.latest_window = Window()
        """The intervals of the horizon that were complete at the last call of `window`."""
        self._lock = threading.Lock()

    def copy_window_from(self, before: "IntervalBuffer") -> None:
        """Begin with the intervals of another buffer of the same width, without its raw samples.

        `before` may still be in use by the worker that assesses: a window never changes.
        """
        window = before.latest_window
        self._set_latest_window(window, window["end"].max(initial=-math.inf))

    def restore(self, stored: Window) -> None:
        """Add intervals from before a restart of the agent, oldest first, up to the present ones.

        To be called by the worker that assesses.
        """
        present = self.latest_window
        first = (present["end"] - present["seconds"]).min(initial=math.inf)
        old = stored.select(stored["end"] <= first + MAX_OVERLAP * self.width)
        self._set_latest_window(old.followed_by(present))

    def switch_server(self, server: str) -> bool:
        """Keep only that server's intervals; return whether another's were dropped.

        To be called by the worker that assesses.
        """
        before, self.server = self.server, server
        if before is None or before == server:
            return False
        with self._lock:
            self._raw.clear()
            self._completed_until = None
        self._new_intervals.clear()
        self.latest_window = Window()
        return True

    def append_intervals(self, intervals: Iterable[Interval], now: float) -> None:
        """Append intervals that were completed elsewhere and follow the present ones.

        `now` is in seconds of their clock. To be called by the worker that assesses.
        """
        self._set_latest_window(self.latest_window.followed_by(Window(intervals)), now)

    def take_new(self) -> list[Interval]:
        """Return the intervals that were completed since the last call, and forget them here."""
        return take_all(self._new_intervals)

    def append(self, sample: Sample) -> None:
        """Add a sample; those of one collector come in the order of their time."""
        with self._lock:
            raw = self._raw.setdefault(sample.collector, deque())
            raw.append(sample)
            while raw[0].at < sample.at - self._raw_seconds:
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
        """Return the intervals of the horizon that are complete at `now` (monotonic seconds)."""
        with self._lock:
            start = self._completed_until = self._next_start()
            if start is None or now < start + self.width + self._grace:
                return self.latest_window
            raw = {name: list(samples) for name, samples in self._raw.items()}
        new = self._complete_intervals(raw, now, start)
        self._set_latest_window(self.latest_window.followed_by(new), now - self._grace)
        return self.latest_window

    def _next_start(self) -> float | None:
        """Return the start of the next interval; None before any sample."""
        if self._completed_until is not None or "status" not in self._raw:
            return self._completed_until
        return self._edge(math.ceil, self._raw["status"][0].at)

    def _edge(self, rounded: Callable[[float], int], at: float) -> float:
        """Return the edge of an interval that is nearest to a time, as `rounded` up or down."""
        return self._phase + self.width * rounded((at - self._phase) / self.width)

    def _set_latest_window(self, window: Window, now: float = -math.inf) -> None:
        """Keep these intervals, without those beyond the horizon; of many, a thinned selection.

        The selection is even over load, concurrency and age; each kept interval represents those
        dropped.
        """
        window = window.select(window["end"] > now - self.horizon)
        if len(window) > THIN_ABOVE:
            end = window["end"]
            kept = thin(
                end,
                window["throughput"],
                float(end[-1]),
                concurrency=window.statements_at_once,
                counts=window["stands_for"],
            )
            window = window.select(kept.indices).with_counts(kept.counts)
        self.latest_window = window

    def _complete_intervals(
        self, raw: dict[str, list[Sample]], now: float, completed_until: float
    ) -> Window:
        """Compute the intervals complete by `now`; those older than the raw samples are lost."""
        oldest = self._edge(math.floor, now - self._grace - RAW_INTERVALS * self.width)
        start = max(completed_until, oldest)
        count = int((now - self._grace - start) // self.width)
        if count <= 0:
            return Window()
        edges = start + self.width * np.arange(count + 1, dtype=np.float64)
        found = list(compute_intervals(raw, edges, self.max_gap))
        self._new_intervals.extend(found)
        self._completed_until = float(edges[-1])
        return Window(found)
