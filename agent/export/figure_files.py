"""Figures of matplotlib, which is loaded with the first of them, and their files."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 130


def new_figure(width: float, height: float) -> "Figure":
    """Begin a figure of that size, in inches, that needs no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def write_figure(figure: "Figure", path: str) -> None:
    """Write it as the end of the path says, .png or .svg; raises OSError when that fails."""
    figure.savefig(path, dpi=DOTS_PER_INCH, format=Path(path).suffix[1:].lower())
