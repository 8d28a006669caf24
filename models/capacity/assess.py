"""The server's capacity: the lower of the resource limits and contention's peak.

Both are uncertain. The lower of independent quantities is above c when each of them is:
P(C > c) = P(peak > c) · P(lowest limit > c), and the lowest one follows from their hazards.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from models.capacity.change_points import Regimes, find_regimes
from models.capacity.contention import Ahead, Peak, find_peak
from models.capacity.cost_drift import cost_drift, costs_otherwise
from models.capacity.cost_variance import cost_fluctuates, others_fluctuate
from models.capacity.cpu_frequency import clock_low
from models.capacity.distribution import Distribution
from models.capacity.goodness_of_fit import (
    Check,
    Finding,
    Points,
    check_concurrency,
    check_fit,
    contradicts_limit,
    merge_noisy,
)
from models.capacity.observations import SEEN, Observations
from models.capacity.observed_maximum import likelihood
from models.capacity.observed_peak import ObservedPeak, find_observed_peak
from models.capacity.outliers import MAX_SHARE, Outliers, find_outliers
from models.capacity.plateau import find_plateau
from models.capacity.resource_limit import FULL, ResourceLimit
from models.capacity.resource_limits import find_resource_limits, unless_passed
from models.capacity.result import USL, Capacity, CapacityReason
from models.capacity.trust_gate import (
    by_law_alone,
    if_often_near,
    judged,
    measured,
    nothing,
    unless_more_was_served,
    with_concurrency,
    with_doubts,
)
from models.trust import Trust
from models.usl.fit import UslFit, fit_map
from models.usl.law import Array

HOPELESS_RATIO = 12.0
"""A limit whose interval is wider is left aside."""
SETTING_SEEN = 0.5
"""A limit that somebody set counts as near once so much of it was used."""
MIN_RANGE = 1.15
"""The 95 % quantile of the throughputs over the 5 % quantile must be above."""
GRID = 400
FAR_BELOW = 1 / 3
"""Below this share of the nearest limit, the most likely one, nothing of contention shows, and the
limit is the best guess. That contention may come before is in the bounds."""
BEYOND = 0.05
"""With more than this probability above all that was looked at, there is no upper bound."""
UNHINDERED = 0.2
"""The quantile of the residence times that counts as that of statements that none delays."""
LEAST_TOGETHER = 0.5
"""Fewer statements at once cannot be told apart."""
MOST_FALL = 0.1
"""A demand expected to fall by more than this share beyond the highest loads may end anywhere."""
NEAR_HIGHEST = 0.95
"""Intervals of at least this share of the highest throughputs tell what was full at them."""
MERGED_POINTS = 3
"""The law needs so many loads that can be told apart."""


def assess_capacity(seen: Observations) -> Capacity:
    """Tell the capacity: current regime, outliers, limits, the law, then the lower of all."""
    known = np.flatnonzero(seen.throughput > 0)
    if len(known) == 0:
        return nothing()
    ours = seen.undisturbed()
    regimes = find_regimes(ours.select(known))
    current = ours.select(known[regimes.current])
    met = find_observed_peak(current)
    rising = _rising(current, met)
    outliers = find_outliers(current.select(rising)).among(rising)
    kept = current.select(outliers.kept & rising)
    x_seen = float(np.quantile(kept.throughput, SEEN))
    found = find_resource_limits(kept.throughput, kept.resources, kept.weights)
    resource_limits = tuple(
        unless_passed(limit, x_seen, _was_full_at(x_seen, kept, limit.resource)) for limit in found
    )
    nearest = _first(_near(resource_limits, kept))
    law, finding, peak = _law(current.select(outliers.kept), nearest, x_seen)
    context = _context(outliers, regimes, finding)
    met_otherwise = met is not None or _is_full(nearest) or _is_the_laws(law, finding)
    held_at = None if met_otherwise else find_plateau(current)
    if held_at is not None:
        context.add(CapacityReason.THROUGHPUT_PLATEAU)
    if nearest is not None:
        context |= _doubts(nearest.resource, ours, current, kept)
        if nearest.further_fall > MOST_FALL:
            context.add(CapacityReason.DEMAND_FALLS)
    usable = _usable(resource_limits)
    first = _first(usable)
    if first is not None and kept.resource(first.resource).counts_waits:
        context.add(CapacityReason.WAITS_COUNTED)
    if first is not None and kept.resource(first.resource).is_ceiling_assumed:
        context.add(CapacityReason.CPU_ASSUMED)
    if np.mean(kept.disturbed) > MAX_SHARE:
        context.add(CapacityReason.OTHERS_INTERFERE)
    if x_seen < MIN_RANGE * float(np.quantile(kept.throughput, 1 - SEEN)):
        context.add(CapacityReason.ONE_LOAD)
    if met is not None:
        answer = measured(met, x_seen, context)
    elif peak is None:
        answer = by_law_alone(law, finding, x_seen, context)
    else:
        peak = replace(peak, met_at=held_at)
        answer = _lowest(usable, peak, law, current.select(outliers.served), x_seen, context)
    if met is None:
        answer = if_often_near(answer, kept.throughput)
        answer = unless_more_was_served(answer, ours.throughput[known], regimes)
    return replace(
        with_concurrency(answer, met, law),
        concurrency_seen=current.concurrency_at(x_seen),
        resource_limits=resource_limits,
        contention=peak,
        usl=with_doubts(law, finding),
        usl_finding=finding,
        outliers=outliers,
        regimes=regimes,
    )


def _rising(seen: Observations, met: ObservedPeak | None) -> NDArray[np.bool_]:
    """Mark the intervals before the peak: past it queries cost and wait as nowhere below."""
    if met is None:
        return np.ones(len(seen), dtype=np.bool_)
    past: NDArray[np.bool_] = seen.concurrency > met.concurrency_upper
    return ~past


def _doubts(
    name: str, ours: Observations, current: Observations, kept: Observations
) -> set[CapacityReason]:
    """What speaks against this resource's limit: of all intervals, the regime's, those kept."""
    found = {
        CapacityReason.LATEST_DIFFER: cost_drift(kept, name) or costs_otherwise(current, name),
        CapacityReason.COST_FLUCTUATES: cost_fluctuates(kept, name),
        CapacityReason.OTHERS_FLUCTUATE: others_fluctuate(ours, name),
        CapacityReason.CLOCK_LOW: clock_low(kept, name),
        CapacityReason.MODEL_DOES_NOT_FIT: contradicts_limit(kept, name),
    }
    return {reason for reason, holds in found.items() if holds}


def _law(
    kept: Observations, resource_limit: ResourceLimit | None, x_seen: float
) -> tuple[UslFit | None, Finding | None, Peak | None]:
    """Fit the law where concurrency allows, and where it peaks beside the nearest limit."""
    loaded = kept.select(kept.loaded)
    check = check_concurrency(loaded)
    points = merge_noisy(loaded, None if resource_limit is None else _busy(loaded, resource_limit))
    n, x, w, v, _ = points
    if check is None and np.count_nonzero(w) < MERGED_POINTS:
        check = Finding(Check.NOISY, float(np.count_nonzero(w)))
    noise = v if v.any() else None
    law = fit_map(n, x, weights=w, n_variance=noise) if check is None else None
    finding = check if law is None else check_fit(n, x, w, v, law.law)
    if resource_limit is None or resource_limit.x_max is None:
        return law, finding, None
    ahead = Ahead(resource_limit.x_max, _together(kept, resource_limit.x_max))
    fitted = points if law else Points(*(column[:0] for column in points))
    return law, finding, find_peak(fitted, ahead, x_seen)


def _busy(loaded: Observations, resource_limit: ResourceLimit) -> Array:
    """Look up how busy the limit's resource was."""
    resource = loaded.resource(resource_limit.resource)
    return resource.utilisation / resource.ceiling


def _together(kept: Observations, x: float) -> float | None:
    """Estimate how many statements at once this throughput takes when none waits: R·X."""
    known = np.isfinite(kept.concurrency)
    if not known.any():
        return None
    n, of = kept.concurrency[known], kept.throughput[known]
    sampled = kept.n_variance.any() or not n.all()
    r = np.sum(n) / np.sum(of) if sampled else np.quantile(n / of, UNHINDERED)
    return max(float(r) * x, LEAST_TOGETHER)


def _is_the_laws(law: UslFit | None, finding: Finding | None) -> bool:
    """Whether the law describes how the throughput ends: its peak was seen, and it fits."""
    return law is not None and finding is None and law.trust is Trust.TRUSTED


def _was_full_at(x: float, kept: Observations, name: str) -> bool:
    """Whether the server filled the resource in most of the intervals about a throughput."""
    resource, about = kept.resource(name), kept.throughput >= NEAR_HIGHEST * x
    filled = resource.full & ~resource.filled_by_others & about
    return not resource.counts_waits and 2 * int(filled.sum()) > int(about.sum())


def _is_full(resource_limit: ResourceLimit | None) -> bool:
    """Whether a resource was full for a while: then that is what ends the growth."""
    return resource_limit is not None and resource_limit.utilisation_max >= FULL


def _first(resource_limits: list[ResourceLimit]) -> ResourceLimit | None:
    """The lowest of them; None where there is none."""
    return _nearest(resource_limits) if resource_limits else None


def _nearest(resource_limits: list[ResourceLimit]) -> ResourceLimit:
    """The lowest of one or more."""
    return min(resource_limits, key=lambda resource_limit: resource_limit.x_max or np.inf)


def _usable(resource_limits: tuple[ResourceLimit, ...]) -> list[ResourceLimit]:
    """The limits that may count: those whose interval is not hopeless."""
    return [
        w for w in resource_limits if w.x_max_interval and w.x_max_interval.ratio < HOPELESS_RATIO
    ]


def _near(resource_limits: tuple[ResourceLimit, ...], kept: Observations) -> list[ResourceLimit]:
    """The usable limits that contention may be expected beside: not settings far away."""
    settings = {resource.name for resource in kept.resources if resource.is_setting}
    return [
        resource_limit
        for resource_limit in _usable(resource_limits)
        if resource_limit.resource not in settings or resource_limit.utilisation_max > SETTING_SEEN
    ]


def _context(outliers: Outliers, regimes: Regimes, finding: Finding | None) -> set[CapacityReason]:
    """Collect what the steps before have found."""
    found = {
        CapacityReason.MODEL_DOES_NOT_FIT: outliers.too_many,
        CapacityReason.LATEST_DIFFER: outliers.latest_differ or regimes.left_of_late,
        CapacityReason.TWO_WORKLOADS: regimes.clouds is not None,
        CapacityReason.MIX_CHANGED: regimes.change is not None,
        CapacityReason.CONCURRENCY_UNKNOWN: finding is not None and finding.refuses,
        CapacityReason.LAW_DOES_NOT_FIT: finding is not None and not finding.refuses,
    }
    return {reason for reason, holds in found.items() if holds}


def _lowest(
    usable: list[ResourceLimit],
    peak: Peak,
    law: UslFit | None,
    served: Observations,
    x_seen: float,
    context: set[CapacityReason],
) -> Capacity:
    """Take the lower of the limits and the peak, given that what was seen is possible."""
    ends = [float(resource_limit.grid[-1]) for resource_limit in usable]
    grid = np.linspace(np.log(x_seen) - 0.1, max(min(ends), np.log(x_seen) + 0.2), GRID)
    names = [resource_limit.resource for resource_limit in usable] + [USL]
    survivals = [resource_limit.survival(grid) for resource_limit in usable] + [peak.survival(grid)]
    each = np.maximum(np.stack(survivals), 1e-12)
    each = np.minimum(each / each[:, :1], 1.0)
    each[:-1] = _lowest_of(each[:-1])
    lowest = _nearest(usable)
    possible = likelihood(grid, served, lowest.resource)
    survival = np.prod(each, axis=0)
    shares = _shares(each, survival, possible)
    survival = _given(survival, possible)
    low, middle, high = np.exp(np.interp((0.05, 0.5, 0.95), 1 - survival, grid))
    high = np.inf if survival[-1] > BEYOND else high
    if lowest.x_max is not None and shares[-1] < 0.5 and x_seen < FAR_BELOW * lowest.x_max:
        middle = np.clip(lowest.x_max, low, high)
    found = set(context)
    if shares[-1] > 0.1 and (law is None or law.trust is not Trust.TRUSTED):
        found.add(CapacityReason.CONTENTION_UNKNOWN)
    return judged(
        (float(low), float(middle), float(high)),
        dict(zip(names, map(float, shares), strict=True)),
        x_seen,
        found,
        Distribution(grid, 1 - survival),
    )


def _lowest_of(resource_limits: Array) -> Array:
    """Give each the part of the least survival's fall that it makes; their product is the least.

    Two limits are no independent draws: the host's processors and the server's are one measurement.
    """
    least = np.minimum.accumulate(resource_limits.min(axis=0))
    falls = np.diff(np.log(least), prepend=0.0)
    makes = np.arange(len(resource_limits))[:, None] == np.argmin(resource_limits, axis=0)
    parts: Array = np.exp(np.cumsum(makes * falls, axis=1))
    return parts


def _given(survival: Array, likelihood: Array) -> Array:
    """Weigh each place's density by how likely it makes what was served."""
    falls = -np.diff(survival) * likelihood[1:]
    whole = float(falls.sum()) + float(survival[-1] * likelihood[-1])
    left: Array = 1 - np.append(0.0, np.cumsum(falls)) / max(whole, 1e-300)
    return left


def _shares(each: Array, survival: Array, likelihood: Array) -> Array:
    """Compute the probability of each to be the lowest: ∫ S(c)·L(c)·dH_i(c), H_i = −ln S_i."""
    hazards = -np.diff(np.log(each), axis=1)
    middle = (survival[1:] + survival[:-1]) / 2
    lowest = hazards @ (middle * likelihood[1:])
    shares: Array = lowest / max(float(lowest.sum()), 1e-300)
    return shares
