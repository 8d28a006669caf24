"""Values of business metrics in the history: one row for the values of one instant."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from agent.history.row_access import RowFilter, select_rows
from agent.history.row_kinds import BUSINESS, Row
from agent.history.row_mapping import in_milliseconds
from agent.history.window_reader import WindowQuery
from agent.support.clock_pair import ClockPair

MAX_READ = 50_000
"""Rows read back at most, the latest: eight metrics have 5,000 values each in memory."""


class ReadValue(NamedTuple):
    """A value of one business metric, and when it was read (monotonic seconds)."""

    name: str
    at: float
    value: float


UnixValue = tuple[float, float]
"""When it was read (Unix seconds), and the value."""


def business_rows(
    labels: tuple[str, str], values: Iterable[ReadValue], now: ClockPair
) -> list[Row]:
    """Return rows of the values read, oldest first; values of one millisecond share a row."""
    by_time: dict[int, dict[str, float]] = {}
    for name, at, value in values:
        by_time.setdefault(in_milliseconds(now.to_unix(at)), {})[name] = value
    return [Row(labels, at, (known,)) for at, known in sorted(by_time.items())]


def recent_values(
    connection: sqlite3.Connection, wanted: WindowQuery
) -> dict[str, list[UnixValue]]:
    """Return the values of one server, oldest first, by the metric's name."""
    found = connection.execute(
        "SELECT MIN(at) FROM (SELECT business.at FROM business"
        " JOIN target ON target.id = business.target"
        " WHERE name = ? AND server = ? AND business.at BETWEEN ? AND ?"
        " ORDER BY business.at DESC LIMIT ?)",
        (wanted.target, wanted.server, wanted.since, wanted.until, MAX_READ),
    ).fetchone()
    since = wanted.until if found[0] is None else int(found[0])
    choice = RowFilter(wanted.target, wanted.server, since, wanted.until)
    return values_by_metric(select_rows(connection, BUSINESS, choice))


def values_by_metric(rows: Iterable[Row]) -> dict[str, list[UnixValue]]:
    """Return the values of these rows, in their order, by the metric's name."""
    series: dict[str, list[UnixValue]] = {}
    for row, values in _rows_with_values(rows):
        for name, value in values.items():
            series.setdefault(name, []).append((row.at / 1000, value))
    return series


def _rows_with_values(rows: Iterable[Row]) -> Iterator[tuple[Row, Mapping[str, float]]]:
    return ((row, cell) for row in rows if isinstance(cell := row.cells[0], Mapping))
