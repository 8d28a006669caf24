"""The table of digests: its columns and our names for them, and all its rows in one answer.

A row's numbers come as one text: PyMySQL takes far longer for as many columns. All rows come as two
texts, where they are not too many for one packet: a row costs it as much as all its numbers. A
server whose packets are smaller than that cuts them, and is asked row by row from then on.

Beside it the same columns summed over all statements, for not every statement has a digest.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from collectors.base import CollectorError, FailureKind
from collectors.connection import Connection, Row
from collectors.statements import ALL_CLIENTS

Array = NDArray[np.float64]

PICOSECOND = 1e-12
COUNTERS = {
    "COUNT_STAR": "calls",
    "SUM_TIMER_WAIT": "statement_time",
    "SUM_LOCK_TIME": "lock_time",
    "SUM_CPU_TIME": "cpu_time",  # MySQL 8.0.28 and later
    "SUM_ERRORS": "errors",
    "SUM_ROWS_AFFECTED": "rows_affected",
    "SUM_ROWS_SENT": "rows_sent",
    "SUM_ROWS_EXAMINED": "rows_examined",
    "SUM_SORT_ROWS": "sort_rows",
    "SUM_CREATED_TMP_TABLES": "tmp_tables",
    "SUM_CREATED_TMP_DISK_TABLES": "tmp_disk_tables",
    "SUM_NO_INDEX_USED": "no_index_used",
    "SUM_NO_GOOD_INDEX_USED": "no_good_index_used",
}
"""The server's columns and our names; times come in picoseconds and are kept in seconds."""
TIMES = ("statement_time", "lock_time", "cpu_time")

TABLE = "performance_schema.events_statements_summary_by_digest"
COLUMNS = """
SELECT COLUMN_NAME FROM information_schema.COLUMNS
 WHERE TABLE_SCHEMA = 'performance_schema' AND TABLE_NAME = 'events_statements_summary_by_digest'"""

NUMBERS = "CONCAT_WS(' ', COALESCE(TIMESTAMPDIFF(MICROSECOND, FIRST_SEEN, NOW(6)), -1), {columns})"
KEY = """CONCAT_WS('|', COALESCE(UNIX_TIMESTAMP(FIRST_SEEN), 0), COALESCE(DIGEST, ''),
                 COALESCE(CONCAT('=', SCHEMA_NAME), ''))"""
BETWEEN = "\x1f"  # keys
ROW_BY_ROW = f"""
SELECT {NUMBERS},
       {KEY}
  FROM {TABLE}"""  # noqa: S608  (our own words only)
AT_ONCE = f"""
SELECT COUNT(*),
       GROUP_CONCAT({NUMBERS} SEPARATOR ' '),
       GROUP_CONCAT({KEY} SEPARATOR '{BETWEEN}')
  FROM {TABLE}"""  # noqa: S608  (our own words only)
TOGETHER = f"SELECT CONCAT_WS(' ', {{sums}}) FROM {ALL_CLIENTS}"  # noqa: S608  (our own words only)
LONGER = "SET SESSION group_concat_max_len = 33554432"
MOST_AT_ONCE = 50_000  # rows, of about 150 bytes: within MariaDB's max_allowed_packet, 16 MiB


class DigestTable:
    """Reads these columns, the server's names and ours, of every row or of some."""

    def __init__(self, connection: Connection, columns: Mapping[str, str]) -> None:
        self.names = tuple(columns.values())
        size = int(connection.variables.get("performance_schema_digests_size", 0))
        self._at_once = 0 < size <= MOST_AT_ONCE
        self._connection = connection
        self._unit = units(self.names)
        self._columns = ", ".join(columns)
        if self._at_once:
            connection.query(LONGER)

    def read(self, where: str) -> tuple[Sequence[str], Array, Array]:
        """The rows' keys, ages in seconds, shape (rows,), and counters, shape (rows, names)."""
        if self._at_once:
            [(count, numbers, joined)] = self._ask(AT_ONCE, where)
            keys = joined.split(BETWEEN) if joined else []
            found = np.fromstring(numbers or "", sep=" ")
            self._at_once = len(keys) == count and self._has_all(keys, found)
        if not self._at_once:
            rows = self._ask(ROW_BY_ROW, where)
            found = np.fromstring(" ".join([row for row, _ in rows]), sep=" ")
            keys = [key for _, key in rows]
        if not self._has_all(keys, found):
            server = self._connection.endpoint
            text = f"{server}: {len(keys)} rows of the digest table with {found.size} numbers"
            raise CollectorError(FailureKind.UNREADABLE, text)
        table = found.reshape(len(keys), 1 + len(self.names))
        return keys, table[:, 0] * 1e-6, table[:, 1:] * self._unit

    def _ask(self, query: str, where: str) -> list[Row]:
        return self._connection.query(query.format(columns=self._columns) + where)

    def _has_all(self, keys: Sequence[str], numbers: Array) -> bool:
        return numbers.size == len(keys) * (1 + len(self.names))


class AllStatements:
    """Reads the same columns, summed over all statements of clients that ended, digest or none."""

    def __init__(self, connection: Connection, columns: Mapping[str, str]) -> None:
        self._connection = connection
        self._unit = units(tuple(columns.values()))
        self._query = TOGETHER.format(sums=", ".join(f"SUM({column})" for column in columns))

    def read(self) -> Array | None:
        """The sums, shape (names,); None where the server does not tell all of them."""
        try:
            [(numbers,)] = self._connection.query(self._query)
        except CollectorError as error:
            if error.kind is not FailureKind.PRIVILEGE:
                raise
            return None
        found = np.fromstring(numbers or "", sep=" ")
        return found * self._unit if found.size == self._unit.size else None


def units(names: Sequence[str]) -> Array:
    """What the server's number is multiplied with, shape (names,): times come in picoseconds."""
    return np.array([PICOSECOND if name in TIMES else 1.0 for name in names])
