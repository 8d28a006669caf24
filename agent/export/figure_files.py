"""Matplotlib figures and their files; matplotlib is loaded with the first figure."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 130


def new_figure(width: float, height: float) -> "Figure":
    """Create a figure of the given size, in inches; it needs no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def write_figure(figure: "Figure", path: str) -> None:
    """Write a figure as its path's suffix says, .png or .svg; raises OSError if that fails."""
    figure.savefig(path, dpi=DOTS_PER_INCH, format=Path(path).suffix[1:].lower())
