"""The loads of several targets over the same interval.

The intervals of a group end at the same times of the agent's monotonic clock, whichever server they
belong to, and each sample has the time at which its answer arrived. So all targets of a group have
one time base, whatever the servers' own clocks say.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

KEPT_INTERVALS = 4
"""Number of intervals kept of each target."""
MAX_END_DIFFERENCE = 0.5
"""Ends that are nearer than this share of an interval are one: a wall clock may be set a little."""
MAX_INTERVALS_BEHIND = 1
"""How many intervals to wait for a target that is up."""


@dataclass(frozen=True, slots=True)
class TargetInterval:
    """One interval of one target: its end in Unix seconds, and its throughput."""

    end: float
    throughput: float


class CommonIntervals:
    """Keeps the latest intervals of each target; `take_next` returns those that end together."""

    def __init__(self, names: Iterable[str], width: float) -> None:
        self._width = width
        self._latest: dict[str, list[TargetInterval]] = {name: [] for name in names}
        self._last_end: float | None = None

    def forget_future(self, now: float) -> None:
        """Start again if an interval ends after `now` (Unix seconds): the clock was set back."""
        ends = [known[-1].end for known in self._latest.values() if known]
        if any(self.is_future(end, now) for end in ends):
            self._latest = {name: [] for name in self._latest}
            self._last_end = None

    def is_future(self, end: float, now: float) -> bool:
        """Return whether an interval's end is clearly after `now`; both in Unix seconds."""
        return end > now + MAX_END_DIFFERENCE * self._width

    def add(self, name: str, interval: TargetInterval) -> None:
        """Add an interval, unless it is known."""
        known = self._latest[name]
        if not known or interval.end > known[-1].end + MAX_END_DIFFERENCE * self._width:
            self._latest[name] = [*known, interval][-KEPT_INTERVALS:]

    def take_next(self, up: Iterable[str]) -> tuple[float, Mapping[str, float]] | None:
        """Return the next interval's end and the throughputs over it; None if there is no new one.

        A target that was not read over it is missing. One that is `up` is given another interval's
        time to be read; the others are not waited for.
        """
        ends = [known[-1].end for known in self._latest.values() if known]
        if not ends:
            return None
        newest = max(ends)
        found = self._throughputs_at(newest)
        if not set(up) <= set(found):
            newest -= MAX_INTERVALS_BEHIND * self._width
            found = self._throughputs_at(newest)
        if not found or (
            self._last_end is not None
            and newest < self._last_end + MAX_END_DIFFERENCE * self._width
        ):
            return None
        self._last_end = newest
        return newest, found

    def _throughputs_at(self, end: float) -> dict[str, float]:
        tolerance = MAX_END_DIFFERENCE * self._width
        return {
            name: interval.throughput
            for name, known in self._latest.items()
            for interval in known
            if abs(interval.end - end) < tolerance
        }
