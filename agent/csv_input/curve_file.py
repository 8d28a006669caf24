"""Reader of CSV files with concurrency and throughput; an error names the line."""

import math
from dataclasses import dataclass

from agent.csv_input.table_file import (
    TableFileError,
    display_name,
    header_mistake,
    read_rows,
    shortened,
)

COLUMNS = ("concurrency", "throughput")
MIN_ROWS = 3
MIN_NUMBER, MAX_NUMBER = 1e-9, 1e15
"""The range of plausible values; the squares of greater ones can overflow."""


@dataclass(frozen=True)
class CurveFile:
    """The points of one file: concurrency n (threads), throughput x (queries/s), line numbers."""

    n: tuple[float, ...]
    x: tuple[float, ...]
    lines: tuple[int, ...]


def read_curve(path: str) -> CurveFile:
    """Read the columns `concurrency` and `throughput` by name; `-` is standard input.

    Blank lines, lines that begin with `#`, other columns and a byte-order mark are ignored.
    Raises TableFileError if the file cannot be fitted.
    """
    name = display_name(path)
    rows = read_rows(path)
    line, header = next(rows, (1, None))
    if header is None:
        raise TableFileError(name, 1, "the file is empty", f"its header is {','.join(COLUMNS)}")
    columns = [_column_index(name, line, header, wanted) for wanted in COLUMNS]
    points: list[tuple[float, float, int]] = []
    for line, row in rows:
        _check_width(name, line, header, row)
        n, x = (
            _number(name, line, row, index, wanted)
            for index, wanted in zip(columns, COLUMNS, strict=True)
        )
        points.append((n, x, line))
    if len(points) < MIN_ROWS:
        problem = f"too few points ({len(points)}): the law has three parameters"
        raise TableFileError(name, line, problem, "measure at three levels of load or more")
    ns, xs, lines = zip(*points, strict=True)
    return CurveFile(ns, xs, lines)


def _column_index(name: str, line: int, header: list[str], wanted: str) -> int:
    names = [cell.casefold() for cell in header]
    if names.count(wanted) == 1:
        return names.index(wanted)
    mistake = header_mistake(header)
    if mistake is not None:
        raise TableFileError(name, line, *mistake)
    problem = f"two columns are named {wanted}" if wanted in names else f"no column {wanted}"
    remedy = f"name the columns {' and '.join(COLUMNS)}, separated by commas"
    raise TableFileError(name, line, problem, remedy)


def _check_width(name: str, line: int, header: list[str], row: list[str]) -> None:
    """Raise TableFileError for a cell without a column: 1,000 would be read as 1."""
    if any(row[len(header) :]):
        problem = f"{len(row)} cells, the header has {len(header)} columns"
        remedy = "write numbers without a comma, or name every column"
        raise TableFileError(name, line, problem, remedy)


def _number(name: str, line: int, row: list[str], index: int, column: str) -> float:
    cell = row[index] if index < len(row) else ""
    if not cell:
        raise TableFileError(name, line, f"{column} is missing", "fill it in or drop the line")
    try:
        value = float(cell)
    except ValueError:
        problem = f"{column} is {shortened(cell)!r}, which is not a number"
        remedy = "write digits and a decimal point only"
        raise TableFileError(name, line, problem, remedy) from None
    if not math.isfinite(value) or value <= 0:
        problem = f"{column} is {shortened(cell)}, and must be finite and above 0"
        raise TableFileError(name, line, problem, "correct it or drop the line")
    if not MIN_NUMBER <= value <= MAX_NUMBER:
        problem = (
            f"{column} is {shortened(cell)}, and must be from {MIN_NUMBER:g} to {MAX_NUMBER:g}"
        )
        raise TableFileError(name, line, problem, "correct it, or use another unit")
    return value
