r"""Escape text from outside for a terminal, a log or a spreadsheet: it is shown, never executed.

What is not printable (control codes of ASCII and of Latin-1, line ends of Unicode, marks that turn
the direction of writing) is written as Python does: \x1b, \x9b, \u2028, \u202e.
"""

import json
import sys
from collections.abc import Callable

FORMULA = "=+-@"  # first characters of a formula in Excel and LibreOffice
GUARD = "'"  # marks a cell as text in both


def printable(text: str) -> str:
    """Escape all unprintable characters, so that the text is one line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def printable_lines(text: str) -> str:
    """The same, of a text whose line feeds are its own."""
    return "\n".join(printable(line) for line in text.split("\n"))


def json_text(
    value: object,
    *,
    indent: int | None = None,
    allow_nan: bool = False,
    default: Callable[[object], str] | None = None,
) -> str:
    """JSON that another program reads as it was, and a terminal shows without executing it.

    Raises TypeError for a value that JSON cannot hold, unless `default` makes a text of it.
    """
    found = json.dumps(
        value, indent=indent, allow_nan=allow_nan, ensure_ascii=False, default=default
    )
    if found.isprintable():
        return found
    return "".join(c if c.isprintable() or c == "\n" else _json_escape(c) for c in found)


def for_spreadsheet(cell: str) -> str:
    """A word as a CSV cell that is no formula; `from_spreadsheet` gives it back."""
    shown = printable(cell)
    return GUARD + shown if shown.startswith((*FORMULA, GUARD)) else shown


def from_spreadsheet(cell: str) -> str:
    """The word that such a cell stands for."""
    return cell[1:] if cell.startswith(GUARD) and cell[1:2] in (*FORMULA, GUARD) else cell


def say(text: str) -> None:
    """Print a text of one or more lines, whose line feeds are its own."""
    print(printable_lines(text))


def say_line(text: str) -> None:
    """Print one line, whatever is in it."""
    print(printable(text))


def complain_of(problem: object) -> None:
    """Report a mistake as one line on standard error."""
    print(f"mysql-headroom: {printable(str(problem))}", file=sys.stderr)


def _json_escape(sign: str) -> str:
    units = sign.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[k]:02x}{units[k + 1]:02x}" for k in range(0, len(units), 2))


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape").decode()
