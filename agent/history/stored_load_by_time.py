"""Reading of the stored load by steps of the wall clock, for its forecast."""

import sqlite3

from agent.assessment.load_by_time_step import LoadSum
from agent.history.window_reader import WindowQuery


def load_sums(connection: sqlite3.Connection, wanted: WindowQuery, width: float) -> list[LoadSum]:
    """Sum the intervals of each step of `width` seconds, by their midpoints; oldest first.

    Intervals may have any length; one that is longer than a step counts with the length of a step.
    """
    found = connection.execute(
        "SELECT CAST((interval.at - 500 * seconds) / (1000 * ?) AS INTEGER) AS step,"
        " SUM(MIN(seconds, ?)), SUM(MIN(seconds, ?) * throughput)"
        " FROM interval JOIN target ON target.id = interval.target"
        " WHERE name = ? AND server = ? AND interval.at >= ? AND interval.at <= ?"
        " GROUP BY step ORDER BY step",
        (width, width, width, wanted.target, wanted.server, wanted.since, wanted.until),
    )
    return [LoadSum(int(step), float(seconds), float(q)) for step, seconds, q in found]
