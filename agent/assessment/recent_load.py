"""A target's load of the last week in steps of minutes, and how far it may rise within an hour."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from agent.assessment.load_by_time_step import LoadSum, LoadSums
from agent.assessment.new_intervals import NewIntervals
from agent.support.clock_pair import ClockPair
from agent.window.intervals import Window
from models.arrays import Array
from models.forecast.next_hour import (
    DAY_STEPS,
    HORIZON_STEPS,
    RISE_STEPS,
    STEP_SECONDS,
    Rise,
    possible_rises,
)
from models.forecast.weekly_pattern import WEEK_DAYS

KEPT_STEPS = DAY_STEPS * WEEK_DAYS + 2 * max(HORIZON_STEPS)
"""Steps kept: a week and two hours, so that the following hour is known on the earliest day."""


@dataclass(frozen=True, eq=False, slots=True)
class LoadOutlook:
    """The load of the last minutes, and how far it may rise."""

    level: float
    """The mean load, queries/s."""
    rises: Mapping[int, Rise] = field(repr=False)
    """By the number of steps ahead."""


class RecentLoad:
    """A target's load since `now` (monotonic seconds); used only by the worker that assesses."""

    def __init__(self, now: float) -> None:
        self._sums = LoadSums(STEP_SECONDS, KEPT_STEPS)
        self._latest: Array = np.empty((3, 0))
        """Ends (monotonic), lengths (s) and throughputs (queries/s) of the last intervals."""
        self._new_intervals = NewIntervals(now)

    def restore(self, sums: Iterable[LoadSum]) -> None:
        """Add load read back from the history."""
        self._sums.add(sums)

    def observe(self, window: Window, now: ClockPair) -> None:
        """Add the window's intervals that have ended since the last call.

        At the first call its earlier intervals count for the level too, which were read back.
        """
        new = self._new_intervals.select(window)
        if new is None:
            return
        ends = new["end"] + (now.unix - now.monotonic)
        self._sums.add_intervals(ends, new["seconds"], new["throughput"])
        latest = new if self._latest.size else window
        columns = np.array([latest[name] for name in ("end", "seconds", "throughput")])
        oldest = self._new_intervals.seen_until - (RISE_STEPS + 1) * STEP_SECONDS
        known = np.hstack((self._latest, columns))
        self._latest = known[:, known[0] > oldest]

    def outlook(self, now: ClockPair) -> LoadOutlook | None:
        """Compute how far the load may rise from its latest level; None while that is unknown."""
        end = self._new_intervals.seen_until
        level, level_before = self._step_mean(end), self._step_mean(end - RISE_STEPS * STEP_SECONDS)
        if level is None:
            return None
        means = self._sums.means(end + (now.unix - now.monotonic))
        return LoadOutlook(level, possible_rises(means, level, level_before))

    def _step_mean(self, until: float) -> float | None:
        """Compute the mean load (queries/s) of the step that ended at `until`; None if unknown."""
        end, seconds, throughput = self._latest
        in_step = (until - STEP_SECONDS < end) & (end <= until)
        total = float(seconds[in_step].sum())
        return float(seconds[in_step] @ throughput[in_step]) / total if total else None
