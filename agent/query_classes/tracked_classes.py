"""The classes with a column of their own in the models, and the table of what all classes did.

The other classes share one column, and the agent's own statements have another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from agent.query_classes.class_intervals import ClassInterval
from agent.query_classes.class_registry import ClassNumbers, ClassRegistry
from agent.query_classes.digest_deltas import SEEN_WAITING
from agent.query_classes.resource_meter import ROW_LOCKS
from collectors.digest_table import LOCK_TIME
from models.arrays import Array
from models.attribution.call_and_row_costs import USUAL_CPU
from models.attribution.class_interval_table import AGENT, OTHER, SIZES, ClassIntervals
from models.attribution.waiting_classes import divide_lock_waits, row_locking_classes
from models.numerics import NEGLIGIBLE, TINY

MIN_REPLACING_RATIO = 1.5
"""A tracked class keeps its column until another's use is this multiple of its own."""
SIZE_COLUMNS = ("statement_time", "calls", "rows_examined")
"""The size of a class is the sum of its shares of these."""


class TrackedClasses:
    """The `most` largest classes; `keep` is the factor for earlier use at an update."""

    def __init__(self, registry: ClassRegistry, most: int, keep: float = 1.0) -> None:
        self.registry = registry
        self.keys: list[str] = []
        self._most, self._keep = most, keep
        self._weights: Array = np.zeros(0)
        self._columns: ClassNumbers = np.zeros(0, dtype=np.intp)
        """The column of every class that was known at the latest update."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the table."""
        return (*self.keys, OTHER, AGENT)

    def update(self, intervals: Sequence[ClassInterval]) -> None:
        """Give the largest classes a column; those that have one are preferred, and keep it."""
        weights = np.zeros(len(self.registry))
        weights[: len(self._weights)] = self._weights * self._keep
        for interval in intervals:
            _add_weights(weights, interval)
        self._weights = weights
        scores = weights.copy()
        scores[[self.registry.number(key) for key in self.keys]] *= MIN_REPLACING_RATIO
        own = [n for n, key in enumerate(self.registry.keys) if self.registry.is_own(key)]
        best = np.argsort(-scores, kind="stable")[: self._most + len(own)]
        keys = [self.registry.keys[n] for n in best if scores[n] > 0]
        chosen = [key for key in keys if not self.registry.is_own(key)][: self._most]
        still = set(chosen)
        self.keys = list(dict.fromkeys([*(key for key in self.keys if key in still), *chosen]))
        self._columns = np.full(len(self.registry), self.names.index(OTHER), dtype=np.intp)
        self._columns[own] = self.names.index(AGENT)
        self._columns[[self.registry.number(key) for key in self.keys]] = range(len(self.keys))

    def table(self, intervals: Sequence[ClassInterval]) -> ClassIntervals:
        """Build the table of what the classes did in these intervals, none of which was lost."""
        texts = tuple(self.registry.text_for_models(key) for key in self.keys)
        return class_table(intervals, self._columns, self.names, (*texts, None, None))

    def counter_sums(self, intervals: Sequence[ClassInterval], counter: str) -> Array:
        """Sum up one of the server's counters, shape (names,)."""
        return counter_sums(intervals, self._columns, len(self.names), counter)

    def forget_others(self) -> None:
        """Forget all classes without a column; the others are renumbered."""
        self.registry.keep(self.keys)
        self._weights = np.ones(len(self.keys))


def _add_weights(weights: Array, interval: ClassInterval) -> None:
    """Add each class's shares of what was used; the time of running statements counts too."""
    changes = interval.changes
    if changes is None:
        return
    for name in SIZE_COLUMNS:
        if name in changes.names:
            used = changes.values[:, changes.names.index(name)]
            if name == "statement_time":
                used = used + np.maximum(changes.in_flight, 0.0)
            weights[changes.classes] += used / max(float(used.sum()), 1e-9)


def class_table(
    intervals: Sequence[ClassInterval],
    column_of: ClassNumbers,
    names: tuple[str, ...],
    texts: tuple[str | None, ...] | None,
) -> ClassIntervals:
    """Arrange intervals, all of them with changes, as the models need them.

    `column_of` has for the number of each class its column, an index of `names`.
    """
    tables, in_flight = _sums_by_column(intervals, column_of, len(names))
    empty: Array = np.zeros_like(in_flight)
    table = ClassIntervals(
        names=names,
        seconds=np.array([interval.seconds for interval in intervals]),
        statement_time=tables.get("statement_time", empty),
        count=tables.get("calls", empty),
        lock_time=_lock_time(tables, intervals),
        inflight_delta=in_flight if in_flight.any() else None,
        sizes=tuple((name, tables[name]) for name in SIZES if name in tables),
        cpu=tables.get("cpu_time"),
        on_disk=tables.get("on_disk"),
        ready=tables.get("ready"),
        texts=texts,
    )
    if SEEN_WAITING in tables:
        table = _with_metadata_locks(table, intervals, tables[SEEN_WAITING])
    return _with_row_locks(table, intervals)


def _lock_time(tables: Mapping[str, Array], intervals: Sequence[ClassInterval]) -> Array | None:
    """Return how long statements waited for locks, s, shape (T, K); None if it is not known.

    MariaDB's lock time begins with the statement: of a short one, alone, it was a third (11 to 22
    µs of 36 to 64 µs), all of it CPU. So as much as a call costs at least is no wait. Where there
    is any, a little is left, since a class without lock time opens no table.
    """
    locked, calls = tables.get(LOCK_TIME), tables.get("calls")
    if locked is None or calls is None:
        return locked
    opens = [t.changes is not None and t.changes.lock_time_includes_opening for t in intervals]
    opening = np.array(opens)[:, None] * USUAL_CPU["calls"] * calls
    waited: Array = np.maximum(locked - opening, NEGLIGIBLE * locked)
    return waited


def _sums_by_column(
    intervals: Sequence[ClassInterval], column_of: ClassNumbers, width: int
) -> tuple[dict[str, Array], Array]:
    """Sum the counters that all intervals have by column, by name, and the time in flight.

    Each has shape (intervals, width).
    """
    shape = (len(intervals), width)
    known = _common_counters(intervals)
    tables, in_flight = {name: np.zeros(shape) for name in known}, np.zeros(shape)
    for i, interval in enumerate(intervals):
        changes = interval.changes
        if changes is None:
            continue
        columns = column_of[changes.classes]
        for name in known:
            np.add.at(tables[name][i], columns, changes.values[:, changes.names.index(name)])
        np.add.at(in_flight[i], columns, changes.in_flight)
    return tables, in_flight


def _common_counters(intervals: Sequence[ClassInterval]) -> tuple[str, ...]:
    """Return the counters that all intervals have: after a restart a server may have others."""
    first, *others = [t.changes.names for t in intervals if t.changes] or [()]
    return tuple(name for name in first if all(name in names for names in others))


def _with_metadata_locks(
    table: ClassIntervals, intervals: Sequence[ClassInterval], seen: Array
) -> ClassIntervals:
    """Add waits for locks that no class's lock time includes, at most all of its work time.

    `seen` are the waits as sampled at each reading, s, shape (T, K); the total over all classes is
    the server's, if it counts it.
    """
    if table.lock_time is None or not seen.any():
        return table
    known = [t.changes.lock_waits if t.changes is not None else None for t in intervals]
    waited = np.array([np.nan if total is None else total for total in known])
    work, is_known = table.work_time, np.isfinite(waited)
    waits = np.minimum(seen, work)
    if is_known.any():
        expected = waits[is_known].sum(axis=0) / np.maximum(work[is_known].sum(axis=0), TINY)
        waits[is_known] = divide_lock_waits(work[is_known], waited[is_known], expected)
    return replace(table, lock_time=table.lock_time + waits)


def _with_row_locks(table: ClassIntervals, intervals: Sequence[ClassInterval]) -> ClassIntervals:
    """Add the row-lock waits that the server counts only for all classes together."""
    locking = row_locking_classes(dict(table.sizes).get("rows_affected"), table.texts)
    if locking is None or table.lock_time is None:
        return table
    waited = np.array([interval.used.get(ROW_LOCKS, 0.0) / 1000 for interval in intervals])
    not_counted = np.maximum(waited - table.lock_time[:, locking].sum(axis=1), 0.0)
    waits = divide_lock_waits(table.work_time, not_counted, locking.astype(float))
    return replace(table, lock_time=table.lock_time + waits)


def counter_sums(
    intervals: Sequence[ClassInterval], column_of: ClassNumbers, columns: int, name: str
) -> Array:
    """Sum up one of the server's counters over the intervals that have it, shape (columns,)."""
    sums = np.zeros(columns)
    for interval in intervals:
        if interval.changes is not None and name in interval.changes.names:
            increases = interval.changes.values[:, interval.changes.names.index(name)]
            np.add.at(sums, column_of[interval.changes.classes], increases)
    return sums


def server_use(name: str, table: ClassIntervals, intervals: Sequence[ClassInterval]) -> Array:
    """Return the whole server's use of a resource by interval, shape (T,), NaN if unknown.

    If the whole server's CPU is not known at all, it is the sum of what the server counts by class.
    """
    if name == "cpu" and is_cpu_sum(table, intervals) and table.cpu is not None:
        return np.asarray(table.cpu.sum(axis=1))
    not_lost = [interval for interval in intervals if interval.changes is not None]
    return np.array([interval.used.get(name, np.nan) for interval in not_lost])


def is_cpu_sum(table: ClassIntervals, intervals: Sequence[ClassInterval]) -> bool:
    """Return whether only the CPU of the classes is known, not that of the whole server."""
    known = any("cpu" in interval.used for interval in intervals)
    return not known and table.cpu is not None and bool(table.cpu.any())
