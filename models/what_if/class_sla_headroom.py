"""Which query class breaks its SLA first as the load grows, and at how many times today's load.

A class's response time Q, a quantile of its own, is assumed to grow as the mean of all
statements does: Q(X) = Q · R(X)/R(X'), where Q was measured at the throughput X'. R(X) and its
uncertainty are those of `sla`, from the same draws; the sampling error of the quantile, by its
number of calls, is drawn in addition.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.arrays import Array
from models.numerics import NEGLIGIBLE, QUANTILES, quantiles
from models.response_time_histogram import ResponseTimes
from models.what_if.current_state import CurrentState
from models.what_if.predicted_value import PredictedValue
from models.what_if.sla_headroom import (
    MIN_LOAD_FACTOR,
    Growth,
    growth_of_residence_time,
    load_factors_at_sla,
)
from models.what_if.sla_result import SlaReason
from models.what_if.uncertainty_draws import independent_normals


@dataclass(frozen=True, eq=False)
class MeasuredClass:
    """A class's response times, the throughput X' at which they were measured, and its SLA (s)."""

    times: ResponseTimes
    throughput: float
    quantile: float
    seconds: float


@dataclass(frozen=True)
class ClassHeadroom:
    """The load at which one class breaks its SLA; None where it is not known."""

    load_ratio: PredictedValue | None = None
    """As a multiple of today's throughput; at most that of the capacity."""
    first: float | None = None
    """The probability that it breaks before every other class and before the capacity."""
    reason: SlaReason | None = None


def class_headroom(today: CurrentState, classes: Sequence[MeasuredClass]) -> list[ClassHeadroom]:
    """Find for each class the multiple of today's load at which it breaks its SLA."""
    growth = growth_of_residence_time(today)
    if isinstance(growth, SlaReason):
        return [ClassHeadroom(reason=growth) for _ in classes]
    if not classes:
        return []
    exact = replace(growth, load=replace(growth.load, scatter=0.0))
    sla_ratios = np.stack(_draw_sla_ratios(growth, classes))
    load_factors = np.stack(
        [_class_load_factors(exact, one, t) for one, t in zip(classes, sla_ratios, strict=True)]
    )
    first = _first_probabilities(growth, sla_ratios, load_factors)
    is_bounded = today.upper is not None
    return [
        _headroom_of(growth, *one, is_bounded=is_bounded)
        for one in zip(load_factors, first, strict=True)
    ]


def _draw_sla_ratios(growth: Growth, classes: Sequence[MeasuredClass]) -> list[Array]:
    """Draw each class's response time over its SLA, shape (draws,) each.

    The draws have the sampling error of the calls, and the scatter of R between intervals, which
    all classes share.
    """
    shared_scatter = np.exp(growth.load.scatter * growth.draws.residence_normal)
    normals = independent_normals(len(classes))
    return [
        one.times.draw_quantile(one.quantile, normal) * shared_scatter / one.seconds
        for one, normal in zip(classes, normals, strict=True)
    ]


def _class_load_factors(growth: Growth, one: MeasuredClass, sla_ratio: Array) -> Array:
    """Find the load factor at which each draw of the class reaches its SLA, shape (draws,)."""
    measured_at = np.full_like(sla_ratio, one.throughput / growth.load.throughput)
    return load_factors_at_sla(
        growth,
        growth.residence_times_at(np.minimum(measured_at, growth.capacity_factors)) / sla_ratio,
    )


def _first_probabilities(growth: Growth, sla_ratios: Array, load_factors: Array) -> Array:
    """Compute the probability that each class breaks its SLA first, shape (classes,).

    All grow alike, so the first is the one that is nearest to its SLA.
    """
    is_before = load_factors.min(axis=0) < growth.capacity_factors
    nearest = np.argmin(load_factors - NEGLIGIBLE * sla_ratios, axis=0)
    places = np.arange(len(load_factors))[:, None]
    found: Array = np.mean((nearest == places) & is_before, axis=1)
    return found


def _headroom_of(
    growth: Growth, load_factors: Array, first: float, *, is_bounded: bool
) -> ClassHeadroom:
    """Describe the load factors (draws,) at which a class breaks its SLA; `first`: probability."""
    low, middle, high = quantiles(load_factors, QUANTILES)
    if middle <= MIN_LOAD_FACTOR:
        is_never = high <= MIN_LOAD_FACTOR
        reason = SlaReason.NEVER_MET if is_never else SlaReason.NOT_IDENTIFIABLE
        return ClassHeadroom(first=float(first), reason=reason)
    is_bounded = (
        is_bounded or float(np.mean(load_factors >= growth.capacity_factors)) <= 1 - QUANTILES[2]
    )
    of_today = growth.load.throughput / growth.present
    low, middle, high = (of_today * factor for factor in (low, middle, high))
    upper = high if is_bounded else None
    return ClassHeadroom(PredictedValue(middle, low, upper), float(first))
