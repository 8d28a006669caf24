"""Samples of a server in a CSV file, one row for each time at which it was read.

Counters may start at any number. A cell that is empty or NaN is unknown. Rows need not be in
order, as long as each is at most `BUFFERED_ROWS` rows away from its place.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence

from agent.config.timestamps import DATED_SECONDS
from agent.csv_input.class_file import TIME, Table
from agent.csv_input.table_file import MAX_STREAM_BYTES, TableFileError
from agent.replay.recorded_samples import COLUMNS, REQUIRED_COLUMNS, Reading, RecordedCollectors
from agent.replay.sample_csv_checks import RowChecks

UNKNOWN_TEXTS = ("", "nan", "null", "none", "na", "n/a", "-")
"""Texts of a cell whose value is unknown."""
BUFFERED_ROWS = 10_000
"""Rows in memory, to sort them: a fifth of a day of samples 2 s apart, 4 MiB."""
MAX_GAP = 366 * 86400.0
"""Seconds; after a longer gap between two rows, a time must be wrong."""

HISTORY_COLUMNS = ("target", "server", "time")
"""Columns that the CSV export of a history has, and samples have not."""

SampleRow = tuple[float, int, tuple[float, ...]]
"""The time, the line, and the cells of the columns that are known."""


class SampleFile:
    """A recording as CSV, read as a stream; mistakes in it raise `TableFileError`."""

    def __init__(self, path: str) -> None:
        self._table = Table(path, MAX_STREAM_BYTES, str.casefold)
        self.name = self._table.name
        if {*HISTORY_COLUMNS} <= {*self._table.header}:
            remedy = "load it by `mysql-headroom history import`, and replay that history.db"
            raise TableFileError(self.name, 1, "an export of a history, no samples", remedy)
        remedy = f"the columns are {TIME},{','.join(REQUIRED_COLUMNS)} and, where known, "
        self._time_index = self._table.column(
            TIME, remedy + ",".join(COLUMNS[len(REQUIRED_COLUMNS) :])
        )
        for name in REQUIRED_COLUMNS:
            self._table.column(name, remedy + ",".join(COLUMNS[len(REQUIRED_COLUMNS) :]))
        self._names = [name for name in self._table.header if name in COLUMNS]
        self._indices = [self._table.header.index(name) for name in self._names]
        self._checks = RowChecks()
        self.duplicates = 0
        """Rows that were left out so far, because an earlier one has the same time."""

    @property
    def unused_columns(self) -> list[str]:
        """The columns that are not used."""
        return [name for name in self._table.header if name not in (TIME, *COLUMNS)]

    @property
    def unused_cpu_columns(self) -> list[str]:
        """The columns with CPU time for which the number of processors is missing in all rows."""
        return self._checks.unused_columns(self._table.header)

    def readings(self) -> Iterator[Reading]:
        """Yield the readings in the order of time; of rows of the same time, the first."""
        collectors = RecordedCollectors()
        before: SampleRow | None = None
        for row in _sorted_by_time(self._rows()):
            if before is not None and row[0] == before[0]:
                self.duplicates += 1
                continue
            if before is not None:
                self._check_order(before, row)
            known = dict(zip(self._names, row[2], strict=True))
            if problem := self._checks.problem_with(row[0], known):
                raise TableFileError(self.name, row[1], *problem)
            yield collectors.reading(row[0], known)
            before = row

    def _rows(self) -> Iterator[SampleRow]:
        for cells in self._table.rows():
            at = self._table.number(cells, self._time_index, signed=True)
            if at >= DATED_SECONDS.stop:
                problem = f"{TIME} is {at:.0f}, a time after the year 9999"
                raise self._table.error(problem, "give it in seconds, not in milliseconds")
            yield at, self._table.line, tuple(self._cell(cells, k) for k in self._indices)

    def _cell(self, cells: Sequence[str], index: int) -> float:
        if index >= len(cells) or cells[index].lower() in UNKNOWN_TEXTS:
            return math.nan
        return self._table.number(cells, index)

    def _check_order(self, before: SampleRow, row: SampleRow) -> None:
        if row[0] < before[0]:
            problem = f"{TIME} is {row[0]:g}, more than {BUFFERED_ROWS:,} rows after later ones"
            raise TableFileError(self.name, row[1], problem, f"sort the rows by {TIME}")
        if row[0] - before[0] > MAX_GAP:
            problem = f"{TIME} is {row[0]:g}, more than a year after the row before it"
            raise TableFileError(
                self.name, row[1], problem, "give it in seconds, or remove the line"
            )


def _sorted_by_time(rows: Iterable[SampleRow]) -> Iterator[SampleRow]:
    """Yield rows in the order of their time, with `BUFFERED_ROWS` of them in memory."""
    buffer: list[SampleRow] = []
    for row in rows:
        if len(buffer) < BUFFERED_ROWS:
            heapq.heappush(buffer, row)
        else:
            yield heapq.heappushpop(buffer, row)
    while buffer:
        yield heapq.heappop(buffer)
