"""Conversion of cells and times between text and rows; every error has a remedy."""

import json
import math
import re

from agent.assessment.deploy_markers import MAX_NAME_LENGTH
from agent.config.settings import NAME_PATTERN
from agent.csv_input.table_file import shortened
from agent.history.row_kinds import MARKERS, Cell, CellType, Column, Row, RowKind
from agent.support.errors import InputError
from agent.support.safe_output import for_spreadsheet, from_spreadsheet, json_text

MAX_UNIX = 253_402_300_800.0  # the year 10,000, in Unix seconds
MAX_LENGTH = 255  # characters of a word or a name
TARGET = re.compile(NAME_PATTERN)


class CellError(InputError):
    """An invalid cell or row, with the problem and its remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.problem = problem
        self.remedy = remedy


def unix_time_text(at: int) -> str:
    """Format a time (ms) in Unix seconds, to the millisecond."""
    return f"{at // 1000}.{at % 1000:03d}"


def read_time(text: str) -> int:
    """Parse a time in Unix seconds, and return it in ms; raises `CellError`."""
    seconds = _number("time", text)
    if not 0 <= seconds < MAX_UNIX:
        raise CellError(f"time is {shortened(text)}", "give it in seconds since 1970")
    return round(1000 * seconds)


def cell_text(cell: Cell) -> str:
    """Format a cell for a table; numbers keep their full precision."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return for_spreadsheet(cell)
    if isinstance(cell, float | int):
        return repr(float(cell))
    return json_text(dict(sorted(cell.items())))


def read_cell(column: Column, text: str) -> Cell:
    """Parse a cell of a column, None if the text is empty; raises `CellError`."""
    if not text:
        return None
    if column.holds is CellType.WORDS:
        return read_word(column.name, from_spreadsheet(text), column.choices)
    if column.holds is CellType.NUMBER:
        return read_number(column, text)
    return _numbers(column, text)


def read_number(column: Column, text: str) -> float:
    """Parse a number that the column may hold; raises `CellError`."""
    number = _number(column.name, text)
    if number < column.minimum:
        problem = f"{column.name} is {shortened(text)}, and must be {column.minimum:g} or more"
        raise CellError(problem, "correct it or drop the line")
    return number


def read_word(name: str, text: str, choices: tuple[str, ...] = ()) -> str:
    """Return the text if it may be stored as a word; raises `CellError`."""
    if not text or len(text) > MAX_LENGTH or not text.isprintable() or text != text.strip():
        problem = f"{name} is {shortened(text)!r}"
        raise CellError(problem, f"give 1 to {MAX_LENGTH} printable characters")
    if choices and text not in choices:
        raise CellError(f"{name} is {shortened(text)!r}", f"give one of {', '.join(choices)}")
    return text


def read_labels(kind: RowKind, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the labels of a row if they are valid; raises `CellError`."""
    if kind is MARKERS:
        return _marker_labels(*texts)
    labels = tuple(read_word(name, text) for name, text in zip(kind.labels, texts, strict=True))
    return (_checked_target(labels[0]), *labels[1:])


def _marker_labels(target: str, name: str) -> tuple[str, str]:
    """Return the labels of a marker, which is for one target or, if that is empty, for all."""
    if len(name) > MAX_NAME_LENGTH:
        remedy = f"give 1 to {MAX_NAME_LENGTH} printable characters"
        raise CellError(f"name is {shortened(name)!r}", remedy)
    return _checked_target(target) if target else "", read_word("name", name)


def _checked_target(name: str) -> str:
    if not TARGET.fullmatch(name):
        problem = f"target is {shortened(name)!r}"
        raise CellError(
            problem, "use only the characters of a target name: letters, digits, _ . : -"
        )
    return name


def read_row(kind: RowKind, labels: tuple[str, ...], at: int, cells: tuple[Cell, ...]) -> Row:
    """Build a row; raises `CellError` if a required cell is missing."""
    for column, cell in zip(kind.columns, cells, strict=True):
        if column.required and cell is None:
            raise CellError(f"{column.name} is missing", "fill it in or drop the line")
    return Row(labels, at, cells)


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        problem = f"{name} is {shortened(text)!r}, which is not a finite number"
        raise CellError(problem, "write digits and a decimal point, or leave it empty if unknown")
    return number


def _numbers(column: Column, text: str) -> dict[str, float]:
    remedy = 'write {"name": 1.5}'
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise CellError(f"{column.name} is not valid JSON", remedy) from None
    if not isinstance(found, dict) or not found:
        raise CellError(f"{column.name} has no numbers by name", remedy)
    return {
        read_word(f"a name in {column.name}", name): _named_number(column.name, name, value)
        for name, value in found.items()
    }


def _named_number(column: str, name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CellError(f"{column}: {shortened(name)} is not a number", 'write {"name": 1.5}')
    return _number(f"{column}: {shortened(name)}", str(value))
