"""The loads of several targets over the same interval.

The intervals of a group end at the same instants of the agent's monotonic clock, whichever server
they are of, and each sample has the time at which its answer had arrived. So all targets of a group
have one time base, whatever the servers' own clocks say.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

KEPT_INTERVALS = 4
"""Number of intervals kept of each target."""
MAX_END_DIFFERENCE = 0.5
"""Ends that are nearer than this part of an interval are one: a wall clock may be set a little."""
MAX_INTERVALS_BEHIND = 1
"""How many intervals a target that is up is waited for."""


@dataclass(frozen=True, slots=True)
class TargetInterval:
    """One interval of one target: its end in Unix seconds, and its throughput."""

    end: float
    throughput: float


class CommonIntervals:
    """Remembers the latest intervals of each target; `take` has those that end together."""

    def __init__(self, names: Iterable[str], width: float) -> None:
        self._width = width
        self._latest: dict[str, list[TargetInterval]] = {name: [] for name in names}
        self._taken: float | None = None

    def add(self, name: str, read: TargetInterval) -> None:
        """Remember an interval, unless it is known."""
        known = self._latest[name]
        if not known or read.end > known[-1].end + MAX_END_DIFFERENCE * self._width:
            self._latest[name] = [*known, read][-KEPT_INTERVALS:]

    def take(self, up: Iterable[str]) -> tuple[float, Mapping[str, float]] | None:
        """Answer the end of the next interval and the throughputs over it; None: nothing new.

        A target that was not read over it is not among them. One that is `up` is given another
        interval's time to be read; the others are not waited for.
        """
        ends = [known[-1].end for known in self._latest.values() if known]
        if not ends:
            return None
        newest = max(ends)
        found = self._at(newest)
        if not set(up) <= set(found):
            newest -= MAX_INTERVALS_BEHIND * self._width
            found = self._at(newest)
        if not found or (
            self._taken is not None and newest < self._taken + MAX_END_DIFFERENCE * self._width
        ):
            return None
        self._taken = newest
        return newest, found

    def _at(self, end: float) -> dict[str, float]:
        near = MAX_END_DIFFERENCE * self._width
        return {
            name: read.throughput
            for name, known in self._latest.items()
            for read in known
            if abs(read.end - end) < near
        }
