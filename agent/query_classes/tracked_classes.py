"""The classes that have a column of their own in the models, and the table of what all of them did.

The others share one column, and the agent's own statements another.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from agent.query_classes.class_intervals import ClassInterval
from agent.query_classes.class_registry import ClassRegistry, Numbers
from agent.query_classes.digest_deltas import SEEN_WAITING
from agent.query_classes.divided_resources import ROW_LOCKS
from models.attribution.class_time_series import AGENT, OTHER, SIZES, Array, ClassIntervals
from models.attribution.waiting_classes import divide_lock_waits, locks_rows
from models.numerics import TINY

MIN_REPLACING_RATIO = 1.5
"""A tracked class keeps its column until another's use is this multiple of its own."""
SIZE_COLUMNS = ("statement_time", "calls", "rows_examined")
"""A class is as great as the sum of its shares of these."""


class TrackedClasses:
    """The largest classes, up to a number; `keep` is the factor for earlier use at an update."""

    def __init__(self, registry: ClassRegistry, most: int, keep: float = 1.0) -> None:
        self.registry = registry
        self.keys: list[str] = []
        self._most, self._keep = most, keep
        self._weights: Array = np.zeros(0)

    @property
    def names(self) -> tuple[str, ...]:
        """The table's columns."""
        return (*self.keys, OTHER, AGENT)

    def update(self, intervals: Sequence[ClassInterval]) -> None:
        """Give the greatest classes a column, those that have one preferred."""
        weights = np.zeros(len(self.registry))
        weights[: len(self._weights)] = self._weights * self._keep
        for interval in intervals:
            _add_weights(weights, interval)
        self._weights = weights
        worth = weights.copy()
        worth[[self.registry.number(key) for key in self.keys]] *= MIN_REPLACING_RATIO
        best = np.argsort(-worth, kind="stable")[: self._most + len(self._own)]
        keys = [self.registry.keys[n] for n in best if worth[n] > 0]
        self.keys = [key for key in keys if not self.registry.is_own(key)][: self._most]

    def table(self, intervals: Sequence[ClassInterval]) -> ClassIntervals:
        """What the classes did in these intervals, none of which was lost."""
        texts = tuple(self.registry.text_for_models(key) for key in self.keys)
        return class_table(intervals, self._columns(), self.names, (*texts, None, None))

    def counted(self, intervals: Sequence[ClassInterval], counter: str) -> Array:
        """Sum up one of the server's counters, shape (names,)."""
        return counted(intervals, self._columns(), len(self.names), counter)

    def forget_others(self) -> None:
        """Forget all classes that have no column; the numbers of the others are new."""
        self.registry.keep(self.keys)
        self._weights = np.ones(len(self.keys))

    @property
    def _own(self) -> list[int]:
        return [n for n, key in enumerate(self.registry.keys) if self.registry.is_own(key)]

    def _columns(self) -> Numbers:
        """The column of every class that was met."""
        columns = np.full(len(self.registry), self.names.index(OTHER), dtype=np.intp)
        columns[self._own] = self.names.index(AGENT)
        for i, key in enumerate(self.keys):
            columns[self.registry.number(key)] = i
        return columns


def _add_weights(weights: Array, interval: ClassInterval) -> None:
    """Add each class's shares of what was used; a statement that still runs uses time."""
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
        on_disk=tables.get("on_disk"),
        ready=tables.get("ready"),
        texts=texts,
    )
    if SEEN_WAITING in tables:
        table = _with_metadata_locks(table, intervals, tables[SEEN_WAITING])
    return _with_row_locks(table, intervals)


def _with_metadata_locks(
    table: ClassIntervals, intervals: Sequence[ClassInterval], seen: Array
) -> ClassIntervals:
    """The same with waits for locks that no class's lock time has, at most all of its time.

    Who waits was seen at each reading, `seen`, s, shape (T, K); how long all of them waited the
    server counts, where it does.
    """
    if table.lock_time is None or not seen.any():
        return table
    known = [t.changes.lock_waits if t.changes is not None else None for t in intervals]
    waited = np.array([np.nan if total is None else total for total in known])
    work, there = table.work_time, np.isfinite(waited)
    waits = np.minimum(seen, work)
    if there.any():
        expected = waits[there].sum(axis=0) / np.maximum(work[there].sum(axis=0), TINY)
        waits[there] = divide_lock_waits(work[there], waited[there], expected)
    return replace(table, lock_time=table.lock_time + waits)


def _with_row_locks(table: ClassIntervals, intervals: Sequence[ClassInterval]) -> ClassIntervals:
    """The same with the row-lock waits that the server counts for all classes together."""
    locking = locks_rows(dict(table.sizes).get("rows_affected"), table.texts)
    if locking is None or table.lock_time is None:
        return table
    waited = np.array([interval.used.get(ROW_LOCKS, 0.0) / 1000 for interval in intervals])
    not_counted = np.maximum(waited - table.lock_time[:, locking].sum(axis=1), 0.0)
    waits = divide_lock_waits(table.work_time, not_counted, locking.astype(float))
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
    """The whole server's use of a resource in the table's intervals, shape (T,), NaN: not known.

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
