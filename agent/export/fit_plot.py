"""The plot of a fit: points, curve, its 90 % band, the peak and its interval."""

from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from agent.csv_input.curve_file import CurveFile
from agent.export.figure_files import new_figure, write_figure
from agent.export.fit_report import headline
from agent.export.number_formats import format_number, format_threads
from models.arrays import Array
from models.trust import Trust
from models.usl.fit import FitMethod, UslFit, throughput_band

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, RED, GREY = "#1f5fa8", "#d9730d", "#b3261e", "#666666"
SIZE_INCHES = (8.5, 5.2)
CURVE_POINTS = 300
TITLE_LENGTH = 72
"""Characters of the title that fit on a line."""
MAX_PLOT_RATIO = {Trust.TRUSTED: 1.6, Trust.INDICATIVE: 2.0, Trust.NOT_IDENTIFIABLE: 3.0}
"""The plot ends at the peak's interval, but at most at this multiple of the greatest load seen."""


def plot_fit(path: str, curve: CurveFile, fitted: UslFit) -> None:
    """Draw the fit into a .png or .svg file.

    Raises OSError when the file cannot be written. Loads matplotlib; needs no display.
    """
    figure = new_figure(*SIZE_INCHES)
    axes = figure.add_subplot()
    at = np.linspace(0, _right_end(fitted), CURVE_POINTS)[1:]
    _draw_band(axes, curve, fitted, at)
    _draw_curve(axes, fitted, at)
    _draw_points(axes, curve, fitted)
    _draw_peak(axes, fitted, at[-1])
    _add_labels(axes, fitted, at[-1])
    write_figure(figure, path)


def _right_end(fitted: UslFit) -> float:
    seen, peak = fitted.n_observed_max, fitted.n_max or 0.0
    high = fitted.n_max_interval.high if fitted.n_max_interval else peak
    return max(1.15 * seen, min(1.15 * max(high, peak), MAX_PLOT_RATIO[fitted.trust] * seen))


def _draw_band(axes: "Axes", curve: CurveFile, fitted: UslFit, at: Array) -> None:
    if fitted.method is FitMethod.BAYES:
        low, high = throughput_band(curve.n, curve.x, at)
        axes.fill_between(at, low, high, color=BLUE, alpha=0.15, lw=0, label="90 % band")


def _draw_curve(axes: "Axes", fitted: UslFit, at: Array) -> None:
    """Draw the law: solid up to the highest measured load, dashed beyond."""
    x, seen = fitted.law.throughput(at), at <= fitted.n_observed_max
    axes.plot(at[seen], x[seen], color=BLUE, lw=2, label=f"fitted law ({fitted.method.value})")
    beyond = at >= at[seen][-1]
    if beyond.sum() > 1:
        axes.plot(
            at[beyond], x[beyond], color=BLUE, lw=1.5, ls=(0, (4, 2)), label="beyond the data"
        )


def _draw_points(axes: "Axes", curve: CurveFile, fitted: UslFit) -> None:
    n, x = np.array(curve.n), np.array(curve.x)
    out = np.zeros(len(n), dtype=bool)
    out[list(fitted.outliers)] = True
    size = 28 if len(n) < 100 else 10
    axes.scatter(n[~out], x[~out], s=size, color="black", zorder=3, label="measured")
    if out.any():
        axes.scatter(
            n[out],
            x[out],
            s=1.5 * size,
            marker="x",
            color=RED,
            zorder=3,
            label="left out as outlier",
        )


def _draw_peak(axes: "Axes", fitted: UslFit, right: float) -> None:
    """Mark the peak and its intervals, or its lower bound if it is not identifiable."""
    if fitted.trust is Trust.NOT_IDENTIFIABLE:
        bound = fitted.x_max_lower_bound
        label = f"the peak is at least {format_number(bound)} queries/s"
        axes.axhline(bound, color=ORANGE, lw=1.5, ls=(0, (6, 3)), label=label)
        return
    if fitted.n_max is None or fitted.x_max is None:
        return
    if fitted.n_max <= right:
        axes.plot(
            [fitted.n_max],
            [fitted.x_max],
            marker="D",
            ms=8,
            ls="",
            color=ORANGE,
            zorder=5,
            label=f"peak: {format_number(fitted.x_max)} queries/s"
            f" at {format_threads(fitted.n_max)}",
        )
    if fitted.n_max_interval is None or fitted.x_max_interval is None:
        return
    (n_low, n_high), (x_low, x_high) = fitted.n_max_interval, fitted.x_max_interval
    at = min(fitted.n_max, right)
    axes.plot([at, at], [x_low, x_high], color=ORANGE, lw=2, zorder=4, label="its 90 % interval")
    axes.plot([n_low, min(n_high, right)], [fitted.x_max] * 2, color=ORANGE, lw=2, zorder=4)
    if n_high > right:
        axes.plot([right], [fitted.x_max], marker=">", ms=9, ls="", color=ORANGE, clip_on=False)


def _add_labels(axes: "Axes", fitted: UslFit, right: float) -> None:
    law = fitted.law
    top = max(fitted.x_observed_max, float(law.throughput(min(right, fitted.n_max or right))))
    high = fitted.x_max_interval.high if fitted.x_max_interval else top
    high = max(high, fitted.x_max_lower_bound)
    axes.set_xlim(0, right)
    axes.set_ylim(0, 1.12 * max(top, min(high, 1.6 * top)))
    axes.set_xlabel("concurrency (threads)")
    axes.set_ylabel("throughput (queries/s)")
    axes.yaxis.set_major_formatter(lambda value, _: format_number(value))
    title = "\n".join(wrap(headline(fitted), TITLE_LENGTH))
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", pad=24)
    axes.text(0, 1.025, _subtitle(fitted), transform=axes.transAxes, fontsize=9, color=GREY)
    axes.grid(color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(loc="best", frameon=True, framealpha=0.9, edgecolor="none", fontsize=9)


def _subtitle(fitted: UslFit) -> str:
    """Return the subtitle: the parameters, or why the peak is uncertain and what to measure."""
    law = fitted.law
    if fitted.trust is Trust.TRUSTED:
        sigma, kappa, lam = map(format_number, (law.sigma, law.kappa, law.lam))
        return f"σ = {sigma}   κ = {kappa}   λ = {lam} queries/s"
    reason = f"Why: {fitted.reasons[0].sentence}."
    if fitted.settle_concurrency is None:
        return reason
    return f"{reason} Measure next: points up to about {format_threads(fitted.settle_concurrency)}."
