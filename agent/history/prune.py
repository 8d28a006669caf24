"""Deletion of rows that are older than their retention, and of the oldest when the file is full.

Each step is small, so that a write never waits for long.
"""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from agent.history import class_uses
from agent.history.database import MAX_LOG_BYTES
from agent.history.history_file import size
from agent.history.record_types import CLASSES, KINDS, SAMPLES, Kind

ROWS_PER_STEP = 500  # rows, or chunks of samples, that one step takes of one kind and target
PAGES_PER_STEP = 1000  # free pages that one step gives back to the file system
MAX_SLICE_MILLISECONDS = 86_400_000  # ms: where the clock is wrong by years, a slice is not
MAX_SLICES = 20  # into which all the time there is is cut; the oldest slice goes at a time


def forget(
    connection: sqlite3.Connection,
    kind: Kind,
    before: int,
    limit: int = ROWS_PER_STEP,
    target: str | None = None,
) -> int:
    """Delete up to `limit` of the oldest rows of a kind that are before that (ms), of each target.

    With `target` of that one alone. Answers how many rows have gone; a chunk of samples goes when
    its last one may.
    """
    count = "count" if kind is SAMPLES else "1"
    key = "rowid" if kind is SAMPLES else "at"
    gone = 0
    which = "SELECT id FROM target WHERE name = IFNULL(?, name)"
    for (number,) in connection.execute(which, (target,)).fetchall():
        found = connection.execute(
            f"SELECT {key}, {count} FROM {kind.one} WHERE target = ? AND at < ?"  # noqa: S608
            " ORDER BY at LIMIT ?",
            (number, before, limit),
        ).fetchall()
        sql = f"DELETE FROM {kind.one} WHERE target = ? AND {key} = ?"  # noqa: S608
        deleted = connection.executemany(sql, ((number, row) for row, _ in found)).rowcount
        gone += sum(rows for _, rows in found) if kind is SAMPLES else deleted
    return gone


def forget_targets(connection: sqlite3.Connection) -> None:
    """Delete the names of targets and of query classes of which nothing is left."""
    left = " AND ".join(
        f"NOT EXISTS (SELECT 1 FROM {kind.one} WHERE target = target.id)"  # noqa: S608
        for kind in KINDS.values()
    )
    connection.execute(f"DELETE FROM target WHERE {left}")  # noqa: S608
    class_uses.forget_names(connection, oldest(connection, CLASSES))


def oldest(connection: sqlite3.Connection, kind: Kind) -> int | None:
    """The time (ms) of the oldest row of a kind; None where there is none."""
    sql = f"SELECT MIN((SELECT MIN(at) FROM {kind.one} WHERE target = target.id)) FROM target"  # noqa: S608
    (found,) = connection.execute(sql).fetchone()
    return found if found is None else int(found)


def give_back(connection: sqlite3.Connection, most: int) -> None:
    """Return up to this number of free pages to the file system, outside a transaction.

    A script, since `execute` would take one step of the statement, which is one page.
    """
    connection.executescript(f"PRAGMA incremental_vacuum({most})")


def pages(connection: sqlite3.Connection) -> tuple[int, int]:
    """The bytes of the pages that hold something, and how many pages are free."""
    count, free, each = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (count - free) * each, free


def step(
    connection: sqlite3.Connection,
    path: Path,
    cutoffs: Mapping[str, int],
    max_size: int,
    now: int,
) -> tuple[dict[str, int], bool]:
    """One small step: the rows that went, by kind, and whether there is more to do at once.

    `cutoffs` say before when rows of a kind are too old; they and `now` are in ms since 1970.
    `path` is the file.
    """
    connection.execute("BEGIN IMMEDIATE")
    gone = {name: forget(connection, KINDS[name], before) for name, before in cutoffs.items()}
    if not any(gone.values()) and pages(connection)[0] > max_size - MAX_LOG_BYTES:
        gone = _forget_oldest(connection, now)
    if any(gone.values()):
        forget_targets(connection)
    connection.execute("COMMIT")
    free = pages(connection)[1]
    give_back(connection, PAGES_PER_STEP)
    more = any(gone.values()) or 0 < pages(connection)[1] < free
    if not more and size(path) > max_size:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return gone, more


def _forget_oldest(connection: sqlite3.Connection, now: int) -> dict[str, int]:
    """The oldest slice of all the time there is, a day at most, whatever the kind."""
    starts = [at for kind in KINDS.values() if (at := oldest(connection, kind)) is not None]
    if not starts:
        return {}
    first = min(starts)
    before = first + min(max((now - first) // MAX_SLICES, 1), MAX_SLICE_MILLISECONDS)
    return {name: forget(connection, kind, before) for name, kind in KINDS.items()}
