"""The change between two estimates of one quantity, and whether it exceeds the uncertainty.

The interval of a difference from those of its parts (G. Zou, A. Donner, *Construction of confidence
limits about effect measures*, Statistics in Medicine 27, 2008): with d = after − before,

    d − √((after − after.low)² + (before.high − before)²)  to
    d + √((after.high − after)² + (before − before.low)²)                                     (1)

It allows intervals that are not symmetric. Ratios are differences of logarithms.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import exp, inf, isfinite, log, sqrt
from sys import float_info

from models.distribution_functions import NORMAL_95

MARK_WIDTH = 2.576 / NORMAL_95
"""A change is marked beyond this multiple of the 90 % interval's half width, as a 99 % interval
would mark it; with 90 %, one in ten of many rows compared would be marked by chance."""


class Verdict(StrEnum):
    """The direction of a change, or why none is stated."""

    HIGHER = "higher"
    LOWER = "lower"
    WITHIN = "within_uncertainty"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True, slots=True)
class ComparedEstimate:
    """A value with its 90 % interval; None: not known, or no bound on that side."""

    value: float | None
    low: float | None = None
    high: float | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether there is a value with a bound on both sides."""
        return None not in (self.value, self.low, self.high)


@dataclass(frozen=True, slots=True)
class EstimatedChange:
    """The change from before to after: a ratio or difference, its 90 % interval and the verdict."""

    verdict: Verdict
    value: float | None = None
    low: float | None = None
    high: float | None = None


NOT_KNOWN = EstimatedChange(Verdict.CANNOT_TELL)


def compare_ratio(before: ComparedEstimate, after: ComparedEstimate) -> EstimatedChange:
    """Compare two quantities above 0: the change is after/before."""
    parts = _log_bounds(before), _log_bounds(after)
    if parts[0] is None or parts[1] is None:
        return NOT_KNOWN
    change, low, high, verdict = _difference(parts[0], parts[1])
    return EstimatedChange(
        verdict, exp(change), _finite_or_none(exp(low)), _finite_or_none(_exp_or_inf(high))
    )


def compare_difference(before: ComparedEstimate, after: ComparedEstimate) -> EstimatedChange:
    """Compare two quantities that may be 0: the change is after − before."""
    parts = _bounds(before), _bounds(after)
    if parts[0] is None or parts[1] is None:
        return NOT_KNOWN
    change, low, high, verdict = _difference(parts[0], parts[1])
    return EstimatedChange(verdict, change, _finite_or_none(low), _finite_or_none(high))


Bounds = tuple[float, float, float]
"""Low, value, high; infinite where there is no bound."""


def _bounds(estimate: ComparedEstimate) -> Bounds | None:
    if estimate.value is None:
        return None
    low = -inf if estimate.low is None else min(estimate.low, estimate.value)
    high = inf if estimate.high is None else max(estimate.high, estimate.value)
    return low, estimate.value, high


def _log_bounds(estimate: ComparedEstimate) -> Bounds | None:
    if estimate.value is None or estimate.value <= 0:
        return None
    low = -inf if estimate.low is None or estimate.low <= 0 else log(estimate.low)
    high = inf if estimate.high is None else log(max(estimate.high, estimate.value))
    middle = log(estimate.value)
    return min(low, middle), middle, high


def _difference(before: Bounds, after: Bounds) -> tuple[float, float, float, Verdict]:
    """Compute the change, its interval by (1), and the verdict."""
    change = after[1] - before[1]
    down = sqrt((after[1] - after[0]) ** 2 + (before[2] - before[1]) ** 2)
    up = sqrt((after[2] - after[1]) ** 2 + (before[1] - before[0]) ** 2)
    verdict = Verdict.WITHIN
    if change > MARK_WIDTH * down:
        verdict = Verdict.HIGHER
    elif change < -MARK_WIDTH * up:
        verdict = Verdict.LOWER
    elif not (isfinite(down) or isfinite(up)):
        verdict = Verdict.CANNOT_TELL
    return change, change - down, change + up, verdict


def _exp_or_inf(exponent: float) -> float:
    return exp(exponent) if exponent < log(float_info.max) else inf


def _finite_or_none(value: float) -> float | None:
    return value if isfinite(value) else None
