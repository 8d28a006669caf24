"""The load at which the mean residence time reaches an agreed limit (an SLA).

R(X) is that of `residence_times`, for each draw of what is uncertain today. A draw's load is where
R crosses the limit, or the capacity if it is reached before. There N = X·R by Little's law.
"""

from dataclasses import dataclass, replace

import numpy as np

from models.arrays import Array
from models.numerics import CONFIDENCE, QUANTILES, TINY, quantiles
from models.shared_constants import MAJORITY, MIN_NOISE
from models.what_if.changes import Changes
from models.what_if.current_state import CurrentLoad, CurrentState, LimitKind
from models.what_if.predicted_value import PredictedValue
from models.what_if.residence import MAX_UTILISATION, residence_times, unexplained_part
from models.what_if.sla_result import SlaHeadroom, SlaReason, capped_at_zero, unknown_headroom
from models.what_if.uncertainty_draws import Draws, draws_of, widen_untrusted

MIN_LOAD_FACTOR = 0.02
"""The lowest load that is considered, relative to today's."""
QUEUE_STRETCH = 1 / CONFIDENCE
"""Draws of `queueing` are multiplied by this and capped at 1, so that a tenth of them are queues
of random arrivals: the lower bound, a 5 % quantile, then allows for them."""


@dataclass(frozen=True, eq=False)
class Growth:
    """How R grows with the load, and where the growth ends, as one set of draws for all uses."""

    today: CurrentState
    present: float
    """Today's throughput, queries/s."""
    load: CurrentLoad
    """The mean of the intervals with about that throughput, which all load factors multiply."""
    draws: Draws

    @property
    def capacity_factors(self) -> Array:
        """The load factor at which each draw's capacity is reached, shape (draws,)."""
        return self.draws.capacity / self.load.throughput

    def residence_times_at(self, grown: Array) -> Array:
        """Compute R (s) of each draw at its own load, grown by a factor, shape (draws,) both."""
        today, load, draws = self.today, self.load, self.draws
        times = residence_times(today, load, Changes(), draws, grown)
        times = times * _contention_growth(today, load, draws, grown)
        scattered: Array = times * np.exp(load.scatter * draws.residence_normal)
        return scattered


def growth_of_residence_time(today: CurrentState) -> Growth | SlaReason:
    """Draw the growth of R with the load, or return the reason why it is not known."""
    present, reason = today.load, _reason_against(today)
    if present is None or reason is not None:
        return reason or SlaReason.NO_LOAD
    today, load = _with_limited_uses(today), _average_load(present)
    return Growth(today, present.throughput, load, _draws_for_sla(today))


def sla_headroom(today: CurrentState, sla: float) -> SlaHeadroom:
    """Find the load at which the mean residence time is `sla` seconds."""
    growth, present = growth_of_residence_time(today), today.load
    if isinstance(growth, SlaReason) or present is None:
        reason = growth if isinstance(growth, SlaReason) else SlaReason.NO_LOAD
        return unknown_headroom(reason, present, sla)
    x, ends = growth.load.throughput, growth.capacity_factors
    load_factors = load_factors_at_sla(growth, sla)
    low, middle, high = quantiles(x * load_factors, QUANTILES)
    if middle <= MIN_LOAD_FACTOR * x:
        is_never = high <= MIN_LOAD_FACTOR * x
        return unknown_headroom(
            SlaReason.NEVER_MET if is_never else SlaReason.NOT_IDENTIFIABLE, present, sla
        )
    capacity_first = float(np.mean(load_factors >= ends))
    is_bounded = today.upper is not None or capacity_first <= 1 - QUANTILES[2]
    throughput = PredictedValue(float(middle), float(low), float(high) if is_bounded else None)
    headroom = _headroom(throughput, growth.present)
    return SlaHeadroom(
        throughput=throughput,
        concurrency=_scaled(throughput, sla) if capacity_first < QUANTILES[1] else None,
        ratio=capped_at_zero(headroom) if present.residence_time > sla else headroom,
        capacity_first=capacity_first,
        at_capacity=_residence_time_at_capacity(growth),
    )


def load_factors_at_sla(growth: Growth, sla: Array | float) -> Array:
    """Find the load factor at which each draw's R reaches the SLA (s), shape (draws,).

    It is at most that of the draw's capacity, and is found by bisection of its logarithm, as R does
    not fall with the load.
    """
    ends = growth.capacity_factors
    low, high = (
        np.full_like(ends, np.log(MIN_LOAD_FACTOR)),
        np.log(np.maximum(ends, MIN_LOAD_FACTOR)),
    )
    is_met = growth.residence_times_at(np.exp(high)) < sla
    while float(np.max(high - low)) > MIN_NOISE**2:
        middle = (low + high) / 2
        is_below = growth.residence_times_at(np.exp(middle)) < sla
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    found: Array = np.where(is_met, ends, np.exp(low))
    return found


def _residence_time_at_capacity(growth: Growth) -> PredictedValue | None:
    """Compute R (s) at each draw's capacity; None where it grows without bound there."""
    times = growth.residence_times_at(growth.capacity_factors)
    low, middle, high = np.quantile(times, QUANTILES, method="inverted_cdf")
    if not np.isfinite(middle):
        return None
    return PredictedValue(float(middle), float(low), float(high) if np.isfinite(high) else None)


def _with_limited_uses(today: CurrentState) -> CurrentState:
    """Leave out the resources of which it is not known at what load they are full.

    The latest utilisation alone does not show it: it may be due to others, or momentary.
    """
    known = tuple(use for use in today.uses if today.limit_index(use.name) is not None)
    return replace(today, uses=known)


def _average_load(load: CurrentLoad) -> CurrentLoad:
    """Average X and R over all intervals with about this load, as one of them alone scatters.

    Most of them may be below it, or above: R is that at their own mean throughput.
    """
    usual = load.mean_near(load.throughput)
    if usual is None:
        return load
    mean = load.scatter_of_mean(usual.intervals)
    return replace(
        load, throughput=usual.throughput, residence_time=usual.residence_time, scatter=mean
    )


def _reason_against(today: CurrentState) -> SlaReason | None:
    """Return the reason why no prediction is possible; None if one is."""
    load = today.load
    if load is None or load.throughput <= 0:
        return SlaReason.NO_LOAD
    if today.capacity is None or not today.limits:
        return SlaReason.NO_CAPACITY
    if today.law is None and not _with_limited_uses(today).uses:
        return SlaReason.NO_GROWTH
    has_law = today.law is not None and today.law.x_max is not None
    if not has_law and unexplained_part(today, load) > MAJORITY:
        return SlaReason.UNEXPLAINED
    return None


def _draws_for_sla(today: CurrentState) -> Draws:
    """Draw what is uncertain, with queues of random arrivals inside the 90 % interval."""
    draws = widen_untrusted(today, draws_of(today))
    return replace(draws, queueing=np.minimum(1.0, QUEUE_STRETCH * draws.queueing))


def _contention_growth(today: CurrentState, load: CurrentLoad, draws: Draws, grown: Array) -> Array:
    """Compute the factor by which R grows towards the limit by contention, shape (draws,).

    With a fitted law it is 1, as `residence_times` follows the law. Without one, R grows like the
    queue at a resource that is full at the expected limit by contention: from none to that of
    random arrivals.
    """
    peak = today.limit(LimitKind.CONTENTION)
    place = None if peak is None else today.limit_index(peak.name)
    if place is None or (today.law is not None and today.law.x_max is not None):
        return np.ones_like(draws.share_normal)
    now = np.minimum(load.throughput / draws.limits[place], MAX_UTILISATION)
    then = np.minimum(grown * now, MAX_UTILISATION)
    factor: Array = (1 - draws.queueing * now) / (1 - draws.queueing * then)
    return factor


def _scaled(found: PredictedValue, factor: float) -> PredictedValue:
    upper = None if found.upper is None else factor * found.upper
    return PredictedValue(factor * found.value, factor * found.lower, upper)


def _headroom(throughput: PredictedValue, x: float) -> PredictedValue:
    upper = 1.0 if throughput.upper is None else 1 - x / throughput.upper
    return PredictedValue(1 - x / throughput.value, 1 - x / max(throughput.lower, TINY), upper)
