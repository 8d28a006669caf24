"""Rows of cells as aligned lines of text."""

from collections.abc import Collection, Iterator, Sequence


def aligned(cells: Sequence[str], widths: Sequence[int], right: Collection[int]) -> str:
    """Write one row; the columns numbered in `right` are aligned to the right."""
    padded = (
        cell.rjust(width) if k in right else cell.ljust(width)
        for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(padded).rstrip()


def table_lines(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> Iterator[str]:
    """Write rows of the same number of cells, each column as wide as its longest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return (aligned(row, widths, right) for row in rows)
