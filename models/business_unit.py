"""Headroom in a unit of the business: how many more active users until the capacity is reached.

The unit's values u are regressed on the throughput X of their intervals, u ≈ a + b·X, robustly; the
headroom is b·(C − X), with the distributions of b and of the capacity C. Which of the two follows
the other is not known, so that b lies between the regression of u on X and that of X on u: the
bounds of R. Frisch (1934) for two variables that both have errors.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from models.capacity.headroom import Headroom
from models.capacity.result import Capacity
from models.capacity.sample_sizes import MIN_NOISE, MIN_SPREAD
from models.capacity.saturation_probability import is_contradicted
from models.numerics import QUANTILES, even_shares, median, quantiles
from models.robust import NORMAL_95, LinearFit, fit_linear
from models.trust import TRUSTED_RATIO, Trust
from models.usl.law import Array
from models.what_if.predict import Estimate

MIN_VALUES = 20
MAX_UNEXPLAINED = 0.4
"""Of the unit's variance: beyond, b is uncertain by more than 1 / (1 − 0.4) from that alone."""
NEAR_CAPACITY = 0.9
"""Of the capacity: above it users wait, and more of them make no more throughput."""
INTERCEPT_DEVIATION = 0.1
"""Of the unit's median: the deviation of an intercept that cannot be distinguished from 0."""
MAX_CURVATURE_CHANGE, MIN_CURVATURE_SCORE = 0.25, 3.0
"""A curve changes the headroom by more than this part, and is surer than this, to count."""

SHARES = even_shares(40)
Z = np.linspace(-3, 3, 25)
SLOPE_SHARES = even_shares(5)
"""Where b's draws lie between the two regressions."""


class UnitReason(StrEnum):
    """Why the headroom in a unit is not known."""

    sentence: str

    def __new__(cls, value: str, sentence: str) -> "UnitReason":
        """Give the member its sentence."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        return member

    NO_VALUE = "no_value", "no recent value has been read"
    NO_CAPACITY = "no_capacity", "the capacity or the present load is not known"
    CONTRADICTED = "contradicted", "what was seen contradicts the capacity's model"
    PAST_PEAK = "past_peak", "the server is past its peak: none is left"
    FEW_VALUES = "few_values", "there are fewer than 20 intervals below the capacity with a value"
    NOT_VARIED = "not_varied", "the load has not varied enough to relate the value to it"
    DOES_NOT_FOLLOW = "does_not_follow", "its values do not follow the throughput"
    NOT_LINEAR = (
        "not_linear",
        "it does not grow linearly with the throughput, so it cannot be extrapolated",
    )


@dataclass(frozen=True)
class UnitHeadroom:
    """How much more of a unit the server bears; None where that cannot be said."""

    headroom: Estimate | None = None
    """In the unit: at most 0 where none is left."""
    per_query_rate: Estimate | None = None
    """b, in the unit for each query/s."""
    trust: Trust = Trust.NOT_IDENTIFIABLE
    """No more than the capacity's."""
    reason: UnitReason | None = None


@dataclass(frozen=True, eq=False)
class UnitValues:
    """Intervals with a value of the unit, in the order of time; arrays of shape (intervals,)."""

    unit: Array
    throughput: Array
    """X, queries/s."""
    concurrency: Array
    """N, threads; NaN where not known."""

    def below_the_peak(self, capacity: Capacity) -> "UnitValues":
        """Select the intervals in which more of the unit made more throughput."""
        limit = np.inf if capacity.value is None else capacity.value
        is_below = self.throughput < NEAR_CAPACITY * limit
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
    relation = _relation(seen.below_the_peak(capacity))
    if isinstance(relation, UnitReason):
        return UnitHeadroom(reason=relation)
    if found.overloaded:
        none_left = Estimate(0.0, 0.0, 0.0)
        return UnitHeadroom(none_left, trust=capacity.trust, reason=UnitReason.PAST_PEAK)
    limits = capacity.distribution.quantiles(SHARES)
    if relation.bends(throughput, median(limits)):
        return UnitHeadroom(reason=UnitReason.NOT_LINEAR)
    slopes, weights = relation.slopes()
    left = np.multiply.outer(slopes, limits - throughput)
    headroom = _estimate(left, np.repeat(weights[:, None], len(limits), axis=1))
    is_bounded = capacity.upper is not None
    per_rate = _estimate(slopes, weights)
    return UnitHeadroom(
        headroom if is_bounded else Estimate(headroom.value, headroom.lower, None),
        per_rate,
        _trust(capacity.trust, per_rate),
    )


@dataclass(frozen=True, eq=False)
class _Relation:
    """u ≈ a + b·X, in units of the medians of both."""

    line: LinearFit
    curve: LinearFit
    """u along a parabola over X."""
    back: LinearFit
    """X along a parabola over u: noise in X alone bends the one, and noise in u the other."""
    explained: float
    """The share of the unit's variance that X explains, r²."""
    x_unit: float
    u_unit: float

    def slopes(self) -> tuple[Array, Array]:
        """Tabulate b, in the unit for each query/s, and the weights of the table's rows."""
        between = self.line.coefficients[1] / self.explained**SLOPE_SHARES
        steps = _deviation(self.line, 1) * Z
        table: Array = self.u_unit / self.x_unit * np.add.outer(between, steps).ravel()
        return table, np.tile(np.exp(-(Z**2) / 2), len(SLOPE_SHARES))

    def bends(self, load: float, limit: float) -> bool:
        """Tell whether a curve fits and changes the way from the load to the limit (queries/s)."""
        x, c = load / self.x_unit, limit / self.x_unit
        bend, bend_back = self.curve.coefficients[2], self.back.coefficients[2]
        if bend * bend_back > 0 or not (_is_bent(self.curve) and _is_bent(self.back)):
            return False
        slope = self.curve.coefficients[1] + bend * (x + c)
        straight = self.line.coefficients[1]
        return bool(abs(slope / straight - 1) > MAX_CURVATURE_CHANGE)


def _relation(seen: UnitValues) -> _Relation | UnitReason:
    """Fit the unit to the throughput, or say why that cannot be done."""
    x, u = seen.throughput, seen.unit
    if len(x) < MIN_VALUES:
        return UnitReason.FEW_VALUES
    low, high = quantiles(x, QUANTILES[::2])
    if high < MIN_SPREAD * low:
        return UnitReason.NOT_VARIED
    x_unit, u_unit = median(x), median(u)
    if u_unit <= 0:
        return UnitReason.DOES_NOT_FOLLOW
    x, u, weights = x / x_unit, u / u_unit, np.ones_like(x)
    line = fit_linear(np.column_stack((weights, x)), u, weights, MIN_NOISE)
    variance = float(line.coefficients[1] ** 2 * np.var(x))
    explained = variance / (variance + line.scale**2)
    if line.coefficients[1] <= NORMAL_95 * _deviation(line, 1) or explained < 1 - MAX_UNEXPLAINED:
        return UnitReason.DOES_NOT_FOLLOW
    curve, back = _parabola(x, u), _parabola(u, x)
    return _Relation(_through_the_origin(line), curve, back, explained, x_unit, u_unit)


def _parabola(x: Array, y: Array) -> LinearFit:
    return fit_linear(np.column_stack((x**0, x, x**2)), y, x**0, MIN_NOISE)


def _is_bent(curve: LinearFit) -> bool:
    return bool(abs(curve.coefficients[2]) > MIN_CURVATURE_SCORE * _deviation(curve, 2))


def _through_the_origin(line: LinearFit) -> LinearFit:
    """Take u for about proportional to X where its intercept cannot be distinguished from 0."""
    if abs(line.coefficients[0]) > NORMAL_95 * _deviation(line, 0):
        return line
    return line.given(0, 0.0, INTERCEPT_DEVIATION)


def _deviation(line: LinearFit, place: int) -> float:
    """Compute a coefficient's deviation, as Student's distribution has it."""
    student = line.freedom / (line.freedom - 2)
    return float(np.sqrt(line.covariance[place, place] * student))


def _trust(of_capacity: Trust, rate: Estimate) -> Trust:
    """Take trust away where b is not known as well as a trusted capacity has to be."""
    is_known = rate.upper is not None and 0 < rate.upper < TRUSTED_RATIO * rate.lower
    return of_capacity if is_known else of_capacity.at_most(Trust.INDICATIVE)


def _estimate(values: Array, weights: Array) -> Estimate:
    """Compute the weighted quantiles of a table."""
    order = np.argsort(values, axis=None)
    rising, mass = values.ravel()[order], np.cumsum(weights.ravel()[order])
    low, middle, high = np.interp(QUANTILES, (mass - weights.ravel()[order] / 2) / mass[-1], rising)
    return Estimate(float(middle), float(low), float(high))
