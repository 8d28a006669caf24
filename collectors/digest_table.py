"""The table of digests: its columns, the agent's names for them, and a fast way to read all rows.

A row's numbers are read as one text, since PyMySQL takes far longer for as many columns. All rows
are read as two texts where they fit in one packet, since PyMySQL takes as long for a row as for all
its numbers. A server with smaller packets truncates the texts, and is read row by row from then on.
A table with more than `MAX_ROWS` rows in use is not read: they would take the agent's memory.
"""

import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from collectors.base import PICOSECOND, CollectorError, FailureKind
from collectors.connection import Connection
from collectors.result_cells import (
    MAX_NUMBER,
    ResultCell,
    ResultLimits,
    ResultRow,
    number,
    text,
    whole_number,
)

Array = NDArray[np.float64]
TableRows = tuple[Sequence[str], Array, Array]
"""Keys, ages in seconds, shape (rows,), and counters, shape (rows, names)."""

STATEMENT_TIME, LOCK_TIME = "statement_time", "lock_time"
CPU_COLUMN = "SUM_CPU_TIME"
"""In MySQL 8.0.28 and later, like the consumer that fills it."""
COUNTERS = {
    "COUNT_STAR": "calls",
    "SUM_TIMER_WAIT": STATEMENT_TIME,
    "SUM_LOCK_TIME": LOCK_TIME,
    CPU_COLUMN: "cpu_time",
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
"""The server's columns and the agent's names; times are converted from picoseconds to seconds."""
TIMES = (STATEMENT_TIME, LOCK_TIME, "cpu_time")

TABLE = "performance_schema.events_statements_summary_by_digest"
NUMBERS = "COALESCE(TIMESTAMPDIFF(MICROSECOND, FIRST_SEEN, NOW(6)), -1), ' ', {columns}"
KEY = """CONCAT_WS('|', COALESCE(UNIX_TIMESTAMP(FIRST_SEEN), 0), COALESCE(DIGEST, ''),
                 COALESCE(CONCAT('=', SCHEMA_NAME), ''))"""
SEPARATOR = "\x1f"  # between keys
ROW_BY_ROW = f"""
SELECT CONCAT({NUMBERS}),
       {KEY}{{added}}
  FROM {TABLE}"""  # noqa: S608  (constants only)
ALL_IN_ONE_ROW = f"""
SELECT COUNT(*),
       GROUP_CONCAT({NUMBERS} SEPARATOR ' '),
       GROUP_CONCAT({KEY} SEPARATOR '{SEPARATOR}')
  FROM {TABLE}"""  # noqa: S608  (constants only)
SESSION_SETTINGS = "SET SESSION group_concat_max_len = 33554432, time_zone = '+00:00'"
"""Room for all rows in one text; and times that no change to or from summer time leaps over."""
MAX_ROWS = 50_000  # of about 150 bytes: within MariaDB's max_allowed_packet, 16 MiB
MAX_BYTES = 16 * 2**20
MAX_KEY_LENGTH = 400  # bytes: a time, a hash and the name of a schema, which has 64 characters
WHOLE_TABLE = ResultLimits(columns=3, bytes=MAX_BYTES)
SOME_ROWS = ResultLimits(columns=2, rows=MAX_ROWS + 1, bytes=MAX_BYTES)
LIMIT = " LIMIT {}"
TOO_MANY_ROWS = (
    f"more than {MAX_ROWS:,} rows of the digest table are in use; set"
    f" performance_schema_digests_size to {MAX_ROWS} or less, or empty the table"
)


class DigestTable:
    """Reads columns of all rows or of some; `columns` has the server's names and the agent's."""

    def __init__(self, connection: Connection, columns: Mapping[str, str]) -> None:
        self.names = tuple(columns.values())
        setting = "performance_schema_digests_size"
        size = number(setting, connection.variables.get(setting, "0"))
        self._reads_at_once = 0 < size <= MAX_ROWS
        self._connection = connection
        self._unit = unit_factors(self.names)
        self._columns = ", ' ', ".join(columns)
        connection.run(SESSION_SETTINGS)

    def read(self, where: str) -> TableRows:
        """Read the rows that match."""
        if self._reads_at_once:
            keys, found, count = self._read_at_once(where)
            self._reads_at_once = len(keys) == count and self._is_complete(keys, found)
        if not self._reads_at_once:
            keys, found = self._read_row_by_row(where)
        return self._table(keys, found)

    def read_with(
        self, expression: str, where: str, limits: ResultLimits, limit: int
    ) -> tuple[TableRows, Sequence[ResultCell]] | None:
        """Read the same, and an SQL expression of each row; None if `limit` rows or more match."""
        query = self._statement(ROW_BY_ROW, where, f",\n       {expression}")
        rows = self._connection.query(query + LIMIT.format(limit), limits)
        if len(rows) >= limit:
            return None
        return self._table(*self._keys_and_numbers(rows)), [row[2] for row in rows]

    def _table(self, keys: Sequence[ResultCell], numbers: Array) -> TableRows:
        if not self._is_complete(keys, numbers):
            raise self._unreadable(f"{len(keys)} rows with {numbers.size} numbers")
        table = numbers.reshape(len(keys), 1 + len(self.names))
        return self._decoded_keys(keys), table[:, 0] * 1e-6, table[:, 1:] * self._unit

    def _read_at_once(self, where: str) -> tuple[Sequence[ResultCell], Array, int]:
        query = self._connection.repeated(self._statement(ALL_IN_ONE_ROW, where))
        count, numbers, joined = self._connection.row(query, WHOLE_TABLE)
        most = MAX_ROWS * (1 + len(self.names))
        found = self._parsed(lambda: parse_numbers(numbers, most))
        if joined is not None and joined.count(SEPARATOR.encode()) >= MAX_ROWS:
            raise self._unreadable(TOO_MANY_ROWS)
        keys = joined.split(SEPARATOR.encode()) if joined else []
        return keys, found, whole_number("COUNT(*)", count)

    def _read_row_by_row(self, where: str) -> tuple[Sequence[ResultCell], Array]:
        query = self._statement(ROW_BY_ROW, where) + LIMIT.format(SOME_ROWS.rows)
        rows = self._connection.query(query, SOME_ROWS)
        if len(rows) > MAX_ROWS:
            raise self._unreadable(TOO_MANY_ROWS)
        return self._keys_and_numbers(rows)

    def _keys_and_numbers(self, rows: Sequence[ResultRow]) -> tuple[Sequence[ResultCell], Array]:
        most = len(rows) * (1 + len(self.names))
        joined = b" ".join([row[0] or b"" for row in rows])
        found = self._parsed(lambda: parse_numbers(joined, most))
        return [row[1] for row in rows], found

    def _statement(self, query: str, where: str, added: str = "") -> str:
        return query.format(columns=self._columns, added=added) + where

    def _decoded_keys(self, keys: Sequence[ResultCell]) -> list[str]:
        decoded = [
            sys.intern(text(key, MAX_KEY_LENGTH))  # each reading has the same keys
            for key in keys
            if key and len(key) <= MAX_KEY_LENGTH
        ]
        if len(decoded) < len(keys) or any(key.count("|") < 2 for key in decoded):
            raise self._unreadable("a row with an unusable key")
        return decoded

    def _parsed(self, numbers: Callable[[], Array]) -> Array:
        try:
            return numbers()
        except ValueError as error:
            raise self._unreadable(str(error)) from None

    def _is_complete(self, keys: Sequence[ResultCell], numbers: Array) -> bool:
        return numbers.size == len(keys) * (1 + len(self.names))

    def _unreadable(self, why: str) -> CollectorError:
        message = f"{self._connection.endpoint}: the digest table: {why}"
        return CollectorError(FailureKind.UNREADABLE, message)


def counter_columns(*, has_cpu: bool) -> dict[str, str]:
    """Return the columns that a server has: CPU time only if it accounts for it."""
    return {c: name for c, name in COUNTERS.items() if has_cpu or c != CPU_COLUMN}


def parse_numbers(cell: ResultCell, most: int) -> Array:
    """Parse up to `most` numbers separated by spaces, shape (numbers,); else raise ValueError."""
    if not cell:
        return np.zeros(0)
    if cell.count(b" ") >= most or not cell.isascii():
        raise ValueError("more numbers than columns, or a value that is not a number")
    try:
        found = np.fromstring(cell.decode("ascii"), sep=" ")
    except (ValueError, DeprecationWarning):  # not a number; an older numpy warns
        raise ValueError("a value that is not a number") from None
    if not (np.abs(found) <= MAX_NUMBER).all():
        raise ValueError("a number that cannot be used")
    return found


def unit_factors(names: Sequence[str]) -> Array:
    """Return the factors for the server's numbers, shape (names,): times are in picoseconds."""
    return np.array([PICOSECOND if name in TIMES else 1.0 for name in names])
