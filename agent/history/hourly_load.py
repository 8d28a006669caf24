"""Reading the load back hour by hour, for a forecast of it."""

import sqlite3

from agent.assessment.hourly_load import HourlySum
from agent.history.window_reader import Wanted


def hourly_sums(connection: sqlite3.Connection, wanted: Wanted) -> list[HourlySum]:
    """Sum up the intervals of each hour, whatever their width, by their middle; oldest first."""
    found = connection.execute(
        "SELECT CAST((interval.at - 500 * seconds) / 3600000 AS INTEGER) AS hour,"
        " SUM(seconds), SUM(seconds * throughput)"
        " FROM interval JOIN target ON target.id = interval.target"
        " WHERE name = ? AND server = ? AND interval.at >= ? AND interval.at <= ?"
        " GROUP BY hour ORDER BY hour",
        (wanted.target, wanted.server, wanted.since, wanted.until),
    )
    return [HourlySum(int(hour), float(seconds), float(q)) for hour, seconds, q in found]
