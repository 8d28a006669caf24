"""The contents of a history as a table."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.commands.text_table import table_lines
from agent.config.sizes import format_size
from agent.history.row_access import Extent
from agent.history.schema import VERSION
from agent.support.safe_output import printable

HEADER = ("target", "server", "kind", "rows", "from", "to")


def extent_lines(path: Path, size: int, extents: Sequence[Extent]) -> Iterator[str]:
    """Yield a line about the file, then a row for each target and kind."""
    yield f"{path}: {format_size(size)}, schema {VERSION}"
    if not extents:
        yield "it is empty"
        return
    ordered = sorted(extents, key=lambda e: (e.target, e.server))
    yield from table_lines([HEADER, *(_cells(extent) for extent in ordered)])


def _cells(extent: Extent) -> tuple[str, ...]:
    times = (_date(extent.first), _date(extent.last))
    names = (printable(extent.target), printable(extent.server))
    return (*names, extent.kind, f"{extent.rows:,}", *times)


def _date(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at / 1000))
