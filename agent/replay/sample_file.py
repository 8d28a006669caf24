"""Reading samples of a server from a CSV file, a row for each time at which it was read.

Counters may begin at any number. A cell that is empty or NaN is not known. Rows need not be in
order, as long as each is at most `BUFFERED_ROWS` rows away from its place.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence

from agent.csv_input.class_file import TIME, Table
from agent.csv_input.table_file import MAX_STREAM_BYTES, TableFileError
from agent.replay.recorded_readings import COLUMNS, REQUIRED_COLUMNS, Collectors, Reading

UNKNOWN_TEXTS = ("", "nan", "null", "none", "na", "n/a", "-")
"""Texts of an unread cell."""
BUFFERED_ROWS = 10_000
"""Rows in memory, to bring them into order: a fifth of a day of samples 2 s apart, 4 MiB."""
MAX_GAP = 366 * 86400.0
"""Seconds; a recording that leaves out more has a time that is wrong."""

Row = tuple[float, int, tuple[float, ...]]
"""The time, the line, and the cells of the columns that are known."""


class SampleFile:
    """A recording as CSV, read as a stream; its mistakes are `TableFileError`s."""

    def __init__(self, path: str) -> None:
        self._table = Table(path, MAX_STREAM_BYTES)
        self.name = self._table.name
        remedy = f"the columns are {TIME},{','.join(REQUIRED_COLUMNS)} and, where known, "
        self._time = self._table.column(TIME, remedy + ",".join(COLUMNS[len(REQUIRED_COLUMNS) :]))
        for name in REQUIRED_COLUMNS:
            self._table.column(name, remedy + ",".join(COLUMNS[len(REQUIRED_COLUMNS) :]))
        self._names = [name for name in self._table.header if name in COLUMNS]
        self._places = [self._table.header.index(name) for name in self._names]
        self.duplicates = 0
        """Rows that were left out so far, for there was one of the same time."""

    @property
    def passed_over(self) -> list[str]:
        """The columns that are not used."""
        return [name for name in self._table.header if name not in (TIME, *COLUMNS)]

    def readings(self) -> Iterator[Reading]:
        """What was read, in the order of time; of rows of one time the first."""
        collectors = Collectors()
        before: Row | None = None
        for row in _in_order(self._rows()):
            if before is not None and row[0] == before[0]:
                self.duplicates += 1
                continue
            if before is not None:
                self._check_order(before, row)
            yield collectors.reading(row[0], dict(zip(self._names, row[2], strict=True)))
            before = row

    def _rows(self) -> Iterator[Row]:
        for cells in self._table.rows():
            at = self._table.number(cells, self._time, signed=True)
            yield at, self._table.line, tuple(self._cell(cells, k) for k in self._places)

    def _cell(self, cells: Sequence[str], place: int) -> float:
        if place >= len(cells) or cells[place].lower() in UNKNOWN_TEXTS:
            return math.nan
        return self._table.number(cells, place)

    def _check_order(self, before: Row, row: Row) -> None:
        if row[0] < before[0]:
            problem = f"{TIME} is {row[0]:g}, more than {BUFFERED_ROWS:,} rows after later ones"
            raise TableFileError(self.name, row[1], problem, f"sort the rows by {TIME}")
        if row[0] - before[0] > MAX_GAP:
            problem = f"{TIME} is {row[0]:g}, more than a year after the row before it"
            raise TableFileError(self.name, row[1], problem, "give it in seconds, or drop the line")


def _in_order(rows: Iterable[Row]) -> Iterator[Row]:
    """Bring rows into the order of their time, some of them in memory."""
    waiting: list[Row] = []
    for row in rows:
        if len(waiting) < BUFFERED_ROWS:
            heapq.heappush(waiting, row)
        else:
            yield heapq.heappushpop(waiting, row)
    while waiting:
        yield heapq.heappop(waiting)
