"""The statements of each class between two readings, and the use by the whole server meanwhile."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from agent.query_classes.class_registry import ClassRegistry
from agent.query_classes.digest_deltas import ClassDeltas, DigestDeltas, LossReason, is_gap
from agent.query_classes.resource_meter import (
    ALL_TIME,
    BUSY,
    DELAY,
    IO_WAIT,
    USUAL_SAMPLING,
    ResourceMeter,
)
from collectors.base import Sample
from collectors.digests import DigestRows, DigestValues
from models.attribution.result import AttributionReason, HostUse
from models.attribution.waiting_classes import IO_BOUND_SHARE
from models.rates import START_TOLERANCE
from models.trust import FULL_LOAD

MARGIN_SECONDS = 3.0  # seconds that a sample of a resource may be late
MAX_WAITING = 64  # readings that may wait to be processed


@dataclass(frozen=True, slots=True, eq=False)
class ClassInterval:
    """One interval; `changes` is None if they were lost, `used` lacks what is not known."""

    end: float
    """Monotonic seconds."""
    seconds: float
    changes: ClassDeltas | None
    used: Mapping[str, float]

    @property
    def is_known(self) -> bool:
        """Whether any of its values is known; an outage has none."""
        return self.changes is not None or bool(self.used)


class _ReadingTime(NamedTuple):
    """The time of a reading of the digests, and the server's start time by the status before it."""

    at: float
    server_start: float | None

    def is_after_restart_since(self, before: "_ReadingTime") -> bool:
        """Return whether the server restarted in between; one restart counts for one reading only.

        The times are monotonic: a change of the wall clock is not a restart.
        """
        if self.server_start is None or before.server_start is None:
            return False
        return (
            self.server_start - before.server_start > START_TOLERANCE
            and self.server_start > before.at
        )


class ClassIntervalMaker:
    """Makes intervals of samples. `append` may be called by other threads than `intervals`.

    `sampling`: seconds between two samples of the host and of the status, those of the slower one.
    """

    def __init__(self, registry: ClassRegistry, sampling: float = USUAL_SAMPLING) -> None:
        self.deltas = DigestDeltas(registry)
        self._registry = registry
        self._meter = ResourceMeter(sampling)
        self._max_wait = max(sampling, USUAL_SAMPLING) + MARGIN_SECONDS
        self._waiting: deque[tuple[_ReadingTime, DigestRows]] = deque(maxlen=MAX_WAITING)
        self._inbox: deque[Sample] = deque(maxlen=8 * MAX_WAITING)
        self._latest: _ReadingTime | None = None
        self._server_start: float | None = None

    def append(self, sample: Sample) -> None:
        """Add a sample of any collector."""
        if sample.collector in ("digests", "host", "status"):
            self._inbox.append(sample)

    def intervals(self, now: float) -> list[ClassInterval]:
        """Return the intervals that are complete at `now` (monotonic seconds)."""
        self._distribute_samples()
        done = []
        while self._waiting and self._is_ready(self._waiting[0][0].at, now):
            interval = self._make_interval(*self._waiting.popleft())
            if interval is not None:
                done.append(interval)
        return done

    def _distribute_samples(self) -> None:
        """Pass samples of resources to the meter, and readings of digests to the queue."""
        while self._inbox:
            sample = self._inbox.popleft()
            if isinstance(sample.values, DigestValues):
                time = _ReadingTime(sample.at, self._server_start)
                self._waiting.append((time, sample.values.rows))
            else:
                self._meter.append(sample)
            if sample.collector == "status":
                self._server_start = sample.at - sample.values["uptime"]

    def _is_ready(self, at: float, now: float) -> bool:
        return self._meter.has_samples_until(at) or now > at + self._max_wait

    def _make_interval(self, time: _ReadingTime, rows: DigestRows) -> ClassInterval | None:
        """Make the interval between the previous reading and this one; None for the first."""
        self._registry.add_texts(rows.texts, rows.own_digests)
        before, self._latest = self._latest, time
        restarted = before is not None and time.is_after_restart_since(before)
        changes = self.deltas.take(rows, restarted=restarted)
        if before is None:
            return None
        start, end = before.at, time.at
        if self._meter.lost_digests(start, end):
            self.deltas.lost[LossReason.FULL] += 1
        # the times of samples do not count how long this machine was suspended
        used = {} if is_gap(rows) else self._meter.used(start, end)
        return ClassInterval(end, end - start, changes, used)


def host_use(intervals: Sequence[ClassInterval]) -> HostUse:
    """Average the shares of the host's time over the intervals in which they are known."""
    known = [interval.used for interval in intervals if ALL_TIME in interval.used]
    whole = sum(used[ALL_TIME] for used in known)
    if whole <= 0:
        return HostUse()
    busy, waits = (sum(used.get(name, 0.0) for used in known) / whole for name in (BUSY, IO_WAIT))
    ready = [used for used in known if DELAY in used and "cpu" in used]
    ran, waited = (sum(used[name] for used in ready) for name in ("cpu", DELAY))
    running = ran / (ran + waited) if ran > 0 else None
    return HostUse(busy=busy, io_wait=waits, running=running)


MIN_SATURATED_SECONDS = 3.0
"""Minimum length of a saturated period, s: a second or two is usual, and says little about the
classes."""

LIMITS: Mapping[AttributionReason, tuple[str, float]] = {
    AttributionReason.SATURATED: (BUSY, FULL_LOAD),
    AttributionReason.IO_BOUND: (IO_WAIT, IO_BOUND_SHARE),
}


@dataclass(frozen=True)
class SaturatedPeriod:
    """A part of the observation in which every interval exceeded a limit."""

    reason: AttributionReason
    start: float
    """Seconds since the observation began."""
    end: float
    use: float
    """The mean share of the host's time in it, 0..1."""


def saturated_periods(intervals: Sequence[ClassInterval]) -> tuple[SaturatedPeriod, ...]:
    """Return all saturated periods of an observation, in the order of their start."""
    if not intervals:
        return ()
    found = (period for reason in LIMITS for period in _periods(intervals, reason))
    return tuple(sorted(found, key=lambda period: period.start))


def use_in_worst_period(host: HostUse, periods: Sequence[SaturatedPeriod]) -> HostUse:
    """Return the host's use in the worst period of each kind; as it was if there was none."""

    def worst(reason: AttributionReason, usual: float | None) -> float | None:
        return max((period.use for period in periods if period.reason is reason), default=usual)

    return HostUse(
        busy=worst(AttributionReason.SATURATED, host.busy),
        io_wait=worst(AttributionReason.IO_BOUND, host.io_wait),
        running=host.running,
    )


def _periods(
    intervals: Sequence[ClassInterval], reason: AttributionReason
) -> Iterator[SaturatedPeriod]:
    """Yield the periods of at least `MIN_SATURATED_SECONDS` that exceed the limit of one reason."""
    name, limit = LIMITS[reason]
    origin = intervals[0].end - intervals[0].seconds
    for is_over, group in groupby(intervals, key=_limit_test(name, limit)):
        members = list(group)
        start, end = members[0].end - members[0].seconds - origin, members[-1].end - origin
        if is_over and end - start >= MIN_SATURATED_SECONDS:
            used, whole = (sum(t.used[kind] for t in members) for kind in (name, ALL_TIME))
            yield SaturatedPeriod(reason, start, end, used / whole)


def _limit_test(name: str, limit: float) -> Callable[[ClassInterval], bool]:
    """Return a test of whether an interval is over the limit; one without data ends a period."""

    def is_over(interval: ClassInterval) -> bool:
        whole = interval.used.get(ALL_TIME, 0.0)
        return whole > 0 and interval.used.get(name, 0.0) > limit * whole

    return is_over
