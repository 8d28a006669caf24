"""Headroom in the unit of a business metric, such as how many more active users can be served.

The unit's values u are regressed on the throughput X of their intervals, u ≈ a + b·X, robustly; the
headroom is b·(C − X), with the distributions of b and of the capacity C. Which of the two follows
the other is not known, so that b lies between the regression of u on X and that of X on u: the
bounds of R. Frisch (1934) for two variables that both have errors. A line through the means that
is not through the origin, without a sign of that in the data, is less likely.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Array
from models.capacity.headroom import Headroom
from models.capacity.result import Capacity
from models.capacity.saturation_probability import is_contradicted
from models.distribution_functions import NORMAL_95
from models.numerics import (
    NODE_COUNT,
    QUANTILES,
    even_shares,
    median,
    quantiles,
    weighted_quantiles,
)
from models.reason_enum import ReasonEnum
from models.robust_regression import LinearFit, fit_linear
from models.shared_constants import (
    CLEAR_RATIO,
    MAJORITY,
    MIN_FIT_INTERVALS,
    MIN_LOAD_RATIO,
    MIN_NOISE,
)
from models.trust import FULL_LOAD, MAX_ERROR, TRUSTED_RATIO, Trust
from models.what_if.predicted_value import PredictedValue

MIN_CURVATURE_SCORE = 3.0
"""A curve counts if it is this many deviations from a line, and changes the headroom clearly."""

SHARES = even_shares(40)
Z = np.linspace(-3, 3, 25)
SLOPE_SHARES = even_shares(NODE_COUNT)
"""Positions of b's draws between the two regressions, 0 to 1."""


class UnitReason(ReasonEnum):
    """Why the headroom in a unit is not known."""

    NO_VALUE = "no_value", "no recent value has been read"
    NO_CAPACITY = "no_capacity", "the capacity or the present load is not known"
    CONTRADICTED = "contradicted", "the measurements contradict the capacity's model"
    PAST_PEAK = "past_peak", "the server is past its peak, so there is no headroom"
    FEW_VALUES = (
        "few_values",
        f"there are fewer than {MIN_FIT_INTERVALS} intervals below the capacity with a value",
    )
    NOT_VARIED = "not_varied", "the load has not varied enough to relate the value to it"
    DOES_NOT_FOLLOW = "does_not_follow", "its values do not follow the throughput"
    NOT_LINEAR = (
        "not_linear",
        "it does not grow linearly with the throughput, so it cannot be extrapolated",
    )


@dataclass(frozen=True)
class UnitHeadroom:
    """How much more of a unit the server can serve; None where that is not known."""

    amount: PredictedValue | None = None
    """In the unit; at most 0 where none is left."""
    per_query_rate: PredictedValue | None = None
    """b, in the unit per query/s."""
    trust: Trust = Trust.NOT_IDENTIFIABLE
    """At most that of the capacity."""
    reason: UnitReason | None = None


@dataclass(frozen=True, eq=False)
class UnitValues:
    """Intervals with a value of the unit, in order of time; arrays of shape (intervals,)."""

    unit: Array
    throughput: Array
    """X, queries/s."""
    concurrency: Array
    """N, threads; NaN where not known."""

    def below_peak(self, capacity: Capacity) -> "UnitValues":
        """Select the intervals in which throughput still grows with the unit."""
        limit = np.inf if capacity.value is None else capacity.value
        is_below = self.throughput < FULL_LOAD * limit
        if capacity.concurrency is not None:
            is_below &= ~(self.concurrency > capacity.concurrency)
        is_below &= self.throughput > 0
        return UnitValues(*(each[is_below] for each in self._columns))

    @property
    def _columns(self) -> tuple[Array, Array, Array]:
        return self.unit, self.throughput, self.concurrency


def unit_headroom(
    seen: UnitValues, capacity: Capacity | None, throughput: float | None, found: Headroom | None
) -> UnitHeadroom:
    """Compute the headroom in the unit at a load; `found` is the same load's headroom."""
    if capacity is None or capacity.distribution is None or throughput is None or found is None:
        return UnitHeadroom(reason=UnitReason.NO_CAPACITY)
    if is_contradicted(capacity):
        return UnitHeadroom(reason=UnitReason.CONTRADICTED)
    relation = _fit_relation(seen.below_peak(capacity))
    if isinstance(relation, UnitReason):
        return UnitHeadroom(reason=relation)
    if found.overloaded:
        none_left = PredictedValue(0.0, 0.0, 0.0)
        return UnitHeadroom(none_left, trust=capacity.trust, reason=UnitReason.PAST_PEAK)
    limits = capacity.distribution.quantiles(SHARES)
    if relation.is_curved_between(throughput, median(limits)):
        return UnitHeadroom(reason=UnitReason.NOT_LINEAR)
    slopes, weights = relation.slopes()
    left = np.multiply.outer(slopes, limits - throughput)
    headroom = _estimate(left, np.repeat(weights[:, None], len(limits), axis=1))
    is_bounded = capacity.upper is not None
    per_rate = _estimate(slopes, weights)
    return UnitHeadroom(
        headroom if is_bounded else PredictedValue(headroom.value, headroom.lower, None),
        per_rate,
        _trust(capacity.trust, per_rate),
    )


@dataclass(frozen=True, eq=False)
class _Relation:
    """The fitted relation u ≈ a + b·X, in units of the medians of both."""

    line: LinearFit
    curve: LinearFit
    """u as a parabola over X."""
    inverse_curve: LinearFit
    """X as a parabola over u: noise in X alone bends the first, noise in u alone the second."""
    explained: float
    """The share of the unit's variance that X explains, r²."""
    x_mean: float
    x_unit: float
    u_unit: float

    def slopes(self) -> tuple[Array, Array]:
        """Tabulate b, in the unit per query/s, and the weights of the table's rows."""
        lines = [self._line_between(share) for share in SLOPE_SHARES]
        table = [line.coefficients[1] + _deviation(line, 1) * Z for line, _ in lines]
        weights = [weight * np.exp(-(Z**2) / 2) for _, weight in lines]
        return self.u_unit / self.x_unit * np.concatenate(table), np.concatenate(weights)

    def _line_between(self, share: float) -> tuple[LinearFit, float]:
        """Return the line at a position between the two regressions, and its relative weight.

        All lead through the means, so that each has an intercept of its own. Where that cannot be
        distinguished from 0, it is within the error of a throughput of 0: a line that contradicts
        that has less weight.
        """
        level, rise = self.line.coefficients
        slope = rise / self.explained**share
        intercept = level + (rise - slope) * self.x_mean
        line = self.line._replace(coefficients=np.array([intercept, slope]))
        if abs(level) > NORMAL_95 * _deviation(self.line, 0):
            return line, 1.0
        variance = line.covariance[0, 0] + MAX_ERROR**2
        weight = float(np.exp(-(intercept**2) / (2 * variance)))
        return line.given(0, 0.0, MAX_ERROR), weight

    def is_curved_between(self, load: float, limit: float) -> bool:
        """Return whether u is curved, and relevantly so from the load to the limit (queries/s)."""
        x, c = load / self.x_unit, limit / self.x_unit
        bend, inverse_bend = self.curve.coefficients[2], self.inverse_curve.coefficients[2]
        if bend * inverse_bend > 0 or not (_is_bent(self.curve) and _is_bent(self.inverse_curve)):
            return False
        slope = self.curve.coefficients[1] + bend * (x + c)
        straight = self.line.coefficients[1]
        return bool(abs(slope / straight - 1) > CLEAR_RATIO - 1)


def _fit_relation(seen: UnitValues) -> _Relation | UnitReason:
    """Regress the unit on the throughput, or return the reason why that is not possible.

    X must explain most of the unit's variance: with less, b is uncertain by a factor of 2.
    """
    x, u = seen.throughput, seen.unit
    if len(x) < MIN_FIT_INTERVALS:
        return UnitReason.FEW_VALUES
    low, high = quantiles(x, QUANTILES[::2])
    if high < MIN_LOAD_RATIO * low:
        return UnitReason.NOT_VARIED
    x_unit, u_unit = median(x), median(u)
    if u_unit <= 0:
        return UnitReason.DOES_NOT_FOLLOW
    x, u, weights = x / x_unit, u / u_unit, np.ones_like(x)
    line = fit_linear(np.column_stack((weights, x)), u, weights, MIN_NOISE)
    variance = float(line.coefficients[1] ** 2 * np.var(x))
    explained = variance / (variance + line.scale**2)
    if line.coefficients[1] <= NORMAL_95 * _deviation(line, 1) or explained < MAJORITY:
        return UnitReason.DOES_NOT_FOLLOW
    curve, inverse_curve = _parabola(x, u), _parabola(u, x)
    return _Relation(line, curve, inverse_curve, explained, float(x.mean()), x_unit, u_unit)


def _parabola(x: Array, y: Array) -> LinearFit:
    return fit_linear(np.column_stack((x**0, x, x**2)), y, x**0, MIN_NOISE)


def _is_bent(curve: LinearFit) -> bool:
    return bool(abs(curve.coefficients[2]) > MIN_CURVATURE_SCORE * _deviation(curve, 2))


def _deviation(line: LinearFit, index: int) -> float:
    """Compute a coefficient's standard deviation by Student's distribution."""
    student = line.freedom / (line.freedom - 2)
    return float(np.sqrt(line.covariance[index, index] * student))


def _trust(of_capacity: Trust, rate: PredictedValue) -> Trust:
    """Lower the trust where b is less certain than a trusted capacity has to be."""
    is_known = rate.upper is not None and 0 < rate.upper < TRUSTED_RATIO * rate.lower
    return of_capacity if is_known else of_capacity.at_most(Trust.INDICATIVE)


def _estimate(values: Array, weights: Array) -> PredictedValue:
    """Compute the weighted median and 90 % interval of a table of values."""
    low, middle, high = weighted_quantiles(values.ravel(), weights.ravel(), QUANTILES)
    return PredictedValue(middle, low, high)
