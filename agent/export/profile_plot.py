"""The plot of a profile: CPU against time of one class, and predicted against actual CPU."""

from typing import TYPE_CHECKING

import numpy as np

from agent.export.figure_files import new_figure, write_figure
from agent.export.profile_rows import Profile
from agent.query_classes.class_registry import class_name_of
from agent.query_classes.period_attribution import ObservedClasses
from models.arrays import Array
from models.attribution.resource_division import line_samples
from models.attribution.result import Attribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#1f5fa8", "#d9730d", "#666666"
SIZE_INCHES = (10.5, 4.8)
TITLE_LENGTH = 60


def plot_class(path: str, observed: ObservedClasses, profile: Profile) -> None:
    """Draw the profile into a .png or .svg file; if CPU is not known, the plot says so.

    Raises OSError when the file cannot be written. Loads matplotlib; needs no display.
    """
    write_figure(draw_figure(observed, profile), path)


def draw_figure(observed: ObservedClasses, profile: Profile) -> "Figure":
    """Draw the first class's CPU against its time, and predicted against actual CPU."""
    figure = new_figure(*SIZE_INCHES)
    left, right = figure.subplots(1, 2)
    found, y = observed.cpu, observed.cpu_target
    if found is None or y is None or not profile.rows:
        left.set_title("CPU is not known here", loc="left")
    else:
        _draw_class(left, observed, found, y, profile)
        _draw_prediction(right, observed, found, y)
    for axes in (left, right):
        axes.grid(color="#dddddd", lw=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    return figure


def _draw_class(
    axes: "Axes", observed: ObservedClasses, found: Attribution, y: Array, profile: Profile
) -> None:
    """Draw CPU (z) against work time (x) of the first class, with the fitted line."""
    first = profile.rows[0]
    k = next(
        i
        for i, key in enumerate(observed.intervals.names)
        if (class_name_of(key).schema, class_name_of(key).digest) == (first.schema, first.digest)
    )
    x, z = (table[:, k] for table in line_samples(observed.intervals, y, found.method))
    line = found.classes[k].line
    seen = x > 0
    axes.scatter(x[seen], z[seen], s=14, color="black", label=f"{int(seen.sum())} intervals")
    if line.slope is not None and seen.any():
        at = np.array([x[seen].min(), x[seen].max()])
        error = "" if line.slope_stderr is None else f" ± {line.slope_stderr:.2g}"
        label = f"{line.slope:.3g}{error} s of CPU per s of work"
        axes.plot(at, line.intercept + line.slope * at, color=BLUE, lw=2, label=label)
    name = first.text.replace("`", "") if first.text else first.digest[:16]
    axes.set_title(name[:TITLE_LENGTH], loc="left", fontsize=10, fontweight="bold")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("its work time in an interval (s)")
    axes.set_ylabel(f"its CPU in an interval (s), {found.method.value}")
    axes.legend(loc="upper left", frameon=False, fontsize=9)


def _draw_prediction(axes: "Axes", observed: ObservedClasses, found: Attribution, y: Array) -> None:
    """Draw predicted against actual CPU of every interval; the diagonal is a perfect prediction."""
    predicted = found.predictor.predict(observed.intervals)
    top = 1.05 * float(max(y.max(), predicted.max()))
    axes.plot([0, top], [0, top], color=GREY, lw=1, ls=(0, (4, 2)), label="perfect")
    axes.scatter(y, predicted, s=14, color=ORANGE, label="an interval")
    quality = found.held_out
    title = "predicted and actual CPU"
    if quality.mape is not None:
        title += f" (held out: {100 * quality.mape:.1f} % off on average)"
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axes.set_xlabel("actual (s)")
    axes.set_ylabel("predicted (s)")
    axes.legend(loc="upper left", frameon=False, fontsize=9)
