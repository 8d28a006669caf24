"""Reading a window back: the intervals of one server, thinned like a window in memory."""

import sqlite3
from dataclasses import dataclass

import numpy as np

from agent.history.failures import StoreError, StoreFailure
from agent.history.row_access import RowFilter, select_rows
from agent.history.row_kinds import INTERVALS, Row
from models.capacity.thinning import MAX_INTERVALS, thin

MAX_ROWS = 2 * MAX_INTERVALS  # intervals; beyond that, the least informative are not read
MAX_WIDTH_DIFFERENCE = 0.01  # the share by which the widths of intervals may differ
POINT = np.dtype([("at", "i8"), ("throughput", "f8"), ("concurrency", "f8")])


@dataclass(frozen=True, slots=True)
class WindowQuery:
    """Which intervals: of a target on a server, `width` s wide, from `since` to `until` (ms)."""

    target: str
    server: str
    width: float
    since: int
    until: int


WindowRow = tuple[Row, float]
"""An interval, and the number of intervals that it stands for."""


def read_window(connection: sqlite3.Connection, wanted: WindowQuery) -> list[WindowRow]:
    """Return the intervals, oldest first; if too many, a selection as of a window in memory."""
    near = (wanted.width * (1 - MAX_WIDTH_DIFFERENCE), wanted.width * (1 + MAX_WIDTH_DIFFERENCE))
    found = connection.execute(
        "SELECT interval.at, throughput, COALESCE(statement_time, threads_running)"
        " FROM interval JOIN target ON target.id = interval.target"
        " WHERE name = ? AND server = ? AND interval.at >= ? AND interval.at <= ?"
        " AND seconds BETWEEN ? AND ? ORDER BY interval.at",
        (wanted.target, wanted.server, wanted.since, wanted.until, *near),
    )
    try:
        points = np.fromiter(found, dtype=POINT)
    except (ValueError, TypeError) as error:
        text = f"an interval's throughput is not a number ({error})"
        raise StoreError(StoreFailure.CORRUPT, text) from None
    if len(points) == 0:
        return []
    at, counts = points["at"], np.ones(len(points))
    if len(points) > MAX_ROWS:
        n = points["concurrency"]
        kept = thin(at / 1000, points["throughput"], at[-1] / 1000, concurrency=n)
        at, counts = at[kept.indices], kept.counts
    counted = dict(zip(at.tolist(), counts.tolist(), strict=True))
    return [(row, counted[row.at]) for row in _rows_at(connection, wanted, counted)]


def _rows_at(
    connection: sqlite3.Connection, wanted: WindowQuery, times: dict[int, float]
) -> list[Row]:
    """Read the rows of these times."""
    rows: list[Row] = []
    for at in times:
        choice = RowFilter(wanted.target, wanted.server, at, at)
        rows.extend(select_rows(connection, INTERVALS, choice))
    return rows
