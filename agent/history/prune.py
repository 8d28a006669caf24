"""Deletion of rows that exceed their retention, and of the oldest rows when the file is full.

Each step is small, so that a write never waits for long.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

from agent.history import class_uses
from agent.history.history_file import size_on_disk
from agent.history.open_database import MAX_LOG_BYTES
from agent.history.row_kinds import CLASSES, KINDS, SAMPLES, RowKind

ROWS_PER_STEP = 500  # rows, or chunks of samples, deleted per step of one kind and target
PAGES_PER_STEP = 1000  # free pages that one step returns to the file system
LESS_PER_STEP = 8  # how many times less a step does for which the disk has no room
MAX_SLICE_MILLISECONDS = 86_400_000  # ms: limits a slice if the clock is wrong by years
MAX_SLICES = 20  # slices of the whole stored time; one is deleted at a time, the oldest


def delete_rows(
    connection: sqlite3.Connection,
    kind: RowKind,
    before: int,
    target: str | None = None,
    most: int = ROWS_PER_STEP,
) -> int:
    """Delete up to `most` of the oldest rows of a kind before a time (ms), of each target.

    With `target`, only those of that one. Returns the number of rows deleted; a chunk of samples is
    deleted once its last sample is before that time.
    """
    key, count, layout = ("rowid", "count", "layout") if kind is SAMPLES else ("at", "1", "NULL")
    total, layouts = 0, set()
    targets_sql = "SELECT id FROM target WHERE name = IFNULL(?, name)"
    for (number,) in connection.execute(targets_sql, (target,)).fetchall():
        found = connection.execute(
            f"SELECT {key}, {count}, {layout} FROM {kind.one} WHERE target = ? AND at < ?"  # noqa: S608
            " ORDER BY at LIMIT ?",
            (number, before, most),
        ).fetchall()
        sql = f"DELETE FROM {kind.one} WHERE target = ? AND {key} = ?"  # noqa: S608
        deleted = connection.executemany(sql, ((number, row) for row, *_ in found)).rowcount
        total += sum(rows for _, rows, _ in found) if kind is SAMPLES else deleted
        layouts |= {used for *_, used in found if used is not None}
    _delete_unused_layouts(connection, layouts)
    return total


def delete_all_rows(
    connection: sqlite3.Connection, kind: RowKind, before: int, target: str | None
) -> int:
    """Delete all rows of a kind before a time (ms), and free their disk space; return their number.

    With `target`, only those of that one.
    """
    names = connection.execute(
        "SELECT DISTINCT name FROM target WHERE name = IFNULL(?, name)", (target,)
    ).fetchall()
    return sum(_delete_rows_of_target(connection, kind, before, name) for (name,) in names)


def _delete_rows_of_target(
    connection: sqlite3.Connection, kind: RowKind, before: int, target: str
) -> int:
    """Delete one target's rows before a time (ms) in steps; return their number.

    Each step returns its space before the next, so that the log needs room for one step only. A
    step for which the disk has no room is repeated with less.
    """
    rows, pages, total = ROWS_PER_STEP, PAGES_PER_STEP, 0
    has_more = True
    while has_more:
        free = used_bytes_and_free_pages(connection)[1]
        try:
            deleted = _delete_step(connection, kind, before, target, rows)
            total += deleted
            release_free_pages(connection, pages)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL or rows == pages == 1:
                raise
            rows, pages = max(rows // LESS_PER_STEP, 1), max(pages // LESS_PER_STEP, 1)
        else:
            has_more = deleted > 0 or 0 < used_bytes_and_free_pages(connection)[1] < free
    return total


def _delete_step(
    connection: sqlite3.Connection, kind: RowKind, before: int, target: str, most: int
) -> int:
    """Delete a few rows in a transaction, for which a running agent waits only a moment."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        deleted = delete_rows(connection, kind, before, target, most)
        if deleted:
            delete_unused_names(connection)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return deleted


def _delete_unused_layouts(connection: sqlite3.Connection, layouts: Iterable[int]) -> None:
    """Delete those of the layouts, whose samples were deleted, that no other sample has.

    Mostly the oldest sample that is left has it, and the search ends there.
    """
    sql = (
        "DELETE FROM layout WHERE id = ?"
        " AND NOT EXISTS (SELECT 1 FROM sample WHERE sample.layout = layout.id)"
    )
    connection.executemany(sql, ((layout,) for layout in layouts))


def delete_unused_names(connection: sqlite3.Connection) -> None:
    """Delete the names of targets and of query classes that have no rows left."""
    left = " AND ".join(
        f"NOT EXISTS (SELECT 1 FROM {kind.one} WHERE target = target.id)"  # noqa: S608
        for kind in KINDS.values()
    )
    connection.execute(f"DELETE FROM target WHERE {left}")  # noqa: S608
    class_uses.delete_unused_names(connection, oldest(connection, CLASSES))


def oldest(connection: sqlite3.Connection, kind: RowKind) -> int | None:
    """Return the time (ms) of the oldest row of a kind; None if there is none."""
    sql = f"SELECT MIN((SELECT MIN(at) FROM {kind.one} WHERE target = target.id)) FROM target"  # noqa: S608
    (found,) = connection.execute(sql).fetchone()
    return found if found is None else int(found)


def release_free_pages(connection: sqlite3.Connection, most: int) -> None:
    """Return up to `most` free pages to the file system, outside a transaction.

    It is executed as a script: `execute` would take one step of the statement, which is one page.
    """
    connection.executescript(f"PRAGMA incremental_vacuum({most})")


def used_bytes_and_free_pages(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return the bytes of the pages in use, and the number of free pages."""
    count, free, page_size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (count - free) * page_size, free


def step(
    connection: sqlite3.Connection,
    path: Path,
    cutoffs: Mapping[str, int],
    max_size: int,
    now: int,
) -> tuple[dict[str, int], bool]:
    """Take one small step; return the rows deleted, by kind, and whether more can be done now.

    `cutoffs` has for each kind the time before which rows are too old; these times and `now` are in
    ms since 1970. `path` is the file.
    """
    connection.execute("BEGIN IMMEDIATE")
    deleted = {
        name: delete_rows(connection, KINDS[name], before) for name, before in cutoffs.items()
    }
    if (
        not any(deleted.values())
        and used_bytes_and_free_pages(connection)[0] > max_size - MAX_LOG_BYTES
    ):
        deleted = _delete_oldest_slice(connection, now)
    if any(deleted.values()):
        delete_unused_names(connection)
    connection.execute("COMMIT")
    free = used_bytes_and_free_pages(connection)[1]
    release_free_pages(connection, PAGES_PER_STEP)
    has_more = any(deleted.values()) or 0 < used_bytes_and_free_pages(connection)[1] < free
    if not has_more and size_on_disk(path) > max_size:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return deleted, has_more


def _delete_oldest_slice(connection: sqlite3.Connection, now: int) -> dict[str, int]:
    """Delete the oldest slice of the whole stored time, a day at most, of every kind."""
    starts = [at for kind in KINDS.values() if (at := oldest(connection, kind)) is not None]
    if not starts:
        return {}
    first = min(starts)
    before = first + min(max((now - first) // MAX_SLICES, 1), MAX_SLICE_MILLISECONDS)
    return {name: delete_rows(connection, kind, before) for name, kind in KINDS.items()}
