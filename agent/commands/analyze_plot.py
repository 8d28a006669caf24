"""A plot of a fleet: how much of its capacity each server uses, the least headroom on top."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.assessment.snapshot import Snapshot
from agent.commands.analyze_report import FleetRow
from agent.export.capacity_sentences import resource_display_name
from agent.export.figure_files import new_figure, write_figure
from agent.export.number_formats import format_number
from agent.support.safe_output import printable
from models.trust import Trust

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#1f5fa8", "#d9730d", "#c9ced6"
WIDTH_INCHES, ROW_INCHES, MARGIN_INCHES = 10.0, 0.34, 1.4
MAX_SERVERS = 60
"""The greatest number of servers drawn; the others have more headroom."""
MAX_AXIS = 1.5
"""The end of the axis, as a multiple of the capacity."""


def plot_fleet(path: str, snapshots: Sequence[Snapshot], now: float) -> None:
    """Draw servers, the least headroom first, at `now` (Unix seconds) into a .png or .svg file.

    Raises OSError when the file cannot be written. Loads matplotlib, without a display.
    """
    write_figure(fleet_figure([FleetRow.of(snapshot, now) for snapshot in snapshots]), path)


def fleet_figure(rows: Sequence[FleetRow]) -> "Figure":
    """Return a figure with a bar for each server, the first on top."""
    shown = rows[:MAX_SERVERS]
    figure = new_figure(WIDTH_INCHES, MARGIN_INCHES + ROW_INCHES * len(shown))
    axes = figure.add_subplot()
    for place, row in enumerate(shown):
        _draw_row(axes, place, row)
    _label_axes(axes, shown, len(rows) - len(shown))
    return figure


def _draw_row(axes: "Axes", place: int, row: FleetRow) -> None:
    """Draw the highest load, the present load and the interval, as shares of the capacity."""
    if not row.capacity:
        axes.text(
            0.01, place, "the capacity is not known", va="center", fontsize=8, color="#666666"
        )
        return
    if row.headroom_at_peak is not None:
        axes.barh(place, min(1 - row.headroom_at_peak, MAX_AXIS), height=0.7, color=GREY)
    if row.throughput is not None:
        axes.barh(place, min(row.throughput / row.capacity, MAX_AXIS), height=0.35, color=BLUE)
    low, high = ((x or MAX_AXIS * row.capacity) / row.capacity for x in (row.lower, row.upper))
    style = "-" if row.trust == Trust.TRUSTED.value else ":"
    axes.plot([low, min(high, MAX_AXIS)], [place, place], style, color=ORANGE, lw=2)
    axes.plot([1.0], [place], marker="|", ms=10, mew=2, color=ORANGE)


def _label_axes(axes: "Axes", rows: Sequence[FleetRow], others: int) -> None:
    """Label the axes: the servers with their limits, and the meaning of the colours."""
    axes.set_yticks(range(len(rows)), [_name(row) for row in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, MAX_AXIS)
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    more = f"; {others} more have more left" if others else ""
    axes.set_xlabel(
        "share of the capacity: blue the load now, grey the highest load, orange the capacity and "
        f"its 90 % interval (dotted: not trusted){more}",
        fontsize=8,
    )
    axes.grid(axis="x", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _name(row: FleetRow) -> str:
    known = (
        ""
        if row.limit is None
        else f"  {format_number(row.capacity)}/s, {resource_display_name(row.limit)}"
    )
    # a dollar sign would begin a formula
    return (printable(row.target) + known).replace("$", r"\$")
