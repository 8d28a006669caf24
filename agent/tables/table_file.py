"""Reading the cells of a CSV file; every mistake is told with its line and its remedy."""

import csv
import gzip
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

STANDARD_INPUT = "-"
SEPARATORS = {";": "semicolons", "\t": "tabs"}
GZIP_MAGIC = b"\x1f\x8b"


class TableFileError(Exception):
    """A file that cannot be used: where, what is wrong and what to do, on one line."""

    def __init__(self, name: str, line: int | None, problem: str, remedy: str) -> None:
        place = name if line is None else f"{name}:{line}"
        super().__init__(_one_line(f"{place}: {problem}; {remedy}"))


def shown_name(path: str) -> str:
    """Name the file as messages do."""
    return "<stdin>" if path == STANDARD_INPUT else path


def read_rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """Read line numbers and stripped cells; `-` is standard input, gzip is seen by its content.

    Each line is a row by itself. Blank lines, lines that begin with `#` and a byte-order mark are
    passed over. Raises TableFileError for a file that cannot be read or is not CSV.
    """
    return rows_in(shown_name(path), read_text(path))


def read_text(path: str) -> str:
    """Read a text file; `-` is standard input, gzip is seen by its content.

    Raises TableFileError for a file that cannot be read or is not UTF-8 text.
    """
    name = shown_name(path)
    return _text(name, _unpacked(name, _bytes(name, path)))


def shortened(cell: str, length: int = 30) -> str:
    """Cut a cell for a message."""
    return cell if len(cell) <= length else cell[: length - 1] + "…"


def header_mistake(header: list[str]) -> tuple[str, str] | None:
    """What is wrong with a first line that names no column as it is: problem and remedy."""
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


def _bytes(name: str, path: str) -> bytes:
    if path == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise TableFileError(name, None, "there is no such file", "check the path") from None
    except IsADirectoryError:
        raise TableFileError(name, None, "it is a directory", "name a CSV file in it") from None
    except (OSError, ValueError) as error:
        problem = f"it cannot be read ({getattr(error, 'strerror', None) or error})"
        raise TableFileError(name, None, problem, "check the path and its rights") from None


def _unpacked(name: str, content: bytes) -> bytes:
    if not content.startswith(GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        problem = f"it cannot be unpacked ({error})"
        raise TableFileError(name, None, problem, "pack it with gzip again") from None


def _text(name: str, content: bytes) -> str:
    remedy = "save it as CSV, in UTF-8"
    nul = content.find(b"\0")
    if nul >= 0:
        line = content[:nul].count(b"\n") + 1
        raise TableFileError(name, line, "this is not a text file", remedy)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise TableFileError(name, line, "this is not UTF-8 text", remedy) from None


def rows_in(name: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Split the text of a CSV file as `read_rows` does; `name` is the file's, for messages."""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            cells = next(csv.reader([line], strict=True))
        except csv.Error as error:
            remedy = "close the quotes on the line that opens them"
            raise TableFileError(name, number, f"this is not CSV ({error})", remedy) from None
        if any(cell.strip() for cell in cells):
            yield number, [cell.strip() for cell in cells]


def _one_line(message: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
