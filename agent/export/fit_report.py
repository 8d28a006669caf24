"""A fitted law in words: the peak, its uncertainty, and what would settle it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

from agent.csv_input.curve_file import CurveFile
from models.capacity.headroom import headroom_on_curve
from models.trust import Trust
from models.usl.fit import UslFit
from models.usl.law import Usl
from models.usl.law_point import LoadPoint
from models.usl.posterior import Interval

DASH = "–"
"""What is shown for what is not known."""
NEGLIGIBLE_LOSS = 0.02
"""A loss of throughput that measurement errors may explain."""
WIDE_RATIO = 2.0
"""When the ends of the concurrency's interval are this far apart, one number would mislead."""

TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
METHODS = {
    "bayes": "Bayesian, with weak priors",
    "lsq": "least squares on throughput",
    "linearised": "the white paper's parabola",
}


@dataclass(frozen=True)
class AskedLoad:
    """A load of the law that was asked for: in the words of who asked, and where it is."""

    words: str
    point: Callable[[Usl], LoadPoint]


def in_words(curve: CurveFile, fitted: UslFit, asked: Sequence[AskedLoad] = ()) -> str:
    """Write the report of one fit, several lines without the last line feed."""
    report = [headline(fitted), *_past_peak(fitted), *_doubts(fitted)]
    loads = ["", *(_load(fitted, load) for load in asked)] if asked else []
    return "\n".join([*report, "", *_numbers(curve, fitted), *loads])


def _load(fitted: UslFit, load: AskedLoad) -> str:
    n, x, r, efficiency = load.point(fitted.law)
    if not isfinite(n):
        return f"  {load.words}: the law has no such load"
    times = f"{short_time(r)} a query, efficiency {efficiency:.2f}"
    return f"  {load.words}: {threads(n)}, {quantity(x)} queries/s, {times}"


def headline(fitted: UslFit) -> str:
    """Say in one sentence where the peak is."""
    if fitted.trust is Trust.NOT_IDENTIFIABLE:
        return "The peak is not yet identifiable from these points."
    where = f"{quantity(fitted.x_max)} queries/s at {threads(fitted.n_max)}"
    interval = fitted.n_max_interval
    if interval and interval.ratio > WIDE_RATIO:
        where = f"{quantity(fitted.x_max)} queries/s, somewhere from {_range(interval)}"
    if fitted.trust is Trust.TRUSTED:
        return f"The peak is {where}."
    return f"The peak is about {where}; take it as an indication."


def _past_peak(fitted: UslFit) -> list[str]:
    """Say what the table's highest load lost to overload, if it is past the peak."""
    if fitted.trust is Trust.NOT_IDENTIFIABLE:
        return []
    at_most = headroom_on_curve(fitted, fitted.n_observed_max)
    if at_most is None or not at_most.overloaded:
        return []
    load = threads(fitted.n_observed_max)
    return [f"  With {load} the server is {past_peak_words(at_most.overload_loss)}."]


def threads(value: float | None) -> str:
    """Write a concurrency to three digits, or the whole of a greater one."""
    if value is None:
        return DASH
    return f"{value:,.0f} threads" if value >= 100 else f"{value:.3g} threads"


def short_time(seconds: float) -> str:
    """A short time in the unit that suits it."""
    factor, unit = next(((f, u) for f, u in TIMES if seconds >= f), TIMES[-1])
    return f"{seconds / factor:.3g} {unit}"


def quantity(value: float | None) -> str:
    """Write a number to three digits, whole from 100 on, thousands apart; a dash for none."""
    if value is None:
        return DASH
    if 100 <= abs(value) < 1e12:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def past_peak_words(loss: float) -> str:
    """The state of a server past its peak, and the share of its capacity that this costs."""
    if loss < NEGLIGIBLE_LOSS:
        return "past its peak: more load adds no throughput"
    return f"past its peak: more load lowers the throughput; {100 * loss:.0f} % of it is lost"


def _range(interval: Interval) -> str:
    return f"{threads(interval.low).removesuffix(' threads')} to {threads(interval.high)}"


def _doubts(fitted: UslFit) -> list[str]:
    if fitted.trust is Trust.TRUSTED:
        return []
    lines = [f"  Why: {reason.sentence}." for reason in fitted.reasons]
    if fitted.trust is Trust.NOT_IDENTIFIABLE:
        lines.append(f"  It is at least {quantity(fitted.x_max_lower_bound)} queries/s.")
    if fitted.settle_concurrency is not None:
        load = threads(fitted.settle_concurrency)
        lines.append(f"  Measure next: points up to about {load}.")
    elif fitted.x_max_interval is None:
        lines.append("  Try next: `--method bayes`, which gives an interval.")
    else:
        lines.append("  Measure next: more points, at steadier load.")
    return lines


def _numbers(curve: CurveFile, fitted: UslFit) -> list[str]:
    law = fitted.law
    r_squared = DASH if fitted.r_squared is None else f"{fitted.r_squared:.4f}"
    x_name, n_name = "peak throughput", "at concurrency"
    if fitted.n_max is None and fitted.x_max is not None:
        x_name = "throughput below"
    rows = [
        (x_name, _throughput(fitted)),
        (n_name, _concurrency(fitted)),
        ("contention σ", f"{law.sigma:.4g}"),
        ("coherency κ", f"{law.kappa:.4g}"),
        ("one thread λ", f"{quantity(law.lam)} queries/s"),
        ("R²", r_squared),
        ("method", f"{fitted.method.value}: {METHODS[fitted.method.value]}"),
        ("points", _points(curve, fitted)),
        (
            "seen",
            f"up to {threads(fitted.n_observed_max)}, {quantity(fitted.x_observed_max)} queries/s",
        ),
        ("trust", fitted.trust.value.replace("_", " ")),
    ]
    return [f"  {name:<16} {value}" for name, value in rows]


def _throughput(fitted: UslFit) -> str:
    if fitted.x_max is None:
        return DASH
    known, interval = f"{quantity(fitted.x_max)} queries/s", fitted.x_max_interval
    if interval is None:
        return known
    return f"{known} (90 % interval {quantity(interval.low)} to {quantity(interval.high)})"


def _concurrency(fitted: UslFit) -> str:
    known, interval = threads(fitted.n_max), fitted.n_max_interval
    return known if interval is None else f"{known} (90 % interval {_range(interval)})"


def _points(curve: CurveFile, fitted: UslFit) -> str:
    count = len(fitted.outliers)
    if not count:
        return str(fitted.points)
    lines = ", ".join(str(curve.lines[i]) for i in fitted.outliers[:10])
    more = " and more" if count > 10 else ""
    return f"{fitted.points}, {count} of them left out as outliers (line {lines}{more})"
