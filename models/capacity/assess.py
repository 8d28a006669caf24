"""The assessment of a server's capacity from its observations, all steps in order."""

from dataclasses import replace

import numpy as np

from models.arrays import Mask
from models.capacity.change_points import find_regimes
from models.capacity.contention_peak import (
    MIN_CONTENDING,
    UNCOUNTED_LOG_PRIOR,
    ContentionPeak,
    NearestLimit,
    find_peak,
)
from models.capacity.doubts import CapacityEvidence
from models.capacity.estimate import Estimate, lowest_of
from models.capacity.goodness_of_fit import (
    Check,
    Finding,
    MergedPoints,
    check_concurrency,
    check_fit,
    limit_trust_by_finding,
    merge_noisy,
)
from models.capacity.observations import MIN_CONCURRENCY, Observations
from models.capacity.observed_peak import ObservedPeak, find_observed_peak, saturated_throughput
from models.capacity.outliers import find_outliers
from models.capacity.oversubscription_loss import ClientConnections, filling_concurrency
from models.capacity.plateau import find_plateau
from models.capacity.present_use_by_others import lower_bound_at_present
from models.capacity.residence_ignores_load import ignores_load
from models.capacity.resource_and_limit import FULL_UTILISATION, MAX_LIMIT_RATIO, ResourceLimit
from models.capacity.resource_limits import correct_refuted_limit, find_resource_limits
from models.capacity.result import Capacity
from models.capacity.trust_gate import judge_capacity, unknown_capacity, with_concurrency
from models.numerics import median, quantile
from models.shared_constants import MAJORITY, MIN_LASTING, SEEN_QUANTILE
from models.trust import MAX_ERROR, Trust
from models.usl.fit import UslFit, fit_bayes
from models.usl.points_and_scatter import LAW_PARAMETERS


def assess_capacity(seen: Observations) -> Capacity:
    """Compute the capacity: current regime, outliers, limits, law, the lowest of them, trust."""
    known = seen.throughput > 0
    if not known.any():
        return unknown_capacity()
    known_intervals = seen.without_filled_concurrency().select(known)
    regimes = find_regimes(known_intervals)
    current = known_intervals.select(regimes.current)
    observed_peak = find_observed_peak(current)
    below_peak = _is_below_peak(current, observed_peak)
    outliers = find_outliers(current.select(below_peak)).over_all(below_peak)
    regular = current.select(outliers.kept)
    kept = regular.select(below_peak[outliers.kept])
    x_seen = quantile(kept.throughput, SEEN_QUANTILE)
    limits = _find_limits(kept, x_seen)
    usable = usable_limits(limits)
    nearest = _lowest_or_none(_nearest_limit_candidates(usable, kept))
    law, finding, peak = _fit_law_and_peak(regular, nearest, x_seen)
    plateau = None
    if observed_peak is None and not _is_full(nearest):
        plateau = find_plateau(current, None if nearest is None else nearest.resource)
    if observed_peak is not None:
        estimate = Estimate.of_observed(observed_peak, x_seen)
    elif peak is None:
        estimate = Estimate.of_law(law, finding, x_seen)
    else:
        peak = replace(peak, plateau=plateau)
        estimate = Estimate.of_lowest(usable, peak, current.select(outliers.served), x_seen)
        estimate = estimate.extended_down(saturated_throughput(regular, estimate.value))
    used = np.flatnonzero(regimes.current)[outliers.kept & below_peak]
    estimate = estimate.lowered(lower_bound_at_present(usable, known_intervals, used))
    evidence = CapacityEvidence(
        seen=known_intervals,
        current=current,
        kept=kept,
        regimes=regimes,
        outliers=outliers,
        nearest=nearest,
        lowest=_lowest_or_none(usable),
        lowest_lower_bound=min(usable, key=_lower_bound, default=None),
        law=law,
        finding=finding,
        plateau=None if _is_law_sound(law, finding) else plateau,
        estimate=estimate,
    )
    capacity = with_concurrency(judge_capacity(evidence), observed_peak, law)
    return replace(
        capacity,
        filling_concurrency=_filling_concurrency(kept, capacity),
        concurrency_seen=current.concurrency_at(x_seen),
        resource_limits=limits,
        contention=peak,
        usl=limit_trust_by_finding(law, finding),
        usl_finding=finding,
        outliers=outliers,
        regimes=regimes,
    )


def _find_limits(kept: Observations, x_seen: float) -> tuple[ResourceLimit, ...]:
    """Find the resource limits, corrected where the observed throughput refutes them."""
    connections = kept.usual_connections
    clients = (
        None
        if connections is None
        else ClientConnections(connections, kept.uncontended_residence_time)
    )
    found = find_resource_limits(
        kept.throughput, kept.resources, kept.weights, clients, kept.concurrency
    )
    return tuple(
        correct_refuted_limit(limit, x_seen, _utilisation_near(x_seen, kept, limit.resource))
        if limit.is_passed(x_seen)
        else limit
        for limit in found
    )


def _is_below_peak(seen: Observations, observed_peak: ObservedPeak | None) -> Mask:
    """Mark the intervals before an observed peak: past it queries cost and wait differently."""
    if observed_peak is None:
        return np.ones(len(seen), dtype=np.bool_)
    past: Mask = seen.concurrency > observed_peak.concurrency_upper
    return ~past


def _fit_law_and_peak(
    kept: Observations, resource_limit: ResourceLimit | None, x_seen: float
) -> tuple[UslFit | None, Finding | None, ContentionPeak | None]:
    """Fit the law where concurrency allows, and find contention's peak, given the nearest limit."""
    loaded = kept.select(kept.loaded)
    disturbed = loaded.disturbed_by_others
    if np.count_nonzero(disturbed) > MAJORITY * len(loaded):
        loaded = loaded.select(~disturbed)
    points = merge_noisy(
        loaded,
        None if resource_limit is None else loaded.resource(resource_limit.resource).relative_use,
    )
    law, finding = _fit_law(loaded, points)
    if resource_limit is None or resource_limit.x_max is None:
        return law, finding, None
    log_shared = max(resource_limit.log_shared, 0.0 if kept.log_counted else UNCOUNTED_LOG_PRIOR)
    contending = _without_queues_at(resource_limit, loaded) if law else loaded.select(slice(0))
    nearest = NearestLimit(
        resource_limit.x_max,
        _uncontended_concurrency(kept, resource_limit.x_max),
        log_shared,
        _waits_elsewhere(loaded, resource_limit),
        ignores_load(
            contending.concurrency,
            contending.throughput,
            sampled=bool(contending.n_variance.any()),
        ),
    )
    if contending is not loaded:  # else the use of the limit's resource shows how long queues are
        points = merge_noisy(replace(contending, resources=()))
    return law, finding, find_peak(points, nearest, x_seen)


def _fit_law(loaded: Observations, points: MergedPoints) -> tuple[UslFit | None, Finding | None]:
    """Fit the law if the concurrency allows, and return what is wrong with either."""
    check = check_concurrency(loaded)
    n, x, w, v, _ = points
    if check is None and np.count_nonzero(w) < LAW_PARAMETERS:
        check = Finding(Check.NOISY, float(np.count_nonzero(w)))
    if check is not None:
        return None, check
    law = fit_bayes(n, x, weights=w, n_variance=v if v.any() else None)
    return law, check_fit(n, x, w, v, law.law)


def _without_queues_at(resource_limit: ResourceLimit, loaded: Observations) -> Observations:
    """Return the observations without queues at the limit; as they are where none are counted."""
    counted = loaded.resource(resource_limit.resource).is_waiting_counted
    if np.count_nonzero(counted) <= MAJORITY * len(loaded):
        return loaded
    contending = loaded.without_queues()
    return contending.select(counted & contending.loaded)


def _waits_elsewhere(loaded: Observations, resource_limit: ResourceLimit) -> bool:
    """Return whether statements are known to wait for something other than the limit's resource."""
    elsewhere = loaded.waiting_elsewhere(loaded.resource(resource_limit.resource))
    return bool(np.count_nonzero(elsewhere >= MIN_CONTENDING) >= MIN_LASTING)


def _uncontended_concurrency(kept: Observations, x: float) -> float | None:
    """Estimate the concurrency (threads) at throughput x when no statement waits: R·X."""
    r = kept.uncontended_residence_time
    return None if r is None else max(r * x, MIN_CONCURRENCY)


def _filling_concurrency(kept: Observations, capacity: Capacity) -> float | None:
    """Estimate how many statements at once fill the limiting processors; None: another limit."""
    names = {resource.name for resource in kept.resources}
    if capacity.value is None or capacity.limit not in names:
        return None
    processors = kept.resource(capacity.limit).count
    if processors is None:
        return None
    return filling_concurrency(processors, capacity.value, kept.uncontended_residence_time)


def _is_law_sound(law: UslFit | None, finding: Finding | None) -> bool:
    """Return whether the law describes how the growth ends: it is trusted, and fits the points."""
    return law is not None and finding is None and law.trust is Trust.TRUSTED


def _utilisation_near(x: float, kept: Observations, name: str) -> float:
    """Compute the share of a resource's ceiling used at about throughput x or more; 0: unknown.

    A device that serves several requests at once may be busy all the time and still serve more.
    """
    resource, about = kept.resource(name), kept.throughput >= (1 - MAX_ERROR) * x
    known = about & ~resource.filled_by_others & np.isfinite(resource.relative_use)
    if resource.counts_waits or not known.any():
        return 0.0
    used = median(resource.relative_use[known])
    return 0.0 if resource.is_busy_time and used < FULL_UTILISATION else used


def _is_full(resource_limit: ResourceLimit | None) -> bool:
    """Return whether the limit's resource was full for a while, so that it ends the growth."""
    return resource_limit is not None and resource_limit.utilisation_max >= FULL_UTILISATION


def _lowest_or_none(resource_limits: list[ResourceLimit]) -> ResourceLimit | None:
    """Return the lowest of the limits; None where there is none."""
    return lowest_of(resource_limits) if resource_limits else None


def _lower_bound(limit: ResourceLimit) -> float:
    return 0.0 if limit.x_max_interval is None else limit.x_max_interval.low


def usable_limits(resource_limits: tuple[ResourceLimit, ...]) -> list[ResourceLimit]:
    """List the limits whose interval is narrow enough to use them."""
    return [limit for limit in resource_limits if _extent(limit) < MAX_LIMIT_RATIO]


def _extent(limit: ResourceLimit) -> float:
    """Return the ratio of the ends of a limit's interval, or table; infinite without a limit."""
    if limit.x_max_interval is None:
        return np.inf
    return min(limit.x_max_interval.high, float(np.exp(limit.grid[-1]))) / limit.x_max_interval.low


def _nearest_limit_candidates(
    usable: list[ResourceLimit], kept: Observations
) -> list[ResourceLimit]:
    """List the usable limits near which contention may be expected: settings if mostly used."""
    settings = {resource.name for resource in kept.resources if resource.has_configured_limit}
    return [
        resource_limit
        for resource_limit in usable
        if resource_limit.resource not in settings or resource_limit.utilisation_max > MAJORITY
    ]
