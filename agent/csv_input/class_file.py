"""Reader of CSV files with the activity of query classes, in a wide or a long form.

The wide form has a column per class and one for the resource, a row per interval. The long form has
a row per interval and class, with `t_s`, `class`, `timer_wait_s` or `count`, and optional columns;
its resource is in another file (agent.csv_input.host_file). A file with the columns `t_s` and
`class` is long.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from agent.csv_input.table_file import (
    MAX_TABLE_BYTES,
    TableFileError,
    display_name,
    header_mistake,
    read_rows,
    shortened,
)
from models.arrays import Array
from models.attribution.class_interval_table import SIZES, ClassIntervals
from models.attribution.result import HostUse

TIME, CLASS, SECONDS, TEXT = "t_s", "class", "dt_s", "digest_text"
STATEMENT_TIME, COUNT = "timer_wait_s", "count"
MEASURED_CPU, TRUE_CPU = "cpu_s", "cpu_true_s"
INFLIGHT_DELTA = "inflight_delta_s"
NUMBERS = (STATEMENT_TIME, COUNT, "lock_s", INFLIGHT_DELTA, *SIZES, MEASURED_CPU, TRUE_CPU)
SERVER_SAMPLE_COLUMNS = ("questions", "threads_running", "uptime_s")  # required by `replay`
MIN_INTERVALS = 2
SHOWN_NAMES = 5  # names of columns in a message
MIN_NUMBER, MAX_NUMBER = 1e-12, 1e15
"""The range of plausible values in one interval: smaller ones are rounding errors of a subtraction
and count as 0; greater ones are refused, as their squares can overflow."""


@dataclass(frozen=True)
class ClassFile:
    """The intervals of query classes in a file, and the file's other contents."""

    name: str
    intervals: ClassIntervals
    resource: str | None
    """The resource's column; None in the long form."""
    y: Array | None
    """The resource, shape (T,); None in the long form."""
    at: Array | None
    """When each interval ended, s, rising, shape (T,); None in the wide form."""
    truth: Array | None
    """The true use of each class, shape (T, K), to score an attribution against."""
    host: HostUse = field(default_factory=HostUse)
    """How busy the host was in the worst minute, where that is known."""
    has_times: bool = True
    """Whether the classes' statement times are known; if not, their calls are used instead."""


class Table:
    """A CSV file's header and rows, with access to cells by column.

    `name_of` returns a column's name for what the header has.
    """

    def __init__(
        self, path: str, max_bytes: int = MAX_TABLE_BYTES, name_of: Callable[[str], str] = str
    ) -> None:
        self.name = display_name(path)
        self._rows = read_rows(path, max_bytes)
        self.line, header = next(self._rows, (1, []))
        if not header:
            raise self.error("the file is empty", "its first line names the columns")
        self.header = tuple(map(name_of, header))
        mistake = header_mistake(header)
        if mistake is not None:
            raise self.error(*mistake)
        self._require_distinct_names()

    def fold_case(self) -> None:
        """Write the names of all columns in lower case; raises TableFileError if two are one."""
        self.header = tuple(map(str.casefold, self.header))
        self._require_distinct_names()

    def _require_distinct_names(self) -> None:
        counts = Counter(self.header)
        for column in self.header:
            if counts[column] > 1:
                raise self.error(
                    f"two columns are named {shortened(column)}", "give each a name of its own"
                )
            if not column:
                raise self.error("a column has no name", "name every column")

    def error(self, problem: str, remedy: str) -> TableFileError:
        """Return an error about the line that was read last."""
        return TableFileError(self.name, self.line, problem, remedy)

    def rows(self) -> Iterator[list[str]]:
        """Yield the cells of each row; raises TableFileError for a row with too many."""
        for line, cells in self._rows:
            self.line = line
            if len(cells) > len(self.header):
                problem = f"{len(cells)} cells under {len(self.header)} columns"
                raise self.error(problem, "quote cells that hold commas")
            yield cells

    def column(self, wanted: str, remedy: str) -> int:
        """Return the index of a column; raises TableFileError if there is none of that name."""
        if wanted not in self.header:
            raise self.error(f"no column {shortened(wanted)}", remedy)
        return self.header.index(wanted)

    def text(self, cells: Sequence[str], index: int) -> str:
        """Return a cell; raises TableFileError if it is empty."""
        cell = cells[index] if index < len(cells) else ""
        if not cell:
            problem = f"{shortened(self.header[index])} is missing"
            raise self.error(problem, "fill it in or drop the line")
        return cell

    def number(self, cells: Sequence[str], index: int, *, signed: bool = False) -> float:
        """Return a cell's finite number, at least 0 unless `signed`; raises TableFileError."""
        cell, column = self.text(cells, index), shortened(self.header[index])
        try:
            value = float(cell)
        except ValueError:
            problem = f"{column} is {shortened(cell)!r}, which is not a number"
            raise self.error(problem, "write digits and a decimal point only") from None
        if not math.isfinite(value) or (value < 0 and not signed):
            must = "finite" if signed else "finite and at least 0"
            problem = f"{column} is {shortened(cell)}, and must be {must}"
            raise self.error(problem, "correct it or drop the line")
        if abs(value) > MAX_NUMBER:
            problem = f"{column} is {shortened(cell)}, and must be {MAX_NUMBER:g} at most"
            raise self.error(problem, "correct it, or use another unit")
        return value if abs(value) >= MIN_NUMBER else 0.0

    def numbers(self, cells: Sequence[str], indexes: Sequence[int]) -> Array:
        """Convert these cells, as `number` does, to an array of shape (cells,)."""
        try:
            values = np.array([float(cells[i]) for i in indexes])
        except (ValueError, IndexError):
            values = np.array([np.nan])
        if not ((values >= 0) & (values <= MAX_NUMBER)).all():
            return np.array([self.number(cells, i) for i in indexes])
        values[values < MIN_NUMBER] = 0.0
        return values


def read_classes(path: str, resource: str | None = None) -> ClassFile:
    """Read a file of either form.

    `resource` names the resource's column in the wide form; without it, that is the last column.
    The columns that this module names may be written in upper case. Raises TableFileError if the
    file cannot be used.
    """
    table = Table(path)
    if {TIME, CLASS} <= set(map(str.casefold, table.header)):
        table.fold_case()
        return _read_long(table)
    return _read_wide(table, resource)


def _read_wide(table: Table, resource: str | None) -> ClassFile:
    folded = [name.casefold() for name in table.header]
    if {TIME, *SERVER_SAMPLE_COLUMNS} <= set(folded):
        raise table.error(
            "these are samples of a server, without its query classes",
            "`mysql-headroom replay` reads them; attribute needs the use of each class",
        )
    columns = [i for i, name in enumerate(folded) if name not in (TIME, SECONDS)]
    y_column = columns[-1] if columns else 0
    if resource is not None:
        y_column = table.column(resource, f"name one of its columns: {_first_names(table.header)}")
    x_columns = [i for i in columns if i != y_column]
    if not x_columns:
        remedy = "write one column per class and one for the resource, separated by commas"
        raise table.error("no class besides the resource", remedy)
    wanted = [*x_columns, y_column]
    rows = [table.numbers(cells, wanted) for cells in table.rows()]
    _require_intervals(table, len(rows))
    values = np.array(rows)
    names = tuple(table.header[i] for i in x_columns)
    intervals = ClassIntervals(names, np.ones(len(values)), values[:, :-1])
    return ClassFile(table.name, intervals, table.header[y_column], values[:, -1], None, None)


@dataclass(frozen=True)
class _Record:
    """One row of the long form."""

    at: float
    seconds: float | None
    name: str
    text: str | None
    values: tuple[float, ...]


def _read_long(table: Table) -> ClassFile:
    known = [name for name in NUMBERS if name in table.header]
    if not {STATEMENT_TIME, COUNT} & set(known):
        remedy = f"{STATEMENT_TIME} is the classes' statement time, s"
        raise table.error(f"neither {STATEMENT_TIME} nor {COUNT} is a column", remedy)
    records = [_record(table, cells, known) for cells in table.rows()]
    at = np.array(sorted({record.at for record in records}))
    _require_intervals(table, len(at))
    names = tuple(sorted({record.name for record in records}))
    matrices = _matrices(records, known, at, names)
    time = matrices.get(STATEMENT_TIME, matrices.get(COUNT, np.zeros(0)))
    lock = matrices.get("lock_s")
    intervals = ClassIntervals(
        names=names,
        seconds=_seconds(records, at),
        statement_time=time,
        count=matrices.get(COUNT),
        lock_time=None if lock is None or STATEMENT_TIME not in known else np.minimum(lock, time),
        inflight_delta=matrices.get(INFLIGHT_DELTA) if STATEMENT_TIME in known else None,
        sizes=tuple((name, matrices[name]) for name in SIZES if name in matrices),
        cpu=matrices.get(MEASURED_CPU),
        texts=_texts(records, names) if TEXT in table.header else None,
    )
    truth, has_times = matrices.get(TRUE_CPU), STATEMENT_TIME in known
    return ClassFile(table.name, intervals, None, None, at, truth, has_times=has_times)


def _record(table: Table, cells: list[str], known: Sequence[str]) -> _Record:
    column = {name: i for i, name in enumerate(table.header)}
    seconds = None
    if SECONDS in column:
        seconds = table.number(cells, column[SECONDS])
        if seconds <= 0:
            raise table.error(f"{SECONDS} is {seconds:g}", "an interval lasts more than 0 s")
    text_column = column.get(TEXT, len(cells))
    return _Record(
        at=table.number(cells, column[TIME], signed=True),
        seconds=seconds,
        name=table.text(cells, column[CLASS]),
        text=(cells[text_column] or None) if text_column < len(cells) else None,
        values=tuple(table.number(cells, column[n], signed=n == INFLIGHT_DELTA) for n in known),
    )


def _matrices(
    records: Sequence[_Record], known: Sequence[str], at: Array, names: tuple[str, ...]
) -> dict[str, Array]:
    """Sum the rows of each interval and class: a matrix of shape (T, K) per column."""
    column = {name: k for k, name in enumerate(names)}
    intervals = np.searchsorted(at, [record.at for record in records])
    classes = np.array([column[record.name] for record in records], dtype=np.intp)
    values = np.array([record.values for record in records])
    matrices = {name: np.zeros((len(at), len(names))) for name in known}
    for i, name in enumerate(known):
        np.add.at(matrices[name], (intervals, classes), values[:, i])
    return matrices


def _seconds(records: Sequence[_Record], at: Array) -> Array:
    """Return the intervals' lengths, s: `dt_s`, else from their times, the first by the median."""
    gaps = np.diff(at)
    lengths = np.concatenate(([float(np.median(gaps))], gaps))
    for record in records:
        if record.seconds is not None:
            lengths[np.searchsorted(at, record.at)] = record.seconds
    return lengths


def _texts(records: Sequence[_Record], names: tuple[str, ...]) -> tuple[str | None, ...]:
    known = {record.name: record.text for record in records if record.text}
    return tuple(known.get(name) for name in names)


def _require_intervals(table: Table, intervals: int) -> None:
    if intervals < MIN_INTERVALS:
        count = "no intervals" if intervals == 0 else "1 interval"
        raise table.error(f"{count}, too few to distinguish classes", "record two or more")


def _first_names(names: Sequence[str]) -> str:
    shown = ", ".join(shortened(name) for name in names[:SHOWN_NAMES])
    return shown + (", …" if len(names) > SHOWN_NAMES else "")
