"""Counters summed over all finished statements of clients: not every statement has a digest.

`statements` reads them along with its own sums, and `digests`, which is read next, uses these.
"""

import time
from collections.abc import Mapping

from collectors.base import CollectorError, FailureKind
from collectors.connection import Connection
from collectors.digest_table import Array, parse_numbers, unit_factors
from collectors.result_cells import ResultCell

CLIENT_STATEMENTS = """performance_schema.events_statements_summary_global_by_event_name
 WHERE COUNT_STAR > 0
   AND (EVENT_NAME LIKE 'statement/sql/%' OR EVENT_NAME LIKE 'statement/com/%')
   AND EVENT_NAME NOT LIKE 'statement/com/Binlog Dump%'"""
"""All statements of clients that have ended.

Of 220 kinds only some twenty ever run: COUNT_STAR avoids comparing the names of the others."""
RECENT = 0.02
"""Seconds for which sums are used: statements that end meanwhile are in the next ones, but in the
rows of digests already. Of the 15 s between two readings that is a thousandth."""


class AllStatements:
    """The sums; `columns` has the server's names and the agent's."""

    def __init__(self, connection: Connection, columns: Mapping[str, str]) -> None:
        self._connection = connection
        self._unit = unit_factors(tuple(columns.values()))
        sums = ", ".join(f"SUM({column})" for column in columns)
        self.expression = f"CONCAT_WS(' ', {sums})"
        """SQL of all sums in one cell."""

    def keep(self, cell: ResultCell) -> None:
        """Keep what a statement has read by `expression` just now."""
        self._connection.statement_sums = time.monotonic(), self.expression, cell

    def recent_or_read(self) -> Array | None:
        """Return the sums that were just read, else read them; see `read`."""
        at, expression, cell = self._connection.statement_sums
        if expression == self.expression and time.monotonic() - at <= RECENT:
            return self._parsed(cell)
        return self.read()

    def read(self) -> Array | None:
        """Read the sums, shape (names,); None where the server does not report all of them."""
        try:
            return self._parsed(
                self._connection.cell(f"SELECT {self.expression} FROM {CLIENT_STATEMENTS}")  # noqa: S608
            )
        except CollectorError as error:
            if error.kind is not FailureKind.PRIVILEGE:
                raise
            return None

    def _parsed(self, cell: ResultCell) -> Array | None:
        try:
            found = parse_numbers(cell, self._unit.size)
        except ValueError:
            return None
        return found * self._unit if found.size == self._unit.size else None
