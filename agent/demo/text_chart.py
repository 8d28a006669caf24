"""Throughput over concurrency as a chart of text: the points and the fitted law."""

import numpy as np

from agent.export.number_formats import format_number
from models.arrays import Array
from models.usl.law import Usl

POINT, CURVE, NOW = "•", "·", "O"
LEGEND = f"{POINT} seen   {CURVE} the law   {NOW} now"
AXIS_COLUMNS = 8  # columns for the numbers on the left


def text_chart(
    n: Array, x: Array, law: Usl, now: tuple[float, float] | None, width: int, height: int
) -> list[str]:
    """Draw n (threads) and x (queries/s), shape (points,), in a text of that width and height."""
    right, top = 1.05 * float(n.max()), 1.1 * float(x.max())
    columns, lines = width - AXIS_COLUMNS - 1, height - 1
    grid = [[" "] * columns for _ in range(lines)]

    def put(at: float, level: float, symbol: str) -> None:
        column, line = int(at / right * columns), int(level / top * lines)
        if 0 <= column < columns and 0 <= line < lines:
            grid[lines - 1 - line][column] = symbol

    for at in (np.arange(columns) + 0.5) * right / columns:
        put(float(at), float(law.throughput(float(at))), CURVE)
    for at, level in zip(n, x, strict=True):
        put(float(at), float(level), POINT)
    if now is not None:
        put(*now, NOW)
    return _labelled(grid, top, right)


def _labelled(grid: list[list[str]], top: float, right: float) -> list[str]:
    """Add the numbers of the axes to the drawing."""
    marks = {0: format_number(round(top)), len(grid) - 1: "0"}
    rows = [f"{marks.get(i, ''):>{AXIS_COLUMNS}}|{''.join(line)}" for i, line in enumerate(grid)]
    end = f"{right:.3g} threads"
    foot = "0" + LEGEND.center(len(grid[0]) - len(end) - 1) + end
    return [*(row.rstrip() for row in rows), " " * (AXIS_COLUMNS + 1) + foot]
