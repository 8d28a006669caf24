"""Response times of the last minutes by digest, from a server's counts since its start.

Counts only rise. If one falls, or is not read for long, the server has restarted, the table was
emptied, or the digest was replaced by another: the next reading is the first again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from collectors.histograms import Buckets, Edges, HistogramValues
from models.response_time_histogram import ResponseTimes

MAX_SECONDS = 300.0
"""Seconds to look back at most, as for the time split."""
MAX_GAP_SECONDS = 60.0
"""Seconds between two readings beyond which what was counted between them is not recent."""
MIN_CALLS_BEYOND = 5
"""Calls above a quantile that are needed to report it: with fewer, the upper bound would be the
slowest call. With four times as many there is no need to look further back."""


@dataclass(frozen=True, slots=True)
class _Step:
    """The histogram counts between two readings, by digest; monotonic seconds."""

    start: float
    end: float
    buckets: Mapping[str, Buckets]


@dataclass(frozen=True, eq=False, slots=True)
class RecentTimes:
    """One digest's response times, and the time in which they were counted (monotonic seconds)."""

    times: ResponseTimes
    start: float
    end: float


def min_calls(quantile: float) -> float:
    """Return the least number of calls that a quantile needs."""
    return MIN_CALLS_BEYOND / (1 - quantile)


class RecentResponseTimes:
    """The response times of all digests of a target.

    One worker appends. Others may read meanwhile, because the steps are replaced as a whole.
    """

    def __init__(self) -> None:
        self._last: Mapping[str, Buckets] | None = None
        self._last_at = 0.0
        self._steps: tuple[_Step, ...] = ()

    def append(self, at: float, values: HistogramValues) -> None:
        """Add a reading."""
        before, then = self._last, self._last_at
        self._last, self._last_at = values.buckets, at
        if before is None or at - then > MAX_GAP_SECONDS or _has_fallen(before, values.buckets):
            self._steps = ()
            return
        increases = {
            digest: increase
            for digest, buckets in values.buckets.items()
            if (increase := _increase(before.get(digest, {}), buckets))
        }
        self._steps = (*self._recent_steps(at), _Step(then, at, increases))

    def has_readings(self, now: float) -> bool:
        """Return whether there is a usable reading that is recent at `now` (monotonic seconds)."""
        return bool(self._recent_steps(now))

    def latest(self, digest: str, quantile: float, now: float) -> RecentTimes | None:
        """Return the latest calls that suffice for the quantile, else all; None without any.

        What is not recent at `now` (monotonic seconds) does not count: reading may have failed
        since.
        """
        steps, found, calls = self._recent_steps(now), dict[Edges, float](), 0.0
        start = steps[-1].end if steps else 0.0
        for step in reversed(steps):
            start = step.start
            for edges, count in step.buckets.get(digest, {}).items():
                found[edges] = found.get(edges, 0.0) + count
                calls += count
            if calls >= 4 * min_calls(quantile):
                break
        return RecentTimes(ResponseTimes.of(found), start, steps[-1].end) if found else None

    def _recent_steps(self, now: float) -> tuple[_Step, ...]:
        return tuple(step for step in self._steps if step.start >= now - MAX_SECONDS)


def _increase(before: Buckets, after: Buckets) -> dict[Edges, float]:
    return {e: count - before.get(e, 0.0) for e, count in after.items() if count > before.get(e, 0)}


def _has_fallen(before: Mapping[str, Buckets], after: Mapping[str, Buckets]) -> bool:
    return any(
        after.get(digest, {}).get(edges, 0.0) < count
        for digest, buckets in before.items()
        for edges, count in buckets.items()
    )
