"""Adding intervals from elsewhere to a history where it has none, also while an agent uses it."""

import sqlite3
from collections.abc import Iterable

import numpy as np

from agent.history.row_access import insert_rows
from agent.history.row_kinds import INTERVALS
from agent.history.row_mapping import in_milliseconds, interval_row
from agent.support.clock_pair import UNIX
from agent.window.interval_buffer import MAX_OVERLAP, IntervalBuffer
from agent.window.intervals import Interval

ROWS_PER_TRANSACTION = 500
"""Rows in one transaction, so that a running agent waits only briefly."""


class Backfill:
    """Accepts intervals like a window, and writes those that overlap with no stored one.

    `labels` are the target and its server; `sampling` is the time between samples, s.
    """

    def __init__(
        self, connection: sqlite3.Connection, labels: tuple[str, str], width: float, sampling: float
    ) -> None:
        template = IntervalBuffer(width, width, sampling)
        self.width, self.max_gap, self.grace = width, template.max_gap, template.grace
        self.added = self.already_stored = 0
        self._connection, self._labels = connection, labels

    def append_intervals(self, intervals: Iterable[Interval], now: float) -> None:
        """Write intervals, oldest first; `now` is not used."""
        del now
        found = list(intervals)
        for start in range(0, len(found), ROWS_PER_TRANSACTION):
            self._write(found[start : start + ROWS_PER_TRANSACTION])

    def _write(self, intervals: list[Interval]) -> None:
        """Write these intervals in one transaction; existing rows are not changed."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            is_new = self._are_new(intervals)
            rows = [
                interval_row(self._labels, interval, UNIX)
                for interval, new in zip(intervals, is_new, strict=True)
                if new
            ]
            added = insert_rows(self._connection, INTERVALS, rows)
            self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        self.added += added
        self.already_stored += len(intervals) - added

    def _are_new(self, intervals: list[Interval]) -> list[bool]:
        """Return for each interval whether it overlaps with no stored one."""
        first = in_milliseconds(intervals[0].end - intervals[0].seconds)
        last = in_milliseconds(intervals[-1].end)
        stored = self._connection.execute(
            "SELECT interval.at, 1000 * seconds FROM interval"
            " JOIN target ON target.id = interval.target"
            " WHERE name = ? AND server = ? AND interval.at > ?"
            " AND interval.at - 1000 * seconds < ? ORDER BY interval.at",
            (*self._labels, first, last),
        ).fetchall()
        ends = np.array([at for at, _ in stored], dtype=np.float64)
        starts = ends - np.array([length for _, length in stored], dtype=np.float64)
        margin = 1000 * MAX_OVERLAP * self.width
        are_new = []
        for interval in intervals:
            end = 1000 * interval.end
            begin = end - 1000 * interval.seconds
            are_new.append(not bool(np.any((starts < end - margin) & (ends > begin + margin))))
        return are_new
