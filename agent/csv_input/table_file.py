"""Reader of the cells of a CSV file; an error names the line and a remedy."""

import codecs
import csv
import errno
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from agent.support.errors import InputError
from agent.support.gzip_stream import CHUNK_BYTES, unpacked
from agent.support.safe_output import printable

STANDARD_INPUT = "-"
FULL_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
SEPARATORS = {";": "semicolons", "\t": "tabs", " ": "spaces"}
GZIP_MAGIC = b"\x1f\x8b"
BOM = codecs.BOM_UTF8
SEPARATOR_LINE = re.compile(r'"?sep=.?"?\s*', re.IGNORECASE)
"""A first line by which a table tells Excel its separator; the next line shows it as well."""
MAX_LINE_LENGTH = 2**20  # bytes
SHOWN_LENGTH = 30  # characters of a cell in a message
MIN_MEAN_LINE_BYTES = 64  # mean bytes of a line, at least: a million lines in a table
MAX_TABLE_BYTES = 2**26  # bytes of a table that is held in memory, where it takes ten times as much
MAX_STREAM_BYTES = 2**32  # bytes of a table that is read as a stream


class TableFileError(InputError):
    """A file cannot be used; the message is one line: the place, the problem and a remedy."""

    def __init__(self, name: str, line: int | None, problem: str, remedy: str) -> None:
        place = name if line is None else f"{name}:{line}"
        super().__init__(printable(f"{place}: {problem}; {remedy}"))


def unwritable_file_error(path: str, what: str, error: OSError) -> TableFileError:
    """Return the error for an output file; `what` is its contents, as the message names them."""
    is_full = error.errno in FULL_DISK_ERRORS
    where = (
        "on a disk that has room" if is_full else "in a directory that exists and can be written to"
    )
    problem = f"{what} cannot be written ({error.strerror or error})"
    return TableFileError(path, None, problem, f"name a file {where}")


def display_name(path: str) -> str:
    """Return the file's name for messages."""
    return "<stdin>" if path == STANDARD_INPUT else path


def read_rows(path: str, max_bytes: int = MAX_TABLE_BYTES) -> Iterator[tuple[int, list[str]]]:
    """Yield line numbers and stripped cells; `-` is standard input, gzip is detected.

    `max_bytes` limits the unpacked size; a table that is not held in memory may have more.

    Each line is a row by itself. Blank lines, lines that begin with `#`, a byte-order mark and a
    first line `sep=,` are ignored. Raises TableFileError for a file that cannot be read, is not CSV
    or is too large.
    """
    name = display_name(path)
    with open_input(path) as file:
        yield from rows_in(name, text_lines(name, file, max_bytes))


@contextmanager
def open_input(path: str) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, or standard input for `-`; raises TableFileError."""
    if path == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    name = display_name(path)
    try:
        file = Path(path).open("rb")  # noqa: SIM115  (closed below, outside of `try`)
    except FileNotFoundError:
        raise TableFileError(name, None, "there is no such file", "check the path") from None
    except IsADirectoryError:
        raise TableFileError(name, None, "it is a directory", "name a CSV file in it") from None
    except (OSError, ValueError) as error:
        raise unreadable_error(name, error) from None
    with file:
        yield file


def text_lines(name: str, file: BinaryIO, max_bytes: int) -> Iterator[str]:
    """Yield the lines of a text as they are read, gzip unpacked; `max_bytes` in all.

    Raises TableFileError if it is not UTF-8 text, has more bytes, too many lines or too long a one.
    """
    max_lines = max_bytes // MIN_MEAN_LINE_BYTES
    for number, line in enumerate(_byte_lines(name, _limited(name, file, max_bytes)), start=1):
        if number > max_lines:
            problem = f"it holds more than {max_lines:,} lines"
            raise TableFileError(name, None, problem, "split it into smaller files")
        text = _decoded_line(name, number, line.removeprefix(BOM) if number == 1 else line)
        yield from text.splitlines() or [""]


def shortened(cell: str) -> str:
    """Shorten a cell for a message."""
    return cell if len(cell) <= SHOWN_LENGTH else cell[: SHOWN_LENGTH - 1] + "…"


def header_mistake(header: list[str]) -> tuple[str, str] | None:
    """Return the problem and remedy if the first line is not a header, else None."""
    for separator, shown in SEPARATORS.items():
        if len(header) == 1 and separator in header[0]:
            return f"its cells are separated by {shown}", "separate them by commas"
    if header and all(map(_is_number, header)):
        return "its first line has numbers and no names", "name the columns in the first line"
    return None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _limited(name: str, file: BinaryIO, max_bytes: int) -> Iterator[bytes]:
    """Yield the content in pieces, unpacked; raises TableFileError beyond `max_bytes`."""
    size = 0
    try:
        for piece in _pieces(file):
            size += len(piece)
            if size > max_bytes:
                problem = f"it holds more than {max_bytes // 2**20} MiB"
                raise TableFileError(name, None, problem, "split it into smaller files")
            yield piece
    except (EOFError, zlib.error) as error:
        problem = f"it cannot be unpacked ({error})"
        raise TableFileError(name, None, problem, "compress it with gzip again") from None
    except (OSError, ValueError) as error:
        raise unreadable_error(name, error) from None


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    first = file.read(CHUNK_BYTES)
    pieces = chain([first], iter(partial(file.read, CHUNK_BYTES), b""))
    yield from unpacked(pieces) if first.startswith(GZIP_MAGIC) else pieces


def _byte_lines(name: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines without their line feeds, which the last one may lack."""
    rest = b""
    number = 1
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        number += len(lines)
        if len(rest) > MAX_LINE_LENGTH:
            _decoded_line(name, number, rest[:1])
            problem = f"a line of more than {MAX_LINE_LENGTH // 2**10} KiB"
            raise TableFileError(name, number, problem, "give one row a line")
    if rest:
        yield rest


def _decoded_line(name: str, number: int, line: bytes) -> str:
    remedy = "save it as CSV, in UTF-8"
    if b"\0" in line:
        raise TableFileError(name, number, "this is not a text file", remedy)
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise TableFileError(name, number, "this is not UTF-8 text", remedy) from None


def unreadable_error(name: str, error: Exception) -> TableFileError:
    """Return a TableFileError for a system error about this file."""
    problem = f"it cannot be read ({getattr(error, 'strerror', None) or error})"
    return TableFileError(name, None, problem, "check the path and its permissions")


def rows_in(name: str, lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Split the lines of a CSV file as `read_rows` does; `name` is the file's, for messages."""
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if number == 1 and SEPARATOR_LINE.fullmatch(line):
            continue
        try:
            cells = next(csv.reader([line], strict=True))
        except csv.Error as error:
            remedy = "close the quotes on the line that opens them"
            raise TableFileError(name, number, f"this is not CSV ({error})", remedy) from None
        if any(cell.strip() for cell in cells):
            yield number, [cell.strip() for cell in cells]
