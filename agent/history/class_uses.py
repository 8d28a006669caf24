"""The use by query classes, in rows of a time and a class; the name of a class is stored once."""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agent.history.row_kinds import CLASSES, Row
from agent.query_classes.capacity_gain import CapacityGain

PAGE_ROWS = 1000  # rows read at once, plus the others with the time of the last one
NAMES = [column.name for column in CLASSES.columns]
SUMMED = ("calls", "statement_time", "cpu", "cpu_error", "read", "written")


class StoredClassUse(NamedTuple):
    """The use by one class over a period; None if unknown."""

    name: str
    calls: float | None
    statement_time: float | None
    cpu: float | None
    cpu_error: float | None
    """Sum of the intervals' standard errors: they share the model, so they are not independent."""
    read: float | None
    written: float | None
    waits: float | None
    """The share of the intervals in which it was seen waiting."""


class StoredSpan(NamedTuple):
    """The stored intervals of one server: their seconds in all; times in ms.

    An interval is stored at its end: the first one begins before `first`, at `begin`.
    """

    target: int
    seconds: float
    begin: int
    first: int
    last: int


def insert(connection: sqlite3.Connection, target: int, rows: Iterable[Row]) -> int:
    """Add rows of one target; return how many of them are new."""
    marks = ", ".join("?" * (3 + len(NAMES)))
    sql = (
        f"INSERT OR IGNORE INTO class_use (target, at, class, {', '.join(NAMES)})"  # noqa: S608
        f" VALUES ({marks})"
    )
    added = 0
    for row in rows:
        class_id = _class_id(connection, row.labels[-1], row.at)
        added += connection.execute(sql, (target, row.at, class_id, *row.cells)).rowcount
    return added


def read(
    connection: sqlite3.Connection, target: int, labels: tuple[str, ...], since: int, until: int
) -> Iterator[Row]:
    """Yield rows of a target by time and name, a page at a time; times in ms, `until` included."""
    columns = ", ".join(NAMES)
    page_end = (
        "SELECT at FROM class_use WHERE target = :target AND at > :after AND at <= :until"  # noqa: S608
        f" ORDER BY at LIMIT 1 OFFSET {PAGE_ROWS - 1}"
    )
    sql = (
        f"SELECT name, class_use.at, {columns} FROM class_use"  # noqa: S608  (our names)
        " JOIN query_class ON id = class"
        " WHERE target = :target AND class_use.at > :after"
        f" AND class_use.at <= IFNULL(({page_end}), :until) ORDER BY class_use.at, name"
    )
    after = since - 1
    while page := connection.execute(
        sql, {"target": target, "after": after, "until": until}
    ).fetchall():
        for name, at, *cells in page:
            yield Row((*labels, name), at, tuple(cells))
        after = page[-1][1]


def delete_unused_names(connection: sqlite3.Connection, oldest: int | None) -> None:
    """Delete the names without rows; `oldest` (ms) is the oldest row's time, None without rows."""
    connection.execute("DELETE FROM query_class WHERE at < IFNULL(?, at + 1)", (oldest,))


def latest_span(
    connection: sqlite3.Connection, target: str, since: int, until: int
) -> StoredSpan | None:
    """Return the span of the stored intervals of a target's latest server in that time (ms)."""
    found = connection.execute(
        "SELECT target.id, MIN(at), MAX(at) FROM class_use"
        " JOIN target ON target.id = class_use.target"
        " WHERE name = ? AND at > ? AND at <= ? GROUP BY target.id ORDER BY MAX(at) DESC LIMIT 1",
        (target, since, until),
    ).fetchone()
    if found is None:
        return None
    target_id, first, last = found
    lengths = connection.execute(
        "SELECT MAX(seconds) FROM class_use WHERE target = ? AND at > ? AND at <= ?"
        " GROUP BY at ORDER BY at",
        (target_id, since, until),
    ).fetchall()
    seconds = [float(length) for (length,) in lengths]
    begin = first - round(1000 * seconds[0])
    return StoredSpan(target_id, sum(seconds), begin, first, last)


def uses(connection: sqlite3.Connection, span: StoredSpan) -> list[StoredClassUse]:
    """Return what each class used in that span, in no particular order."""
    sums = ", ".join(f"SUM({name})" for name in SUMMED)
    rows = connection.execute(
        f"SELECT name, {sums}, AVG(waits) FROM class_use"  # noqa: S608
        " JOIN query_class ON id = class"
        " WHERE target = ? AND class_use.at BETWEEN ? AND ? GROUP BY class",
        (span.target, span.first, span.last),
    )
    return [StoredClassUse(*row) for row in rows]


def cpu_methods(connection: sqlite3.Connection, span: StoredSpan) -> set[str]:
    """Return the methods by which CPU was divided in that span."""
    rows = connection.execute(
        "SELECT DISTINCT cpu_source FROM class_use WHERE target = ? AND at BETWEEN ? AND ?",
        (span.target, span.first, span.last),
    )
    return {str(source) for (source,) in rows if source is not None}


def latest_gains(connection: sqlite3.Connection, span: StoredSpan) -> dict[str, CapacityGain]:
    """Return the latest capacity gain of each class in that span."""
    rows = connection.execute(
        "SELECT name, removed_gain, halved_gain, MAX(class_use.at) FROM class_use"
        " JOIN query_class ON id = class WHERE target = ? AND class_use.at BETWEEN ? AND ?"
        " AND removed_gain IS NOT NULL GROUP BY class",
        (span.target, span.first, span.last),
    )
    return {name: CapacityGain(removed, halved) for name, removed, halved, _ in rows}


def _class_id(connection: sqlite3.Connection, name: str, at: int) -> int:
    """Return the id of a class, which is inserted if missing, with the time of its row (ms)."""
    sql = (
        "INSERT INTO query_class (name, at) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET at = MAX(at, excluded.at)"
    )
    connection.execute(sql, (name, at))
    found = connection.execute("SELECT id FROM query_class WHERE name = ?", (name,)).fetchone()
    return int(found[0])
