"""Reading the load back by steps of the wall clock, for a forecast of it."""

import sqlite3

from agent.assessment.load_by_time_step import LoadSum
from agent.history.window_reader import Wanted


def load_sums(connection: sqlite3.Connection, wanted: Wanted, width: float) -> list[LoadSum]:
    """Sum up the intervals of each step of `width` seconds, by their middle; oldest first.

    Intervals may be of any length; one that is longer than a step counts as one.
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
