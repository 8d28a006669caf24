"""Two estimates of one quantity, before and after: the change, and if it is beyond the uncertainty.

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

from models.robust import NORMAL_95

MARK_WIDTH = 2.576 / NORMAL_95
"""A change is marked beyond so many times the 90 % interval's half width, as a 99 % interval would:
of many rows compared, one in ten would be marked by chance otherwise."""


class Verdict(StrEnum):
    """The change of a quantity."""

    HIGHER = "higher"
    LOWER = "lower"
    WITHIN = "within_uncertainty"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 90 % interval; None: not known, or no bound on that side."""

    value: float | None
    low: float | None = None
    high: float | None = None

    @property
    def is_bounded(self) -> bool:
        """Tell whether there is a value with a bound on both sides."""
        return None not in (self.value, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Change:
    """After against before: a ratio or a difference, with its 90 % interval, and the verdict."""

    verdict: Verdict
    value: float | None = None
    low: float | None = None
    high: float | None = None


NOT_KNOWN = Change(Verdict.CANNOT_TELL)


def ratio(before: Estimate, after: Estimate) -> Change:
    """Compare two quantities above 0: the change is after/before."""
    parts = _logarithms(before), _logarithms(after)
    if parts[0] is None or parts[1] is None:
        return NOT_KNOWN
    change, low, high, verdict = _difference(parts[0], parts[1])
    return Change(verdict, exp(change), _finite(exp(low)), _finite(_power(high)))


def difference(before: Estimate, after: Estimate) -> Change:
    """Compare two quantities that may be 0: the change is after − before."""
    parts = _bounds(before), _bounds(after)
    if parts[0] is None or parts[1] is None:
        return NOT_KNOWN
    change, low, high, verdict = _difference(parts[0], parts[1])
    return Change(verdict, change, _finite(low), _finite(high))


Bounds = tuple[float, float, float]
"""Low, value, high; infinite where there is no bound."""


def _bounds(estimate: Estimate) -> Bounds | None:
    if estimate.value is None:
        return None
    low = -inf if estimate.low is None else min(estimate.low, estimate.value)
    high = inf if estimate.high is None else max(estimate.high, estimate.value)
    return low, estimate.value, high


def _logarithms(estimate: Estimate) -> Bounds | None:
    if estimate.value is None or estimate.value <= 0:
        return None
    low = -inf if estimate.low is None or estimate.low <= 0 else log(estimate.low)
    high = inf if estimate.high is None else log(max(estimate.high, estimate.value))
    middle = log(estimate.value)
    return min(low, middle), middle, high


def _difference(before: Bounds, after: Bounds) -> tuple[float, float, float, Verdict]:
    """Compute (1), and compare the change with it."""
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


def _power(exponent: float) -> float:
    return exp(exponent) if exponent < log(float_info.max) else inf


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
