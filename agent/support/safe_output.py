r"""Escape text from outside for a terminal, a log or a spreadsheet: it is shown, never executed.

Unprintable characters (control codes of ASCII and Latin-1, line ends of Unicode, marks that change
the direction of writing) are written as Python does: \x1b, \x9b, \u2028, \u202e.
"""

import json
import sys
from collections.abc import Callable, Iterable

from agent.support.errors import HeadroomError

FORMULA = "=+-@"  # first characters of a formula in Excel and LibreOffice
GUARD = "'"  # marks a cell as text in both


class OutputError(HeadroomError):
    """Standard output cannot be written; `is_closed`: its reader has left, as `head` does."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output cannot be written: {error.strerror or error}")
        self.is_closed = isinstance(error, BrokenPipeError)


def printable(text: str) -> str:
    """Escape all unprintable characters, so that the text is one line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def printable_lines(text: str) -> str:
    """Escape all unprintable characters except line feeds."""
    return "\n".join(printable(line) for line in text.split("\n"))


def json_text(
    value: object,
    *,
    indent: int | None = None,
    allow_nan: bool = False,
    default: Callable[[object], str] | None = None,
) -> str:
    """Format a value as JSON that programs read unchanged and terminals show without executing it.

    Raises TypeError for a value that JSON cannot hold, unless `default` converts it to a text.
    """
    found = json.dumps(
        value, indent=indent, allow_nan=allow_nan, ensure_ascii=False, default=default
    )
    if found.isprintable():
        return found
    return "".join(c if c.isprintable() or c == "\n" else _json_escape(c) for c in found)


def for_spreadsheet(cell: str) -> str:
    """Return a text as a CSV cell that is no formula; `from_spreadsheet` reverses it."""
    shown = printable(cell)
    return GUARD + shown if shown.startswith((*FORMULA, GUARD)) else shown


def from_spreadsheet(cell: str) -> str:
    """Return the text from a cell that `for_spreadsheet` made."""
    return cell[1:] if cell.startswith(GUARD) and cell[1:2] in (*FORMULA, GUARD) else cell


def print_lines(text: str) -> None:
    """Print a text of one or more lines, with all unprintable characters escaped."""
    write_output([printable_lines(text) + "\n"])


def print_line(text: str) -> None:
    """Print a text as one line, with all unprintable characters and line feeds escaped."""
    write_output([printable(text) + "\n"])


def write_output(texts: Iterable[str]) -> None:
    """Write texts to standard output as they are; raises OutputError."""
    for text in texts:
        try:
            sys.stdout.write(text)
        except OSError as error:
            raise OutputError(error) from error


def flush_output() -> None:
    """Pass on what standard output has buffered; raises OutputError."""
    try:
        sys.stdout.flush()
    except OSError as error:
        raise OutputError(error) from error


def print_error(problem: object) -> None:
    """Print a problem as one line on standard error."""
    print(f"mysql-headroom: {printable(str(problem))}", file=sys.stderr)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[k]:02x}{units[k + 1]:02x}" for k in range(0, len(units), 2))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
