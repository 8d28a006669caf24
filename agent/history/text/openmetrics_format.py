r"""A history as OpenMetrics with timestamps, for `promtool tsdb create-blocks-from openmetrics`.

A column of numbers is a gauge; one of numbers by name is a gauge with the label `name`; one of
words is a gauge that is 1, with the word as a label.
https://prometheus.io/docs/specs/om/open_metrics_spec/

The parser is our own: that of `prometheus_client` takes twice the time (21 µs a line), stops at the
first error, and does not report its line.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from agent.csv_input.table_file import TableFileError
from agent.history.row_kinds import TEXT_KINDS, Cell, CellType, Column, Row, RowKind
from agent.history.text.cell_conversion import (
    CellError,
    read_labels,
    read_number,
    read_row,
    read_time,
    read_word,
    unix_time_text,
)
from agent.history.text.line_errors import Mistakes
from agent.support.safe_output import printable

PREFIX = "mysql_headroom_history_"
END = "# EOF"
NAME_LABEL = "name"
MAX_LINES = 1_000_000  # which take about 400 MB of memory
LINE = re.compile(r"([A-Za-z_:][\w:]*)\{(.*)\} (\S+) (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"(,|$)')
ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
UNESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

LabelPairs = tuple[tuple[str, str], ...]
Entry = tuple[LabelPairs, str, int]
"""Labels, the value as text, and the time (ms)."""


def family(kind: RowKind, column: Column) -> str:
    """Return the name of a column's metric."""
    return f"{PREFIX}{kind.one}_{column.name}"


FAMILIES = {
    family(kind, column): (kind, column) for kind in TEXT_KINDS.values() for column in kind.columns
}


def as_openmetrics(
    kinds: Iterable[RowKind], read: Callable[[RowKind], Iterable[Row]]
) -> Iterator[str]:
    """Yield the lines of the file, with their line ends; rows are read once for each column."""
    for kind in kinds:
        for place, column in enumerate(kind.columns):
            name = family(kind, column)
            yield f"# TYPE {name} gauge\n"
            for labels, points in _series(kind, column, place, read(kind)).items():
                shown = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels)
                for value, at in points:
                    yield f"{name}{{{shown}}} {value} {unix_time_text(at)}\n"
    yield f"{END}\n"


def read_openmetrics(text: Iterable[str], mistakes: Mistakes) -> Iterator[tuple[RowKind, Row]]:
    """Yield the valid rows of a file; errors are added to `mistakes`, line by line.

    The values of a row are far apart in the file, so all of it is in memory: see `refuse_too_many`.
    """
    cells: dict[tuple[str, tuple[str, ...], int], dict[str, Cell]] = {}
    line_of_row: dict[tuple[str, tuple[str, ...], int], int] = {}
    last, number = "", 0
    for number, line in enumerate(text, start=1):
        last = line or last
        if not line.strip() or line.startswith("#"):
            continue
        try:
            kind, labels, at = _add_line(line, cells)
        except CellError as mistake:
            mistakes.add(number, mistake)
        else:
            line_of_row.setdefault((kind.name, labels, at), number)
    if last != END:
        problem = f"the file does not end with {END}: it was cut off"
        mistakes.add(number + 1, CellError(problem, "export it again"))
    for (kind_name, labels, at), known in cells.items():
        kind = TEXT_KINDS[kind_name]
        try:
            row = tuple(known.get(column.name) for column in kind.columns)
            yield kind, read_row(kind, labels, at, row)
        except CellError as mistake:
            mistakes.add(line_of_row[kind_name, labels, at], mistake)


def refuse_too_many(name: str, text: Iterable[str]) -> None:
    """Raise `TableFileError` if there are more than `MAX_LINES`, before any is parsed."""
    if next(islice(text, MAX_LINES, None), None) is not None:
        remedy = "export it as CSV, or in parts with --since and --until"
        raise TableFileError(name, MAX_LINES + 1, f"more than {MAX_LINES:,} lines", remedy)


def is_openmetrics(text: Iterable[str]) -> bool:
    """Return whether the text begins like OpenMetrics, and not like a table."""
    first = next((line for line in text if line.strip()), "")
    return first.lstrip().startswith((PREFIX, "# TYPE ", "# HELP ", END))


def _series(
    kind: RowKind, column: Column, place: int, rows: Iterable[Row]
) -> dict[LabelPairs, list[tuple[str, int]]]:
    """Group a column's values by labels: those of one series must be adjacent."""
    series: dict[LabelPairs, list[tuple[str, int]]] = {}
    for row in rows:
        for labels, value, at in _entries(kind, column, row, row.cells[place]):
            series.setdefault(labels, []).append((value, at))
    return series


def _entries(kind: RowKind, column: Column, row: Row, cell: Cell) -> Iterator[Entry]:
    labels = tuple(zip(kind.labels, row.labels, strict=True))
    if isinstance(cell, Mapping):
        for name, value in cell.items():
            yield (*labels, (NAME_LABEL, name)), repr(float(value)), row.at
    elif isinstance(cell, str):
        yield (*labels, (column.name, cell)), "1", row.at
    elif cell is not None:
        yield labels, repr(float(cell)), row.at


def _add_line(
    line: str, cells: dict[tuple[str, tuple[str, ...], int], dict[str, Cell]]
) -> tuple[RowKind, tuple[str, ...], int]:
    """Add the value of one line to `cells`; return the key of its row."""
    match = LINE.fullmatch(line)
    if match is None or match[1] not in FAMILIES:
        problem = "this is not a line of an exported history"
        raise CellError(problem, f'it reads {PREFIX}…{{target="…",…}} VALUE TIME')
    kind, column = FAMILIES[match[1]]
    unused = _labels(match[2])
    labels = read_labels(kind, tuple(unused.pop(name, "") for name in kind.labels))
    at = read_time(match[4])
    name, cell = _value(column, unused, match[3])
    if unused:
        raise CellError(f"the label {next(iter(unused))} is not known", "remove it")
    row = cells.setdefault((kind.name, labels, at), {})
    before = row.get(column.name)
    named = before if isinstance(before, Mapping) else {}
    if name in named or (before is not None and not named):
        raise CellError("this series has a value at this time already", "remove one line")
    row[column.name] = {**named, name: cell} if isinstance(cell, float) and name else cell
    return kind, labels, at


def _value(column: Column, unused: dict[str, str], text: str) -> tuple[str, float | str]:
    """Return the value's name, empty if it has none, and the value; remove the labels used."""
    if column.holds is CellType.WORDS:
        return "", read_word(column.name, unused.pop(column.name, ""), column.choices)
    is_named = column.holds is CellType.NUMBERS
    name = read_word(NAME_LABEL, unused.pop(NAME_LABEL, "")) if is_named else ""
    return name, read_number(column, text)


def _labels(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    place = 0
    while place < len(text):
        label = LABEL.match(text, place)
        if label is None:
            raise CellError("the labels are invalid", 'write them as name="value", with commas')
        found[label[1]] = re.sub(r"\\.", lambda e: UNESCAPES.get(e[0], e[0]), label[2])
        place = label.end()
    return found


def _escaped(value: str) -> str:
    return "".join(ESCAPES.get(sign, sign) for sign in printable(value))
