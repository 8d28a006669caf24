"""The result of a query: rows of bytes, within the limits that the statement sets.

A server may lie, and its users may write anything. So an answer has at most as many rows,
columns and bytes as the statement can be answered with, counted while it is read; a text is decoded
without an error; and a number is one that can be counted with, short enough to be read at once.
"""

import re
from dataclasses import dataclass

from collectors.base import CollectorError, FailureKind

Cell = bytes | None
Row = tuple[Cell, ...]

NUMBER = re.compile(r"[+-]?[0-9]{1,80}(\.[0-9]{0,80})?([eE][+-]?[0-9]{1,3})?")
"""MySQL's longest DECIMAL has 81 digits and signs."""
MAX_NUMBER = 1e30
"""A thousand sessions for a thousand years, in picoseconds; sums and squares of it are finite."""
WHOLE = re.compile(r"[0-9]{1,20}")  # of 64 bits
DEFAULT_LENGTH = 512
"""Of a text that has no limit of its own: MySQL's longest path (FN_REFLEN)."""
SHOWN_CHARACTERS = 40  # characters of a value that is not a number, in the message
PACKET_BYTES = 4096  # bytes of an answer beside its rows: names of columns, a message
ROW_BYTES, COLUMN_BYTES = 16, 1024  # bytes of each row and column beside the cells


@dataclass(frozen=True, slots=True)
class Shape:
    """Limits of a result: the exact number of columns, the most rows, and the most bytes of cells.

    Without columns it is answered with OK.
    """

    columns: int = 1
    rows: int = 1
    bytes: int = 4096

    @property
    def size(self) -> int:
        """The bytes of the whole answer, at most."""
        return PACKET_BYTES + COLUMN_BYTES * self.columns + ROW_BYTES * self.rows + self.bytes


ONE_CELL = Shape()
DONE = Shape(columns=0, rows=0, bytes=0)


def text(cell: Cell, characters: int = DEFAULT_LENGTH) -> str:
    """Decode up to a number of characters; invalid UTF-8 becomes U+FFFD, NULL the empty text."""
    return "" if cell is None else cell[: 4 * characters].decode("utf-8", "replace")[:characters]


def number(name: str, cell: Cell | str) -> float:
    """A finite number; raises `CollectorError` with this name where it is none."""
    found = _digits(cell)
    if NUMBER.fullmatch(found):
        value = float(found)
        if -MAX_NUMBER <= value <= MAX_NUMBER:
            return value
    raise _no_number(name, cell)


def number_or_zero(name: str, cell: Cell) -> float:
    """The same, and 0 for NULL, the sum over no rows."""
    return 0.0 if cell is None else number(name, cell)


def whole(name: str, cell: Cell | str) -> int:
    """A whole number from 0 up, of 64 bits; raises `CollectorError` with this name otherwise."""
    found = _digits(cell)
    if not WHOLE.fullmatch(found):
        raise _no_number(name, cell)
    return int(found)


def _digits(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return cell
    return "" if cell is None else cell[:200].decode("ascii", "replace")


def _no_number(name: str, cell: Cell | str) -> CollectorError:
    shown = cell[:SHOWN_CHARACTERS] if isinstance(cell, str) else text(cell, SHOWN_CHARACTERS)
    what = "NULL" if cell is None else ascii(shown)
    return CollectorError(FailureKind.UNREADABLE, f"{name} is not a usable number: {what}")
