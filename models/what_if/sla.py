"""The load at which the mean residence time reaches a limit that was agreed on (an SLA).

R(X) is that of `residence_times`, for each draw of what is uncertain today; where it crosses the
limit, or the capacity is reached before, that draw's load ends. There N = X·R by Little's law.
"""

from dataclasses import dataclass, replace

import numpy as np

from models.numerics import QUANTILES, TINY, quantile, quantiles
from models.usl.law import Array
from models.what_if.changes import Changes
from models.what_if.current_state import CurrentState, Kind, Load
from models.what_if.posterior_draws import Draws, draws_of
from models.what_if.predict import Estimate
from models.what_if.residence import MAX_UTILISATION, residence_times, unexplained_part
from models.what_if.sla_headroom import SlaHeadroom, SlaReason, none_left, refused

MIN_LOAD_FACTOR = 0.02
"""Loads are looked at from so many times today's."""
HALVINGS = 12
"""Of the interval from there to the capacity: to a thousandth, where that is 50 times today's."""
DRAWS = 250
QUEUE_STRETCH = 1.1
"""Draws of the queueing part are stretched by this and cut at 1, so that 9 % of them are queues
of random arrivals: the lower bound, a 5 % quantile, then allows for them."""
MAX_UNEXPLAINED = 0.5
"""Of R: locks, and what else is on no resource, may queue as steeply as any of them."""
LIGHTER_LOAD_RATIO, MIN_MISS = 1.2, 0.1
"""Loads that are lower than today's by this factor show how R grows; and so much shorter than
the shortest that is predicted there R must be to refute the prediction."""

UNTRUSTED_DEVIATION = 0.3
"""Standard deviation of the logarithm by which a capacity that is not trusted was off, beyond its
own interval: on recorded real servers the bounds held 13 of 18 truths with 0, 14 with 0.2, all with
this (docs/sla.md)."""


@dataclass(frozen=True, eq=False)
class Growth:
    """How R grows with the load, and where the growth ends: one set of draws for all answers."""

    today: CurrentState
    load: Load
    draws: Draws

    @property
    def ends(self) -> Array:
        """The multiple of today's load at which each draw's capacity is reached, shape (draws,)."""
        return self.draws.capacity / self.load.throughput

    def times(self, grown: Array) -> Array:
        """Compute R (s) of each draw at its own load, grown by a factor, shape (draws,) both."""
        today, load, draws = self.today, self.load, self.draws
        times = residence_times(today, load, Changes(), draws, grown)
        times = times * _contention_growth(today, load, draws, grown)
        scattered: Array = times * np.exp(load.scatter * draws.measured)
        return scattered


def growth_of(today: CurrentState, *, is_trusted: bool = True) -> Growth | SlaReason:
    """Draw how R grows, or say why that is not known.

    The limits of a capacity that is not trusted are farther off than their distributions say.
    """
    present, reason = today.load, _refusal(today)
    if present is None or reason is not None:
        return reason or SlaReason.NO_LOAD
    today, load = _with_limits(today), _usual(present)
    growth = Growth(today, load, _draws(today))
    if _contradicts_growth(growth):
        return SlaReason.GROWS_OTHERWISE
    return growth if is_trusted else replace(growth, draws=_widened(growth))


def sla_headroom(today: CurrentState, sla: float, *, is_trusted: bool = True) -> SlaHeadroom:
    """Find the load at which the mean residence time is `sla` seconds."""
    growth, present = growth_of(today, is_trusted=is_trusted), today.load
    if isinstance(growth, SlaReason) or present is None:
        reason = growth if isinstance(growth, SlaReason) else SlaReason.NO_LOAD
        return refused(reason, present, sla)
    x, ends = growth.load.throughput, growth.ends
    met = crossings(growth, sla)
    low, middle, high = quantiles(x * met, QUANTILES)
    if middle <= MIN_LOAD_FACTOR * x:
        is_never = high <= MIN_LOAD_FACTOR * x
        return refused(
            SlaReason.NEVER_MET if is_never else SlaReason.NOT_IDENTIFIABLE, present, sla
        )
    first = float(np.mean(met >= ends))
    is_bounded = today.upper is not None or first <= 1 - QUANTILES[2]
    throughput = Estimate(float(middle), float(low), float(high) if is_bounded else None)
    headroom = _headroom(throughput, x)
    return SlaHeadroom(
        throughput=throughput,
        concurrency=_scaled(throughput, sla) if first < QUANTILES[1] else None,
        headroom=none_left(headroom) if present.residence_time > sla else headroom,
        capacity_first=first,
        at_capacity=_at_capacity(growth),
    )


def crossings(growth: Growth, sla: Array | float) -> Array:
    """Find the factor of the load at which each draw's R is the SLA (s); shape (draws,).

    At most the draw's end. By bisection of ln factor: R does not fall with the load.
    """
    ends = growth.ends
    low, high = (
        np.full_like(ends, np.log(MIN_LOAD_FACTOR)),
        np.log(np.maximum(ends, MIN_LOAD_FACTOR)),
    )
    is_met = growth.times(np.exp(high)) < sla
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_below = growth.times(np.exp(middle)) < sla
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    found: Array = np.where(is_met, ends, np.exp(low))
    return found


def _at_capacity(growth: Growth) -> Estimate | None:
    """Compute R (s) at each draw's capacity; None where it grows without bound there."""
    times = growth.times(growth.ends)
    low, middle, high = np.quantile(times, QUANTILES, method="inverted_cdf")
    if not np.isfinite(middle):
        return None
    return Estimate(float(middle), float(low), float(high) if np.isfinite(high) else None)


def _with_limits(today: CurrentState) -> CurrentState:
    """Leave out the resources of which it is not known where they are full.

    The latest utilisation alone does not say it: others may have made it, or a moment.
    """
    known = tuple(use for use in today.uses if today.place(use.name) is not None)
    return replace(today, uses=known)


def _usual(load: Load) -> Load:
    """Take R at about this load over all its intervals: one of them alone scatters."""
    usual = load.near(load.throughput)
    if usual is None:
        return load
    mean = load.scatter_of_mean(usual.intervals)
    return replace(load, residence_time=usual.residence_time, scatter=mean)


def _refusal(today: CurrentState) -> SlaReason | None:
    """Tell what is missing for a prediction."""
    load = today.load
    if load is None or load.throughput <= 0:
        return SlaReason.NO_LOAD
    if today.capacity is None or not today.limits:
        return SlaReason.NO_CAPACITY
    if today.law is None and not _with_limits(today).uses:
        return SlaReason.NO_GROWTH
    has_law = today.law is not None and today.law.x_max is not None
    if not has_law and unexplained_part(today, load) > MAX_UNEXPLAINED:
        return SlaReason.UNEXPLAINED
    return None


def _contradicts_growth(growth: Growth) -> bool:
    """Tell whether R at the window's lighter loads was shorter than any draw has it there."""
    load = growth.load
    if load.lighter is None or load.lighter[0] * LIGHTER_LOAD_RATIO >= load.throughput:
        return False
    x, r = load.lighter
    there = growth.times(np.full_like(growth.draws.normal, x / load.throughput))
    return bool(r < (1 - MIN_MISS) * quantile(there, QUANTILES[0]))


def _draws(today: CurrentState) -> Draws:
    """Draw, with the queues of random arrivals inside the 90 % interval and not at its edge."""
    draws = draws_of(today).some(DRAWS)
    return replace(draws, queueing=np.minimum(1.0, QUEUE_STRETCH * draws.queueing))


def _widened(growth: Growth) -> Draws:
    """Spread limits that are not trusted, none of them below the load that is served now."""
    draws = growth.draws
    off = np.exp(UNTRUSTED_DEVIATION * draws.normal)
    off = np.maximum(off, np.minimum(1.0, 1 / growth.ends))
    return replace(draws, limits=off * draws.limits)


def _contention_growth(today: CurrentState, load: Load, draws: Draws, grown: Array) -> Array:
    """Compute how many times as long R becomes on the way to where contention ends the growth.

    Where a law was fitted `residence_times` follows it. Where none can be, R grows like a queue
    that is full at the place that contention is expected at: from not at all to that of random
    arrivals.
    """
    peak = today.limit(Kind.CONTENTION)
    place = None if peak is None else today.place(peak.name)
    if place is None or (today.law is not None and today.law.x_max is not None):
        return np.ones_like(draws.normal)
    now = np.minimum(load.throughput / draws.limits[place], MAX_UTILISATION)
    then = np.minimum(grown * now, MAX_UTILISATION)
    factor: Array = (1 - draws.queueing * now) / (1 - draws.queueing * then)
    return factor


def _scaled(found: Estimate, factor: float) -> Estimate:
    upper = None if found.upper is None else factor * found.upper
    return Estimate(factor * found.value, factor * found.lower, upper)


def _headroom(throughput: Estimate, x: float) -> Estimate:
    upper = 1.0 if throughput.upper is None else 1 - x / throughput.upper
    return Estimate(1 - x / throughput.value, 1 - x / max(throughput.lower, TINY), upper)
