"""A text report of a fitted law: the peak, its uncertainty, and what would settle it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

from agent.csv_input.curve_file import CurveFile
from agent.export.number_formats import (
    DASH,
    format_number,
    format_seconds,
    format_threads,
    whole_percent,
)
from models.capacity.headroom import headroom_on_curve
from models.trust import Trust
from models.usl.fit import FitMethod, UslFit
from models.usl.law import Usl
from models.usl.law_point import LawPoint
from models.usl.peak_posterior import CredibleInterval

NEGLIGIBLE_LOSS = 0.02
"""A loss of throughput that measurement errors may explain."""
WIDE_RATIO = 2.0
"""Ratio of the ends of the concurrency's interval above which one number would mislead."""

METHODS = {
    FitMethod.BAYES: "Bayesian, with weak priors",
    FitMethod.LSQ: "least squares on throughput",
    FitMethod.LINEARISED: "the white paper's parabola",
}


@dataclass(frozen=True)
class RequestedPoint:
    """A load that the user asked about: its wording, and how to compute its point on the law."""

    words: str
    point: Callable[[Usl], LawPoint]


def format_fit(curve: CurveFile, fitted: UslFit, asked: Sequence[RequestedPoint]) -> str:
    """Return the report of one fit: several lines, without a final line feed."""
    report = [headline(fitted), *_past_peak_lines(fitted), *_doubt_lines(fitted)]
    loads = ["", *(_load_line(fitted, load) for load in asked)] if asked else []
    return "\n".join([*report, "", *_parameter_lines(curve, fitted), *loads])


def _load_line(fitted: UslFit, load: RequestedPoint) -> str:
    n, x, r, efficiency = load.point(fitted.law)
    if not isfinite(n):
        return f"  {load.words}: the law has no such point"
    times = f"{format_seconds(r)} a query, efficiency {efficiency:.2f}"
    return f"  {load.words}: {format_threads(n)}, {format_number(x)} queries/s, {times}"


def headline(fitted: UslFit) -> str:
    """Return a sentence on the position of the peak."""
    if fitted.trust is Trust.NOT_IDENTIFIABLE:
        return "The peak is not yet identifiable from these points."
    where = f"{format_number(fitted.x_max)} queries/s at {format_threads(fitted.n_max)}"
    interval = fitted.n_max_interval
    if interval and interval.ratio > WIDE_RATIO:
        where = f"{format_number(fitted.x_max)} queries/s, somewhere from {_range_text(interval)}"
    if fitted.trust is Trust.TRUSTED:
        return f"The peak is {where}."
    return f"The peak is about {where}; this is only indicative."


def _past_peak_lines(fitted: UslFit) -> list[str]:
    """Return a line on the loss by overload at the highest measured load, if past the peak."""
    if fitted.trust is Trust.NOT_IDENTIFIABLE:
        return []
    headroom = headroom_on_curve(fitted, fitted.n_observed_max)
    if headroom is None or not headroom.overloaded:
        return []
    load = format_threads(fitted.n_observed_max)
    return [f"  With {load} the server is {past_peak_text(headroom.overload_loss)}."]


def past_peak_text(loss: float) -> str:
    """Describe a server past its peak, and the share of its capacity that is lost."""
    if loss < NEGLIGIBLE_LOSS:
        return "past its peak: more load adds no throughput"
    return f"past its peak: more load lowers the throughput; {whole_percent(loss)} of it is lost"


def _range_text(interval: CredibleInterval) -> str:
    low = format_threads(interval.low).removesuffix(" threads")
    return f"{low} to {format_threads(interval.high)}"


def _doubt_lines(fitted: UslFit) -> list[str]:
    if fitted.trust is Trust.TRUSTED:
        return []
    lines = [f"  Why: {reason.sentence}." for reason in fitted.reasons]
    if fitted.trust is Trust.NOT_IDENTIFIABLE:
        lines.append(f"  It is at least {format_number(fitted.x_max_lower_bound)} queries/s.")
    if fitted.settle_concurrency is not None:
        load = format_threads(fitted.settle_concurrency)
        lines.append(f"  Measure next: points up to about {load}.")
    elif fitted.x_max_interval is None:
        lines.append("  Try next: `--method bayes`, which gives an interval.")
    else:
        lines.append("  Measure next: more points, at steadier load.")
    return lines


def _parameter_lines(curve: CurveFile, fitted: UslFit) -> list[str]:
    law = fitted.law
    r_squared = DASH if fitted.r_squared is None else f"{fitted.r_squared:.4f}"
    x_name, n_name = "peak throughput", "at concurrency"
    if fitted.n_max is None and fitted.x_max is not None:
        x_name = "throughput below"
    rows = [
        (x_name, _throughput_text(fitted)),
        (n_name, _concurrency_text(fitted)),
        ("contention σ", format_number(law.sigma, 4)),
        ("coherency κ", format_number(law.kappa, 4)),
        ("λ (at N = 1)", f"{format_number(law.lam)} queries/s"),
        ("R²", r_squared),
        ("method", f"{fitted.method.value}: {METHODS[fitted.method]}"),
        ("points", _points_text(curve, fitted)),
        (
            "observed",
            f"up to {format_threads(fitted.n_observed_max)},"
            f" {format_number(fitted.x_observed_max)} queries/s",
        ),
        ("trust", fitted.trust.value.replace("_", " ")),
    ]
    return [f"  {name:<16} {value}" for name, value in rows]


def _throughput_text(fitted: UslFit) -> str:
    if fitted.x_max is None:
        return DASH
    known, interval = f"{format_number(fitted.x_max)} queries/s", fitted.x_max_interval
    if interval is None:
        return known
    return (
        f"{known} (90 % interval {format_number(interval.low)} to {format_number(interval.high)})"
    )


def _concurrency_text(fitted: UslFit) -> str:
    known, interval = format_threads(fitted.n_max), fitted.n_max_interval
    return known if interval is None else f"{known} (90 % interval {_range_text(interval)})"


def _points_text(curve: CurveFile, fitted: UslFit) -> str:
    count = len(fitted.outliers)
    if not count:
        return str(fitted.points)
    lines = ", ".join(str(curve.lines[i]) for i in fitted.outliers[:10])
    more = " and more" if count > 10 else ""
    return f"{fitted.points}, {count} of them left out as outliers (line {lines}{more})"
