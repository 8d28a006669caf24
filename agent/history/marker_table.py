"""Deploy markers in the history."""

import sqlite3
from collections.abc import Iterable

from agent.assessment.deploy_markers import MAX_MARKERS, Marker
from agent.history.failures import StoreError, StoreFailure


def insert_markers(connection: sqlite3.Connection, markers: Iterable[Marker]) -> int:
    """Add markers that are not stored yet; delete the oldest beyond `MAX_MARKERS`.

    Returns the number of markers added.
    """
    before = connection.total_changes
    connection.executemany(
        "INSERT OR IGNORE INTO marker (at, name, target) VALUES (?, ?, ?)",
        [(round(1000 * marker.at), marker.name, marker.target) for marker in markers],
    )
    added = connection.total_changes - before
    connection.execute(
        "DELETE FROM marker WHERE id NOT IN (SELECT id FROM marker ORDER BY at DESC LIMIT ?)",
        (MAX_MARKERS,),
    )
    return added


def read_markers(connection: sqlite3.Connection) -> list[Marker]:
    """Return all markers, oldest first; raises `StoreError` if one has no valid time."""
    sql = "SELECT at, name, target FROM marker ORDER BY at DESC, id DESC LIMIT ?"
    rows = connection.execute(sql, (MAX_MARKERS,)).fetchall()
    try:
        return [Marker(int(at) / 1000, str(name), str(target)) for at, name, target in rows[::-1]]
    except (ValueError, TypeError, OverflowError):
        raise StoreError(StoreFailure.CORRUPT, "a marker has an invalid time") from None


def delete_markers_before(connection: sqlite3.Connection, before: int) -> None:
    """Delete the markers before a time (ms)."""
    connection.execute("DELETE FROM marker WHERE at < ?", (before,))
