"""A history as CSV: a header, which identifies the kind of rows, and one row per line."""

import csv
import io
from collections.abc import Iterable, Iterator

from agent.csv_input.table_file import TableFileError, header_mistake, rows_in
from agent.history.row_kinds import TEXT_KINDS, Row, RowKind
from agent.history.text.cell_conversion import (
    CellError,
    cell_text,
    read_cell,
    read_labels,
    read_row,
    read_time,
    unix_time_text,
)
from agent.history.text.line_errors import Mistakes
from agent.support.safe_output import for_spreadsheet, from_spreadsheet

TIME = "time"


def header(kind: RowKind) -> list[str]:
    """Return the names of the columns."""
    return [*kind.labels, TIME, *(column.name for column in kind.columns)]


def as_csv(kind: RowKind, rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of the file, with their line ends."""
    yield _line(header(kind))
    for row in rows:
        yield _line(
            [*map(for_spreadsheet, row.labels), unix_time_text(row.at), *map(cell_text, row.cells)]
        )


def read_csv(name: str, lines: Iterable[str], mistakes: Mistakes) -> Iterator[tuple[RowKind, Row]]:
    """Yield the valid rows of a file, one at a time; errors in the others are added to `mistakes`.

    Raises `TableFileError` if the file is not an exported history.
    """
    rows = rows_in(name, lines)
    number, first = next(rows, (1, []))
    kind = next((kind for kind in TEXT_KINDS.values() if header(kind) == first), None)
    if kind is None:
        raise TableFileError(name, number, *(header_mistake(first) or _unknown_header(first)))
    for number, cells in rows:
        try:
            yield kind, _row(kind, cells)
        except CellError as mistake:
            mistakes.add(number, mistake)


def _unknown_header(first: list[str]) -> tuple[str, str]:
    """Return the problem and the remedy: the header that differs in the fewest columns."""
    headers = map(header, TEXT_KINDS.values())
    nearest = min(headers, key=lambda known: len({*known} ^ {*first}))
    problem = "this is not the header of an exported history" if first else "the file is empty"
    return problem, f"the header must be {','.join(nearest)}, or that of another kind"


def _row(kind: RowKind, cells: list[str]) -> Row:
    names = header(kind)
    if len(cells) != len(names):
        problem = f"{len(cells)} cells, the header has {len(names)} columns"
        raise CellError(problem, "write a cell for every column; it may be empty")
    labels = read_labels(kind, tuple(map(from_spreadsheet, cells[: len(kind.labels)])))
    at, *values = cells[len(kind.labels) :]
    found = tuple(read_cell(c, value) for c, value in zip(kind.columns, values, strict=True))
    return read_row(kind, labels, read_time(at), found)


def _line(cells: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()
