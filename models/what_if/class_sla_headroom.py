"""Which query class breaks its SLA first as the load grows, and at how many times today's load.

A class's response time Q, a quantile of its own, is taken to grow as the mean of all statements
does: Q(X) = Q · R(X)/R(X'), where Q was measured at the throughput X'. R(X) and its uncertainty are
those of `sla`, from the same draws; the quantile is drawn besides, from the calls that it rests on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.numerics import NEGLIGIBLE, QUANTILES, quantiles
from models.response_time_histogram import ResponseTimes
from models.usl.law import Array
from models.what_if.current_state import CurrentState
from models.what_if.posterior_draws import more_normals
from models.what_if.predict import Estimate
from models.what_if.sla import MIN_LOAD_FACTOR, Growth, crossings, growth_of
from models.what_if.sla_headroom import SlaReason


@dataclass(frozen=True, eq=False)
class MeasuredClass:
    """A class's response times, the throughput X' that they were measured at, and its SLA (s)."""

    times: ResponseTimes
    throughput: float
    quantile: float
    seconds: float


@dataclass(frozen=True)
class ClassHeadroom:
    """Where one class breaks its SLA; None where it cannot be told."""

    load_ratio: Estimate | None = None
    """Times today's throughput; no more than the capacity's."""
    first: float | None = None
    """The probability that it breaks before every other class and before the capacity."""
    reason: SlaReason | None = None


def class_headroom(
    today: CurrentState, classes: Sequence[MeasuredClass], *, is_trusted: bool = True
) -> list[ClassHeadroom]:
    """Find for each class the multiple of today's load at which it breaks its SLA."""
    growth = growth_of(today, is_trusted=is_trusted)
    if isinstance(growth, SlaReason):
        return [ClassHeadroom(reason=growth) for _ in classes]
    if not classes:
        return []
    exact = replace(growth, load=replace(growth.load, scatter=0.0))
    tension = np.stack(_tension(growth, classes))
    met = np.stack([_met(exact, one, t) for one, t in zip(classes, tension, strict=True)])
    first = _first(growth, tension, met)
    is_bounded = today.upper is not None
    return [_found(growth, *one, is_bounded=is_bounded) for one in zip(met, first, strict=True)]


def _tension(growth: Growth, classes: Sequence[MeasuredClass]) -> list[Array]:
    """Draw each class's response time over its SLA, shape (draws,) each.

    Beside the sample of calls, what R differs by from one interval to the next, of all together.
    """
    together = np.exp(growth.load.scatter * growth.draws.measured)
    normals = more_normals(len(growth.draws.normal), len(classes))
    return [
        one.times.drawn(one.quantile, normal) * together / one.seconds
        for one, normal in zip(classes, normals, strict=True)
    ]


def _met(growth: Growth, one: MeasuredClass, tension: Array) -> Array:
    """Find the multiple of today's load at which each draw of the class reaches its SLA."""
    then = np.full_like(tension, one.throughput / growth.load.throughput)
    return crossings(growth, growth.times(np.minimum(then, growth.ends)) / tension)


def _first(growth: Growth, tension: Array, met: Array) -> Array:
    """Compute the probability of each class to be the first, shape (classes,).

    All grow alike, so that it is the one which is nearest to its SLA.
    """
    is_before = met.min(axis=0) < growth.ends
    nearest = np.argmin(met - NEGLIGIBLE * tension, axis=0)
    places = np.arange(len(met))[:, None]
    found: Array = np.mean((nearest == places) & is_before, axis=1)
    return found


def _found(growth: Growth, met: Array, first: float, *, is_bounded: bool) -> ClassHeadroom:
    low, middle, high = quantiles(met, QUANTILES)
    if middle <= MIN_LOAD_FACTOR:
        is_never = high <= MIN_LOAD_FACTOR
        reason = SlaReason.NEVER_MET if is_never else SlaReason.NOT_IDENTIFIABLE
        return ClassHeadroom(first=float(first), reason=reason)
    is_bounded = is_bounded or float(np.mean(met >= growth.ends)) <= 1 - QUANTILES[2]
    upper = float(high) if is_bounded else None
    return ClassHeadroom(Estimate(float(middle), float(low), upper), float(first))
