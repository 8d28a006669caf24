"""A target's load of the last week in steps of minutes, and how far it may rise within an hour."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agent.assessment.load_by_time_step import LoadSum, LoadSums
from agent.assessment.new_intervals import NewIntervals
from agent.support.clock_pair import ClockPair
from agent.window.intervals import Window
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
        self._latest: deque[tuple[float, float, float]] = deque()
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
        latest = new if self._latest else window
        columns = (latest[name].tolist() for name in ("end", "seconds", "throughput"))
        self._latest.extend(zip(*columns, strict=True))
        while (
            self._latest[0][0] <= self._new_intervals.seen_until - (RISE_STEPS + 1) * STEP_SECONDS
        ):
            self._latest.popleft()

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
        found = [(s, x) for end, s, x in self._latest if until - STEP_SECONDS < end <= until]
        seconds = sum(s for s, _ in found)
        return sum(s * x for s, x in found) / seconds if seconds else None
