"""Changes between two readings of the digest table, which has running totals.

A row is identified by schema, digest and FIRST_SEEN, so a row that was created again is another
one; rows of one class (there may be several) are added up afterwards. What cannot be known is
counted as lost, never guessed: no change is negative, and none is a sum since the server's start.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from agent.query_classes.class_registry import NONE, ClassNumbers, ClassRegistry
from agent.query_classes.undigested_statements import UndigestedStatements
from collectors.digest_table import LOCK_TIME, STATEMENT_TIME, Array
from collectors.digests import DigestRows
from models.arrays import Mask

MAX_GAP = 120.0  # seconds between two readings, beyond which changes are not used
THREAD_STATES = ("on_disk", "ready")
"""Columns of `ClassDeltas`: threads of statements seen waiting for a disk, or runnable."""
SEEN_WAITING = "seen_waiting"
"""Column of `ClassDeltas`: how long statements waited for locks that the server does not count for
their class, s, as if those that wait at the reading did so for the whole interval."""
UNKNOWN_AGE = -1.0  # seconds
FIRST_SEEN_TOLERANCE = 1.0  # seconds: FIRST_SEEN has no fraction on MariaDB


class LossReason(StrEnum):
    """Why an interval, or what a class did in it, is not known."""

    RESTART = "restart"  # the server restarted
    RESET = "reset"  # the table was emptied, or a row of it
    GAP = "gap"  # nothing was read for too long
    COLUMNS = "columns"  # the table has other columns than before, or one is not measured
    UNSEEN = "unseen"  # an old row that was not read before: its first interval
    FULL = "full"  # the table is full: classes that are new to it are counted as one
    CHURN = "churn"  # too many classes to remember: all but the largest were forgotten


@dataclass(frozen=True, slots=True, eq=False)
class ClassDeltas:
    """The statements of each class between two readings; each class occurs once."""

    names: tuple[str, ...]
    classes: ClassNumbers
    """Shape (n,)."""
    values: Array
    """Shape (n, names)."""
    in_flight: Array
    """Change of the elapsed time of statements that still run, s, shape (n,)."""
    lock_waits: float | None = None
    """Time of all classes' waits for metadata locks, s; None if it is not known."""
    lock_time_includes_opening: bool = False
    """Whether the lock time includes parsing the statement and opening its tables."""


@dataclass(slots=True, eq=False)
class _LatestReading:
    """The latest reading: the index of each row, the row of each class, and the sums by index."""

    names: tuple[str, ...]
    running: dict[int, float]
    last: Array
    index_by_key: dict[str, int] = field(default_factory=dict)
    index_by_class: dict[str, int] = field(default_factory=dict)
    classes: list[int] = field(default_factory=list)

    def is_reset(self, rows: DigestRows) -> bool:
        """Return whether a sum has fallen, or a class has a new row instead of its former one."""
        indices = np.array([self.index_by_key.get(key, -1) for key in rows.keys], dtype=np.intp)
        known = indices >= 0
        now, before = rows.counters[known], self.last[indices[known]]
        if (now < before).any() or (now[:, -1] != before[:, -1]).any():
            return True
        if known.all():
            return False
        present = set(indices.tolist())
        for key, index in zip(rows.keys, indices.tolist(), strict=True):
            earlier = self.index_by_class.get(_class_of(key)) if index < 0 else None
            if earlier is not None and earlier not in present:
                return True
        return False

    def find(self, rows: DigestRows, registry: ClassRegistry) -> tuple[ClassNumbers, Mask]:
        """Return the index of every row, new ones included, and which are new."""
        known = len(self.index_by_key)
        found = []
        for key in rows.keys:
            index = self.index_by_key.get(key)
            if index is None:
                index = self.index_by_key[key] = len(self.index_by_key)
                self.index_by_class[_class_of(key)] = index
                self.classes.append(registry.number(_class_of(key)))
            found.append(index)
        if len(self.index_by_key) > len(self.last):
            count = len(self.index_by_key)
            room = np.zeros((count + len(self.last) // 2, rows.counters.shape[1]))
            room[: len(self.last)] = self.last
            self.last = room
        indices = np.array(found, dtype=np.intp)
        return indices, indices >= known

    def keep(self, rows: DigestRows, running: dict[int, float], registry: ClassRegistry) -> None:
        """Keep the sums of these rows, and what runs; the rows that are not read stay."""
        indices, _ = self.find(rows, registry)
        self.last[indices], self.running = rows.counters, running


class DigestDeltas:
    """Compares each reading with the latest one. Memory is bounded by the server's table."""

    def __init__(self, registry: ClassRegistry) -> None:
        self.lost: Counter[LossReason] = Counter()
        self._registry = registry
        self._latest: _LatestReading | None = None
        self._undigested = UndigestedStatements(None)
        self._lock_waits: float | None = None

    def forget(self, why: LossReason) -> None:
        """Start again with the next reading, whose changes are lost for the reason `why`."""
        if self._latest is not None:
            self.lost[why] += 1
        self._latest = None

    def take(self, rows: DigestRows, *, restarted: bool = False) -> ClassDeltas | None:
        """Return the changes since the previous reading; None if they are not known.

        `restarted`: the server was started in between.
        """
        rows = _merge_duplicates(rows)
        lock_waits = self._lock_wait_increase(rows.lock_waits)
        running = self._by_number(rows.running)
        latest = self._latest
        reason = self._loss_reason(latest, rows, restarted) if latest is not None else None
        if latest is None or reason is not None:
            self._start_again(rows, running, reason)
            return None
        before = latest.running
        change, class_of_row = self._row_changes(latest, rows)
        if rows.complete:  # forget the rows that no longer exist
            latest = self._latest = self._start_from(rows, running)
        states = self._thread_states(rows)
        active = sorted(before.keys() | running.keys() | {n for state in states for n in state})
        changes = _sum_by_class(rows.names, class_of_row, change, before, running, active)
        if not rows.complete:  # else also that of statements whose class has no row: a full table
            changes = _with_time_that_has_ended(changes)
        latest.running = _time_counted_ahead(changes, before, active)
        columns = dict(zip(THREAD_STATES, states, strict=False))
        if LOCK_TIME in changes.names:
            locked = self._by_number(rows.waiting_for_locks)
            columns[SEEN_WAITING] = {n: (rows.since or 0.0) * k for n, k in locked.items()}
            opens = rows.lock_time_includes_opening
            changes = replace(changes, lock_waits=lock_waits, lock_time_includes_opening=opens)
        return _with_columns(changes, columns) if columns else changes

    def _start_again(
        self, rows: DigestRows, running: dict[int, float], reason: LossReason | None
    ) -> None:
        """Compare the next reading with this one, whose changes are lost for the reason, if any."""
        latest = self._latest
        if reason is not None:
            self.lost[reason] += 1
        if latest is not None and reason is LossReason.GAP and not latest.is_reset(rows):
            latest.keep(rows, running, self._registry)  # what was not used is as before
        else:
            latest = None
        if latest is None or rows.complete:
            self._latest = self._start_from(rows, running)
        self._undigested = UndigestedStatements(rows.all_statements)

    def _row_changes(self, latest: _LatestReading, rows: DigestRows) -> tuple[Array, ClassNumbers]:
        """Compute the increases of all rows, shape (rows, names), and the class of each row.

        One more row has what no digest covers; old rows that were not read before count as lost.
        """
        indices, is_new_row = latest.find(rows, self._registry)
        change = rows.counters - latest.last[indices]
        unseen = is_new_row & ~_is_new(rows)
        change[unseen] = 0.0
        self.lost[LossReason.UNSEEN] += int(np.count_nonzero(unseen))
        latest.last[indices] = rows.counters
        class_of_row = np.array([latest.classes[i] for i in indices.tolist()], dtype=np.intp)
        covered = None if unseen.any() else change[:, :-1].sum(axis=0)
        undigested = self._undigested.take(rows.all_statements, covered)
        return self._with_undigested(undigested, change[:, :-1], class_of_row)

    def _thread_states(self, rows: DigestRows) -> list[dict[int, float]]:
        """Return the numbers of threads in each of `THREAD_STATES` by class; none if unknown."""
        seen = rows.thread_states
        return [] if seen is None else [self._by_number(seen.on_disk), self._by_number(seen.ready)]

    def _loss_reason(
        self, latest: _LatestReading, rows: DigestRows, restarted: bool
    ) -> LossReason | None:
        """Return why the changes since the latest reading are not known; None if they are."""
        if restarted:
            return LossReason.RESTART
        if rows.names != latest.names:
            return LossReason.COLUMNS
        if rows.since is None or is_gap(rows):
            return LossReason.GAP
        if latest.is_reset(rows):
            return LossReason.RESET
        is_unmeasured = self._undigested.is_unmeasured(rows.names, rows.all_statements)
        return LossReason.COLUMNS if is_unmeasured else None

    def _lock_wait_increase(self, total: float | None) -> float | None:
        """Return the increase of the time of all waits for locks, s; None if it is not known."""
        before, self._lock_waits = self._lock_waits, total
        return None if before is None or total is None else max(total - before, 0.0)

    def _by_number(self, counts: Mapping[str, float]) -> dict[int, float]:
        """Return the values by the number of the class."""
        return {self._registry.number(key): count for key, count in counts.items()}

    def _with_undigested(
        self, undigested: Array | None, change: Array, class_of_row: ClassNumbers
    ) -> tuple[Array, ClassNumbers]:
        """Add the part without a digest, shape (names,), as a row of its own."""
        if undigested is None or not undigested.any():
            return change, class_of_row
        return np.vstack((change, undigested)), np.append(class_of_row, self._registry.number(NONE))

    def _start_from(self, rows: DigestRows, running: dict[int, float]) -> _LatestReading:
        """Return these rows as the latest reading."""
        latest = _LatestReading(rows.names, running, np.zeros((0, rows.counters.shape[1])))
        latest.keep(rows, running, self._registry)
        return latest


def is_gap(rows: DigestRows) -> bool:
    """Return whether nothing was read for too long before these rows."""
    return rows.since is not None and rows.since > MAX_GAP


def _is_new(rows: DigestRows) -> Mask:
    """Return which rows were created after the previous reading, by the server's clock."""
    since = rows.since or 0.0
    new: Mask = (rows.age >= 0) & (rows.age <= since + FIRST_SEEN_TOLERANCE)
    return new


def _sum_by_class(
    names: tuple[str, ...],
    class_of_row: ClassNumbers,
    change: Array,
    before: dict[int, float],
    running: dict[int, float],
    active: Sequence[int],
) -> ClassDeltas:
    """Sum the rows of each class; `active` are the classes that run, ran or were seen running."""
    has_changed = change.any(axis=1)
    all_classes = np.concatenate((class_of_row[has_changed], np.array(active, dtype=np.intp)))
    classes, place = np.unique(all_classes, return_inverse=True)
    values = np.zeros((len(classes), len(names)))
    count = int(np.count_nonzero(has_changed))
    np.add.at(values, place[:count], change[has_changed])
    in_flight = np.zeros(len(classes))
    in_flight[place[count:]] = [running.get(n, 0.0) - before.get(n, 0.0) for n in active]
    return ClassDeltas(names, classes, values, in_flight)


def _time_counted_ahead(
    changes: ClassDeltas, before: Mapping[int, float], active: Sequence[int]
) -> dict[int, float]:
    """Return the time of running statements that was counted before they ended, s, by class."""
    rises = changes.in_flight[np.searchsorted(changes.classes, active)].tolist()
    counted = {n: before.get(n, 0.0) + rise for n, rise in zip(active, rises, strict=True)}
    return {n: elapsed for n, elapsed in counted.items() if elapsed > 0}


def _with_time_that_has_ended(changes: ClassDeltas) -> ClassDeltas:
    """Take back no more time in flight than has ended.

    A statement that ends between the readings of the table and of what runs is in neither; the next
    reading of the table has it.
    """
    if STATEMENT_TIME not in changes.names:
        return changes
    ended = changes.values[:, changes.names.index(STATEMENT_TIME)]
    return replace(changes, in_flight=np.maximum(changes.in_flight, -ended))


def _with_columns(changes: ClassDeltas, columns: Mapping[str, Mapping[int, float]]) -> ClassDeltas:
    """Add what was seen of each class's threads: for each column a number by class."""
    classes = changes.classes.tolist()
    nothing = [0.0] * len(classes)
    seen = [
        [counts.get(number, 0.0) for number in classes] if counts else nothing
        for counts in columns.values()
    ]
    values = np.column_stack((changes.values, *seen))
    return replace(changes, names=(*changes.names, *columns), values=values)


def _class_of(key: str) -> str:
    return sys.intern(key.partition("|")[2])  # also kept by the registry, and by other targets


def _merge_duplicates(rows: DigestRows) -> DigestRows:
    """Add up rows that cannot be distinguished; the last column is the number of rows in each."""
    ones = np.ones((len(rows.keys), 1))
    counters = np.hstack((rows.counters, ones))
    if len(set(rows.keys)) == len(rows.keys):
        return replace(rows, counters=counters)
    place = {key: i for i, key in enumerate(dict.fromkeys(rows.keys))}
    indexes = np.array([place[key] for key in rows.keys], dtype=np.intp)
    summed, age = np.zeros((len(place), counters.shape[1])), np.full(len(place), UNKNOWN_AGE)
    np.add.at(summed, indexes, counters)
    np.maximum.at(age, indexes, rows.age)
    return replace(rows, keys=list(place), counters=summed, age=age)
