"""A comparison of two periods as a table and as JSON."""

from collections.abc import Iterator

from agent.commands.text_table import table_lines
from agent.compare.comparison import Comparison
from agent.export.comparison_json import comparison_object
from agent.export.comparison_rows import (
    HEADER,
    NUMBER_COLUMNS,
    known_rows,
    notes,
    period_text,
    row_cells,
)
from agent.support.safe_output import json_text, printable


def as_table(comparison: Comparison) -> Iterator[str]:
    """Yield a table with a row for each quantity, and notes on how to read it."""
    yield printable(comparison.target)
    for name, side in (("before", comparison.before), ("after", comparison.after)):
        yield printable(f"  {name:<7} {period_text(side)}")
    yield ""
    rows = [row_cells(row) for row in known_rows(comparison)]
    if rows:
        yield from map(printable, table_lines([HEADER, *rows], NUMBER_COLUMNS))
        yield ""
    yield from map(printable, notes(comparison))


def as_json(comparison: Comparison) -> Iterator[str]:
    """Yield one JSON document."""
    yield json_text(comparison_object(comparison))
