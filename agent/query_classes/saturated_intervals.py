"""Periods in which the host was saturated or waited for IO, found interval by interval.

The mean hides them: 20 s of a full host in a minute are no more than a third of it,
and shares are as rough in these 20 s as in a minute of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from agent.query_classes.class_intervals import ClassInterval
from agent.query_classes.divided_resources import ALL_TIME, BUSY, IO_WAIT
from models.attribution.reasons import BUSY as SATURATED
from models.attribution.reasons import HostUse, Reason
from models.attribution.waiting_classes import IO_BOUND

SHORTEST = 3.0
"""Seconds: a full second or two is usual, and says little about the classes."""
LIMITS: Mapping[Reason, tuple[str, float]] = {
    Reason.SATURATED: (BUSY, SATURATED),
    Reason.IO_BOUND: (IO_WAIT, IO_BOUND),
}


@dataclass(frozen=True)
class SaturatedPeriod:
    """A part of the observation in which a limit was passed in every interval."""

    reason: Reason
    start: float
    """Seconds since the observation began."""
    end: float
    use: float
    """The mean part of the host's time in it, 0..1."""


def saturated_periods(intervals: Sequence[ClassInterval]) -> tuple[SaturatedPeriod, ...]:
    """All periods of an observation, in the order in which they began."""
    if not intervals:
        return ()
    found = (period for reason in LIMITS for period in _periods(intervals, reason))
    return tuple(sorted(found, key=lambda period: period.start))


def in_worst_period(host: HostUse, periods: Sequence[SaturatedPeriod]) -> HostUse:
    """The host's use as it was in the worst period of each kind, where there was one."""

    def worst(reason: Reason, usual: float | None) -> float | None:
        return max((period.use for period in periods if period.reason is reason), default=usual)

    return HostUse(
        busy=worst(Reason.SATURATED, host.busy),
        io_wait=worst(Reason.IO_BOUND, host.io_wait),
        running=host.running,
    )


def _periods(intervals: Sequence[ClassInterval], reason: Reason) -> Iterator[SaturatedPeriod]:
    name, limit = LIMITS[reason]
    begun = intervals[0].end - intervals[0].seconds
    for is_over, group in groupby(intervals, key=_is_over(name, limit)):
        together = list(group)
        start, end = together[0].end - together[0].seconds - begun, together[-1].end - begun
        if is_over and end - start >= SHORTEST:
            spent, whole = (sum(t.used[kind] for t in together) for kind in (name, ALL_TIME))
            yield SaturatedPeriod(reason, start, end, spent / whole)


def _is_over(name: str, limit: float) -> Callable[[ClassInterval], bool]:
    """Return a test of whether an interval is over the limit; one without data ends a period."""

    def is_over(interval: ClassInterval) -> bool:
        whole = interval.used.get(ALL_TIME, 0.0)
        return whole > 0 and interval.used.get(name, 0.0) > limit * whole

    return is_over
