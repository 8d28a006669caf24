"""The result of a query: rows of bytes, within the limits that the statement sets.

A server may be malicious, and its users may write anything. So a result has at most as many rows,
columns and bytes as the statement can return, counted while it is read; a text is decoded without
an error; and a number is finite, within bounds and short.
"""

import re
from dataclasses import dataclass

from collectors.base import CollectorError, FailureKind

ResultCell = bytes | None
ResultRow = tuple[ResultCell, ...]

NUMBER = re.compile(rb"[+-]?[0-9]{1,80}(\.[0-9]{0,80})?([eE][+-]?[0-9]{1,3})?")
"""MySQL's longest DECIMAL has 81 digits and signs."""
MAX_NUMBER = 1e30
"""A thousand sessions for a thousand years, in picoseconds; its sums and squares are finite."""
WHOLE = re.compile(rb"[0-9]{1,20}")  # of 64 bits
DEFAULT_LENGTH = 512
"""Longest text that has no limit of its own: MySQL's longest path (FN_REFLEN)."""
SHOWN_CHARACTERS = 40  # characters of a value that is not a number, in the message
PACKET_BYTES = 4096  # bytes of a result besides its rows: names of columns, a message
ROW_BYTES, COLUMN_BYTES = 16, 1024  # bytes of each row and column besides the cells


@dataclass(frozen=True, slots=True)
class ResultLimits:
    """Limits of a result: the exact number of columns, the most rows, and the most bytes of cells.

    A statement without columns returns no rows, only OK.
    """

    columns: int = 1
    rows: int = 1
    bytes: int = 4096

    @property
    def size(self) -> int:
        """The largest size of the whole result in bytes."""
        return PACKET_BYTES + COLUMN_BYTES * self.columns + ROW_BYTES * self.rows + self.bytes


ONE_CELL = ResultLimits()
NO_ROWS = ResultLimits(columns=0, rows=0, bytes=0)


def text(cell: ResultCell, characters: int = DEFAULT_LENGTH) -> str:
    """Decode that many characters at most; invalid UTF-8 becomes U+FFFD, NULL the empty text."""
    return "" if cell is None else cell[: 4 * characters].decode("utf-8", "replace")[:characters]


def number(name: str, cell: ResultCell | str) -> float:
    """Parse a finite number; raises `CollectorError` with this name if it is none."""
    found = _digits(cell)
    if NUMBER.fullmatch(found):
        value = float(found)
        if -MAX_NUMBER <= value <= MAX_NUMBER:
            return value
    raise _not_a_number(name, cell)


def number_or_zero(name: str, cell: ResultCell) -> float:
    """Parse a finite number, or 0 for NULL, the sum over no rows; raises `CollectorError`."""
    return 0.0 if cell is None else number(name, cell)


def whole_number(name: str, cell: ResultCell | str) -> int:
    """Parse an unsigned 64-bit integer; raises `CollectorError` with this name if it is none."""
    found = _digits(cell)
    if not WHOLE.fullmatch(found):
        raise _not_a_number(name, cell)
    return int(found)


def _digits(cell: ResultCell | str) -> bytes:
    """Return what may be a number; what is none becomes no number either."""
    return cell.encode("ascii", "replace") if isinstance(cell, str) else cell or b""


def _not_a_number(name: str, cell: ResultCell | str) -> CollectorError:
    shown = cell[:SHOWN_CHARACTERS] if isinstance(cell, str) else text(cell, SHOWN_CHARACTERS)
    what = "NULL" if cell is None else ascii(shown)
    return CollectorError(FailureKind.UNREADABLE, f"{name} is not a usable number: {what}")
