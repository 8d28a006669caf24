"""What the classes did between two readings, and what the whole server used meanwhile."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from agent.query_classes.class_registry import ClassRegistry, Numbers
from agent.query_classes.digest_deltas import Changes, DigestDeltas, Lost
from agent.query_classes.divided_resources import (
    ALL_TIME,
    BUSY,
    DELAY,
    IO_WAIT,
    ROW_LOCKS,
    ResourceMeter,
)
from collectors.base import Sample
from collectors.digests import DigestValues
from models.attribution.class_intervals import SIZES, Array, ClassIntervals
from models.attribution.reasons import HostUse
from models.attribution.waiting_classes import locks_rows, row_lock_waits
from models.rates import CLOCKS_AGREE

PATIENCE = 3.0  # seconds to wait for a sample of every resource beyond an interval's end
MOST_WAITING = 64  # readings that may wait to be worked on


@dataclass(frozen=True, slots=True, eq=False)
class ClassInterval:
    """One interval; `changes` is None where it was lost, `used` lacks what is not known."""

    end: float
    """Monotonic seconds."""
    seconds: float
    changes: Changes | None
    used: Mapping[str, float]


class _Reading(NamedTuple):
    """A reading of the digests, and when the server was started by the status before it."""

    sample: Sample
    born: float | None

    def is_of_another_life(self, before: "_Reading") -> bool:
        """Whether the server was started between both: one start is told of one reading only.

        By monotonic seconds: a clock that somebody sets is no start.
        """
        if self.born is None or before.born is None:
            return False
        return self.born - before.born > CLOCKS_AGREE and self.born > before.sample.at


class ClassIntervalMaker:
    """Samples in, intervals out. `append` may be called from other threads than `intervals`."""

    def __init__(self, registry: ClassRegistry) -> None:
        self.deltas = DigestDeltas(registry)
        self._registry = registry
        self._meter = ResourceMeter()
        self._waiting: deque[_Reading] = deque(maxlen=MOST_WAITING)
        self._inbox: deque[Sample] = deque(maxlen=8 * MOST_WAITING)
        self._latest: _Reading | None = None
        self._born: float | None = None

    def append(self, sample: Sample) -> None:
        """Take in a sample of any collector."""
        if sample.collector in ("digests", "host", "status"):
            self._inbox.append(sample)

    def intervals(self, now: float) -> list[ClassInterval]:
        """The intervals that are complete at `now` (monotonic seconds)."""
        self._sort()
        done = []
        while self._waiting and self._is_ready(self._waiting[0].sample.at, now):
            interval = self._tick(self._waiting.popleft())
            if interval is not None:
                done.append(interval)
        return done

    def _sort(self) -> None:
        while self._inbox:
            sample = self._inbox.popleft()
            if sample.collector == "digests":
                self._waiting.append(_Reading(sample, self._born))
            else:
                self._meter.append(sample)
            if sample.collector == "status":
                self._born = sample.at - sample.values["uptime"]

    def _is_ready(self, at: float, now: float) -> bool:
        return self._meter.reaches(at) or now > at + PATIENCE

    def _tick(self, reading: _Reading) -> ClassInterval | None:
        sample, values = reading.sample, reading.sample.values
        if not isinstance(values, DigestValues):
            return None
        self._registry.add_texts(values.rows.texts, values.rows.own)
        before, self._latest = self._latest, reading
        restarted = before is not None and reading.is_of_another_life(before)
        changes = self.deltas.take(values.rows, restarted=restarted)
        if before is None:
            return None
        start = before.sample.at
        if self._meter.lost_digests(start, sample.at):
            self.deltas.lost[Lost.FULL] += 1
        used = self._meter.used(start, sample.at)
        return ClassInterval(sample.at, sample.at - start, changes, used)


def class_table(
    intervals: Sequence[ClassInterval],
    column_of: Numbers,
    names: tuple[str, ...],
    texts: tuple[str | None, ...] | None,
) -> ClassIntervals:
    """Arrange intervals, all of them with changes, as the models take them.

    `column_of` has for each class its place among the names.
    """
    shape = (len(intervals), len(names))
    known = next((t.changes.names for t in intervals if t.changes), ())
    tables = {name: np.zeros(shape) for name in known}
    in_flight = np.zeros(shape)
    for i, interval in enumerate(intervals):
        changes = interval.changes
        if changes is None or changes.names != known:
            continue
        columns = column_of[changes.classes]
        for j, name in enumerate(known):
            np.add.at(tables[name][i], columns, changes.values[:, j])
        np.add.at(in_flight[i], columns, changes.in_flight)
    empty: Array = np.zeros(shape)
    table = ClassIntervals(
        names=names,
        seconds=np.array([interval.seconds for interval in intervals]),
        statement_time=tables.get("statement_time", empty),
        count=tables.get("calls", empty),
        lock_time=tables.get("lock_time"),
        inflight_delta=in_flight,
        sizes=tuple((name, tables[name]) for name in SIZES if name in tables),
        cpu=tables.get("cpu_time"),
        texts=texts,
    )
    return _with_row_locks(table, intervals)


def _with_row_locks(table: ClassIntervals, intervals: Sequence[ClassInterval]) -> ClassIntervals:
    """The same with the row-lock waits that the server counts for all classes together."""
    locking = locks_rows(dict(table.sizes).get("rows_affected"), table.texts)
    if locking is None or table.lock_time is None:
        return table
    waited = np.array([interval.used.get(ROW_LOCKS, 0.0) / 1000 for interval in intervals])
    not_counted = np.maximum(waited - table.lock_time[:, locking].sum(axis=1), 0.0)
    waits = row_lock_waits(table.work_time, not_counted, locking)
    return replace(table, lock_time=table.lock_time + waits)


def counted(
    intervals: Sequence[ClassInterval], column_of: Numbers, columns: int, name: str
) -> Array:
    """Sum up one of the server's counters over the intervals that have it, shape (columns,)."""
    sums = np.zeros(columns)
    for interval in intervals:
        if interval.changes is not None and name in interval.changes.names:
            risen = interval.changes.values[:, interval.changes.names.index(name)]
            np.add.at(sums, column_of[interval.changes.classes], risen)
    return sums


def whole_use(name: str, table: ClassIntervals, intervals: Sequence[ClassInterval]) -> Array:
    """The whole server's use of a resource in the table's intervals, NaN where it is not known.

    CPU that the server accounts for by class is summed up where the whole is not known at all.
    """
    if name == "cpu" and is_cpu_sum(table, intervals) and table.cpu is not None:
        return np.asarray(table.cpu.sum(axis=1))
    there = [interval for interval in intervals if interval.changes is not None]
    return np.array([interval.used.get(name, np.nan) for interval in there])


def is_cpu_sum(table: ClassIntervals, intervals: Sequence[ClassInterval]) -> bool:
    """Whether no CPU of the whole server is known, only that of the classes."""
    known = any("cpu" in interval.used for interval in intervals)
    return not known and table.cpu is not None and bool(table.cpu.any())


def host_use(intervals: Sequence[ClassInterval]) -> HostUse:
    """Mean parts of the host's time over the intervals in which they are known."""
    known = [interval.used for interval in intervals if ALL_TIME in interval.used]
    whole = sum(used[ALL_TIME] for used in known)
    if whole <= 0:
        return HostUse()
    busy, waits = (sum(used.get(name, 0.0) for used in known) / whole for name in (BUSY, IO_WAIT))
    ready = [used for used in known if DELAY in used and "cpu" in used]
    ran, waited = (sum(used[name] for used in ready) for name in ("cpu", DELAY))
    running = ran / (ran + waited) if ran > 0 else None
    return HostUse(busy=busy, io_wait=waits, running=running)
