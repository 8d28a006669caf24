"""From the sums of the digest table to what happened between two readings of it.

A row is known by schema, digest and FIRST_SEEN, so a row that was created again is another one, and
rows of one class (there may be several) are added up afterwards. What cannot be known is lost and
counted, never guessed: no change is negative, and none is a sum since the server's start.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from agent.query_classes.class_registry import NONE, ClassRegistry, Numbers
from collectors.digest_table import LOCK_TIME, Array
from collectors.digests import DigestRows

MAX_GAP = 120.0  # seconds between two readings over which changes still mean something
THREAD_STATES = ("on_disk", "ready")
"""Columns of `Changes`: threads of statements that were seen to wait for a disk, or could run."""
SEEN_WAITING = "seen_waiting"
"""Column of `Changes`: for how long statements waited for locks that the server does not count for
their class, as if those that wait at the reading did so for the whole interval, s."""
SLACK_SECONDS = 1.0  # seconds: FIRST_SEEN has no fraction on MariaDB


class UndigestedStatements:
    """Statements without a digest: the sums of all statements less those of the digests' rows.

    MariaDB has no digest for statements of the binary protocol. Their time is not that of others.

    All statements are read first, so one that ends between the two is in the digests alone: what
    the digests are ahead is remembered, and counts in no later reading. The first time the digests
    are read first, for what ended between would count as having none.
    """

    def __init__(self, everything: Array | None) -> None:
        self._last = everything
        self._ahead: Array = np.zeros(0)

    def take(self, everything: Array | None, covered: Array) -> Array | None:
        """What rose without the digests, shape (names,), at least 0; None where it is not known.

        `covered` is by how much the digests rose since the reading before.
        """
        before, self._last = self._last, everything
        if before is None or everything is None:
            return None
        if (everything < before).any():  # somebody emptied the table
            self._ahead = np.zeros(0)
            return None
        ahead = self._ahead if self._ahead.size else np.zeros_like(covered)
        rest = everything - before - covered - ahead
        self._ahead = np.maximum(-rest, 0.0)
        return np.maximum(rest, 0.0)


class Lost(StrEnum):
    """Why an interval, or what a class did in it, is not known."""

    RESTART = "restart"  # the server restarted
    RESET = "reset"  # the table was emptied, or a row of it
    GAP = "gap"  # nothing was read for too long
    COLUMNS = "columns"  # the table has other columns than before
    UNSEEN = "unseen"  # a row that is old and was not read before: its first interval
    FULL = "full"  # the table is full: classes that are new to it are one
    CHURN = "churn"  # too many classes to remember: all but the greatest are new again


Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """What the classes did between two readings; each class once."""

    names: tuple[str, ...]
    classes: Numbers
    """Shape (n,)."""
    values: Array
    """Shape (n, names)."""
    in_flight: Array
    """Change of the elapsed time of statements that still run, s, shape (n,)."""
    lock_waits: float | None = None
    """Time of all classes' waits for metadata locks, s; None where it is not known."""


@dataclass(slots=True, eq=False)
class _Memory:
    """The latest reading: where each row is, which row a class has, and the sums by place."""

    names: tuple[str, ...]
    running: dict[int, float]
    last: Array
    places: dict[str, int] = field(default_factory=dict)
    row_of: dict[str, int] = field(default_factory=dict)
    classes: list[int] = field(default_factory=list)

    def is_reset(self, rows: DigestRows) -> bool:
        """Whether a sum has fallen, or a class has a new row in place of the one it had."""
        places = [self.places.get(key, -1) for key in rows.keys]
        found = np.array(places, dtype=np.intp)
        known = found >= 0
        now, before = rows.counters[known], self.last[found[known]]
        if (now < before).any() or (now[:, -1] != before[:, -1]).any():
            return True
        here = set(places)
        for key, place in zip(rows.keys, places, strict=True):
            earlier = self.row_of.get(_class_of(key)) if place < 0 else None
            if earlier is not None and earlier not in here:
                return True
        return False

    def find(self, rows: DigestRows, registry: ClassRegistry) -> tuple[Numbers, Flags]:
        """The place of every row, new ones included, and which are new."""
        known = len(self.places)
        slots = np.empty(len(rows.keys), dtype=np.intp)
        for i, key in enumerate(rows.keys):
            place = self.places.get(key)
            if place is None:
                place = self.places[key] = len(self.places)
                self.row_of[_class_of(key)] = place
                self.classes.append(registry.number(_class_of(key)))
            slots[i] = place
        if len(self.places) > len(self.last):
            room = np.zeros((2 * len(self.places), rows.counters.shape[1]))
            room[: len(self.last)] = self.last
            self.last = room
        return slots, slots >= known


class DigestDeltas:
    """Remembers the rows of the latest reading. Memory is bounded by the server's table."""

    def __init__(self, registry: ClassRegistry) -> None:
        self.lost: Counter[Lost] = Counter()
        self._registry = registry
        self._memory: _Memory | None = None
        self._uncovered = UndigestedStatements(None)
        self._lock_waits: float | None = None

    def forget(self, why: Lost) -> None:
        """Start again with the next reading, which is lost."""
        if self._memory is not None:
            self.lost[why] += 1
        self._memory = None

    def take(self, rows: DigestRows, *, restarted: bool = False) -> Changes | None:
        """The changes since the previous reading; None where they are not known.

        `restarted`: the server was started between both.
        """
        rows = _merged(rows)
        waited = self._waited(rows.lock_waits)
        running = {self._registry.number(key): seconds for key, seconds in rows.running.items()}
        memory = self._memory
        why = _why_not(memory, rows, restarted) if memory is not None else None
        if memory is None or why is not None:
            if why is not None:
                self.lost[why] += 1
            self._memory = self._begun(rows, running)
            self._uncovered = UndigestedStatements(rows.everything)
            return None
        slots, fresh = memory.find(rows, self._registry)
        change = rows.counters - memory.last[slots]
        unseen = fresh & ~_is_new(rows)
        change[unseen] = 0.0
        self.lost[Lost.UNSEEN] += int(np.count_nonzero(unseen))
        memory.last[slots] = rows.counters
        of_row = np.array(memory.classes, dtype=np.intp)[slots]
        before, memory.running = memory.running, running
        if rows.complete:  # rows that are no longer there are let go
            self._memory = self._begun(rows, running)
        change, of_row = self._with_uncovered(rows, change[:, :-1], of_row)
        seen = rows.threads
        looks = [] if seen is None else [self._by_number(seen.on_disk), self._by_number(seen.ready)]
        flights = before.keys() | running.keys() | {number for state in looks for number in state}
        changes = _summed(rows.names, of_row, change, before, running, sorted(flights))
        columns = dict(zip(THREAD_STATES, looks, strict=False))
        if LOCK_TIME in changes.names:
            locked = self._by_number(rows.locked)
            columns[SEEN_WAITING] = {n: (rows.since or 0.0) * k for n, k in locked.items()}
            changes = replace(changes, lock_waits=waited)
        return _with_columns(changes, columns) if columns else changes

    def _waited(self, total: float | None) -> float | None:
        """By how much the time of all waits for locks rose, s; None where it is not known."""
        before, self._lock_waits = self._lock_waits, total
        return None if before is None or total is None else max(total - before, 0.0)

    def _by_number(self, counts: Mapping[str, float]) -> dict[int, float]:
        return {self._registry.number(key): count for key, count in counts.items()}

    def _with_uncovered(
        self, rows: DigestRows, change: Array, of_row: Numbers
    ) -> tuple[Array, Numbers]:
        """Add the part without a digest as a row of its own."""
        rest = self._uncovered.take(rows.everything, change.sum(axis=0))
        if rest is None or not rest.any():
            return change, of_row
        return np.vstack((change, rest)), np.append(of_row, self._registry.number(NONE))

    def _begun(self, rows: DigestRows, running: dict[int, float]) -> _Memory:
        memory = _Memory(rows.names, running, np.zeros((0, rows.counters.shape[1])))
        slots, _ = memory.find(rows, self._registry)
        memory.last[slots] = rows.counters
        return memory


def _why_not(memory: _Memory, rows: DigestRows, restarted: bool) -> Lost | None:
    if restarted:
        return Lost.RESTART
    if rows.names != memory.names:
        return Lost.COLUMNS
    if rows.since is None or rows.since > MAX_GAP:
        return Lost.GAP
    return Lost.RESET if memory.is_reset(rows) else None


def _is_new(rows: DigestRows) -> Flags:
    """Whether a row was made after the reading before, by the server's clock."""
    since = rows.since or 0.0
    new: Flags = (rows.age >= 0) & (rows.age <= since + SLACK_SECONDS)
    return new


def _summed(
    names: tuple[str, ...],
    of_row: Numbers,
    change: Array,
    before: dict[int, float],
    running: dict[int, float],
    flights: Sequence[int],
) -> Changes:
    """Sum up the rows of each class; `flights` are those that run, ran or were seen to run."""
    moved = change.any(axis=1)
    everybody = np.concatenate((of_row[moved], np.array(flights, dtype=np.intp)))
    classes, place = np.unique(everybody, return_inverse=True)
    values = np.zeros((len(classes), len(names)))
    count = int(np.count_nonzero(moved))
    np.add.at(values, place[:count], change[moved])
    in_flight = np.zeros(len(classes))
    in_flight[place[count:]] = [running.get(n, 0.0) - before.get(n, 0.0) for n in flights]
    return Changes(names, classes, values, in_flight)


def _with_columns(changes: Changes, columns: Mapping[str, Mapping[int, float]]) -> Changes:
    """Add what was seen of each class's threads, a number by class for each column."""
    seen = [
        [counts.get(int(number), 0.0) for number in changes.classes] for counts in columns.values()
    ]
    values = np.column_stack((changes.values, *seen))
    return replace(changes, names=(*changes.names, *columns), values=values)


def _class_of(key: str) -> str:
    return key.partition("|")[2]


def _merged(rows: DigestRows) -> DigestRows:
    """Add up rows that cannot be distinguished; the last column is the number of rows in each."""
    ones = np.ones((len(rows.keys), 1))
    counters = np.hstack((rows.counters, ones))
    if len(set(rows.keys)) == len(rows.keys):
        return replace(rows, counters=counters)
    place = {key: i for i, key in enumerate(dict.fromkeys(rows.keys))}
    to = np.array([place[key] for key in rows.keys], dtype=np.intp)
    summed, age = np.zeros((len(place), counters.shape[1])), np.zeros(len(place))
    np.add.at(summed, to, counters)
    np.maximum.at(age, to, rows.age)
    return replace(rows, keys=list(place), counters=summed, age=age)
