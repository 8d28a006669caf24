"""Response times of the last minutes by digest, from a server's counts since its start.

Counts only rise. Where one falls, or is not read for long, the server has started again, the table
was emptied, or the digest made room for another: the next reading is the first again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from collectors.histograms import Buckets, Edges, HistogramValues
from models.response_time_histogram import ResponseTimes

MAX_SECONDS = 300.0
"""Seconds that are looked back at most, as far as the time split looks."""
MAX_GAP_SECONDS = 60.0
"""Seconds between two readings beyond which what is between them is not recent."""
MIN_CALLS_BEYOND = 5
"""Calls beyond a quantile without which nothing is said of it: the upper bound would be the slowest
call. Four times as many are enough not to look further back."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What was counted between two readings, by digest; monotonic seconds."""

    start: float
    end: float
    buckets: Mapping[str, Buckets]


@dataclass(frozen=True, eq=False, slots=True)
class RecentTimes:
    """One digest's response times, and when they were counted (monotonic seconds)."""

    times: ResponseTimes
    start: float
    end: float


def least_calls(quantile: float) -> float:
    """The least number of calls for a quantile."""
    return MIN_CALLS_BEYOND / (1 - quantile)


class RecentResponseTimes:
    """Of all digests of a target. One worker appends; others read, for steps are replaced whole."""

    def __init__(self) -> None:
        self._last: Mapping[str, Buckets] | None = None
        self._at = 0.0
        self._steps: tuple[_Step, ...] = ()

    def append(self, at: float, values: HistogramValues) -> None:
        """Take in a reading."""
        before, then = self._last, self._at
        self._last, self._at = values.buckets, at
        if before is None or at - then > MAX_GAP_SECONDS or _fell(before, values.buckets):
            self._steps = ()
            return
        risen = {
            digest: rise
            for digest, buckets in values.buckets.items()
            if (rise := _rise(before.get(digest, {}), buckets))
        }
        kept = (step for step in self._steps if step.start >= at - MAX_SECONDS)
        self._steps = (*kept, _Step(then, at, risen))

    @property
    def is_read(self) -> bool:
        """True if there is a usable reading."""
        return bool(self._steps)

    def of(self, digest: str, quantile: float) -> RecentTimes | None:
        """The latest calls that do for this quantile, else all of the last minutes; None: none."""
        steps, found, calls = self._steps, dict[Edges, float](), 0.0
        start = steps[-1].end if steps else 0.0
        for step in reversed(steps):
            start = step.start
            for edges, count in step.buckets.get(digest, {}).items():
                found[edges] = found.get(edges, 0.0) + count
                calls += count
            if calls >= 4 * least_calls(quantile):
                break
        return RecentTimes(ResponseTimes.of(found), start, steps[-1].end) if found else None


def _rise(before: Buckets, after: Buckets) -> dict[Edges, float]:
    return {e: count - before.get(e, 0.0) for e, count in after.items() if count > before.get(e, 0)}


def _fell(before: Mapping[str, Buckets], after: Mapping[str, Buckets]) -> bool:
    return any(
        after.get(digest, {}).get(edges, 0.0) < count
        for digest, buckets in before.items()
        for edges, count in buckets.items()
    )
