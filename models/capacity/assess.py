"""The assessment of a server's capacity from its observations, all steps in order."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from models.capacity.change_points import find_regimes
from models.capacity.contention_peak import UNCOUNTED_LOG_PRIOR, NearestLimit, Peak, find_peak
from models.capacity.doubts import Evidence
from models.capacity.estimate import Estimate, lowest_of
from models.capacity.goodness_of_fit import (
    Check,
    Finding,
    Points,
    check_concurrency,
    check_fit,
    merge_noisy,
    with_doubts,
)
from models.capacity.limit_types import FULL_UTILISATION, ResourceLimit
from models.capacity.observations import MIN_CONCURRENCY, SAME_LOAD_SHARE, Observations
from models.capacity.observed_peak import ObservedPeak, find_observed_peak
from models.capacity.outliers import find_outliers
from models.capacity.oversubscription_loss import Clients
from models.capacity.plateau import find_plateau
from models.capacity.present_neighbour_use import lower_bound_at_present
from models.capacity.resource_limits import find_resource_limits, if_passed
from models.capacity.result import Capacity
from models.capacity.sample_sizes import MAJORITY, SEEN_QUANTILE
from models.capacity.trust_gate import judged, nothing, with_concurrency
from models.numerics import median, quantile
from models.trust import Trust
from models.usl.fit import UslFit, fit_map
from models.usl.law import Array
from models.usl.points_and_residuals import MIN_POINTS

MAX_LIMIT_RATIO = 12.0
"""A limit whose interval is wider is left aside."""


def assess_capacity(seen: Observations) -> Capacity:
    """Tell the capacity: current regime, outliers, limits, the law, the lower of all, doubts."""
    known = seen.throughput > 0
    if not known.any():
        return nothing()
    ours = seen.without_filled().select(known)
    regimes = find_regimes(ours)
    current = ours.select(regimes.current)
    met = find_observed_peak(current)
    rising = _rising(current, met)
    outliers = find_outliers(current.select(rising)).among(rising)
    kept = current.select(outliers.kept & rising)
    x_seen = quantile(kept.throughput, SEEN_QUANTILE)
    limits = _limits(kept, x_seen)
    nearest = _first(_near(limits, kept))
    law, finding, peak = _law(current.select(outliers.kept), nearest, x_seen)
    plateau = None
    if met is None and not _is_full(nearest):
        plateau = find_plateau(current, None if nearest is None else nearest.resource)
    usable = _usable(limits)
    if met is not None:
        estimate = Estimate.of_observed(met, x_seen)
    elif peak is None:
        estimate = Estimate.of_law(law, finding, x_seen)
    else:
        peak = replace(peak, met_at=plateau)
        estimate = Estimate.of_lowest(usable, peak, current.select(outliers.served), x_seen)
    used = np.flatnonzero(regimes.current)[outliers.kept & rising]
    estimate = estimate.lowered(lower_bound_at_present(usable, ours, used))
    evidence = Evidence(
        seen=ours,
        current=current,
        kept=kept,
        regimes=regimes,
        outliers=outliers,
        nearest=nearest,
        lowest=_first(usable),
        earliest=min(usable, key=_lower_bound, default=None),
        law=law,
        finding=finding,
        plateau=None if _is_the_laws(law, finding) else plateau,
        estimate=estimate,
    )
    return replace(
        with_concurrency(judged(evidence), met, law),
        concurrency_seen=current.concurrency_at(x_seen),
        resource_limits=limits,
        contention=peak,
        usl=with_doubts(law, finding),
        usl_finding=finding,
        outliers=outliers,
        regimes=regimes,
    )


def _limits(kept: Observations, x_seen: float) -> tuple[ResourceLimit, ...]:
    """Find the resource limits, as what was served allows them."""
    many = kept.clients
    clients = None if many is None else Clients(many, kept.uncontended_time)
    found = find_resource_limits(
        kept.throughput, kept.resources, kept.weights, clients, kept.concurrency
    )
    return tuple(
        if_passed(limit, x_seen, _used_at(x_seen, kept, limit.resource))
        if limit.is_passed(x_seen)
        else limit
        for limit in found
    )


def _rising(seen: Observations, met: ObservedPeak | None) -> NDArray[np.bool_]:
    """Mark the intervals before the peak: past it queries cost and wait as nowhere below."""
    if met is None:
        return np.ones(len(seen), dtype=np.bool_)
    past: NDArray[np.bool_] = seen.concurrency > met.concurrency_upper
    return ~past


def _law(
    kept: Observations, resource_limit: ResourceLimit | None, x_seen: float
) -> tuple[UslFit | None, Finding | None, Peak | None]:
    """Fit the law where concurrency allows, and where it peaks beside the nearest limit."""
    loaded = kept.select(kept.loaded)
    disturbed = loaded.disturbed
    if np.count_nonzero(disturbed) > MAJORITY * len(loaded):
        loaded = loaded.select(~disturbed)
    check = check_concurrency(loaded)
    points = merge_noisy(loaded, None if resource_limit is None else _busy(loaded, resource_limit))
    n, x, w, v, _ = points
    if check is None and np.count_nonzero(w) < MIN_POINTS:
        check = Finding(Check.NOISY, float(np.count_nonzero(w)))
    noise = v if v.any() else None
    law = fit_map(n, x, weights=w, n_variance=noise) if check is None else None
    finding = check if law is None else check_fit(n, x, w, v, law.law)
    if resource_limit is None or resource_limit.x_max is None:
        return law, finding, None
    log_shared = max(resource_limit.log_shared, 0.0 if kept.log_counted else UNCOUNTED_LOG_PRIOR)
    ahead = NearestLimit(resource_limit.x_max, _together(kept, resource_limit.x_max), log_shared)
    fitted = points if law else Points(*(column[:0] for column in points))
    return law, finding, find_peak(fitted, ahead, x_seen)


def _busy(loaded: Observations, resource_limit: ResourceLimit) -> Array:
    """Look up how busy the limit's resource was."""
    return loaded.resource(resource_limit.resource).relative_use


def _together(kept: Observations, x: float) -> float | None:
    """Estimate how many statements at once this throughput takes when none waits: R·X."""
    r = kept.uncontended_time
    return None if r is None else max(r * x, MIN_CONCURRENCY)


def _is_the_laws(law: UslFit | None, finding: Finding | None) -> bool:
    """Whether the law describes how the throughput ends: its peak was seen, and it fits."""
    return law is not None and finding is None and law.trust is Trust.TRUSTED


def _used_at(x: float, kept: Observations, name: str) -> float:
    """Compute how much of its ceiling was used in the intervals about a throughput; 0: unknown.

    A device that serves several requests at once may be busy all the time and still serve more.
    """
    resource, about = kept.resource(name), kept.throughput >= SAME_LOAD_SHARE * x
    known = about & ~resource.filled_by_others & np.isfinite(resource.relative_use)
    if resource.counts_waits or not known.any():
        return 0.0
    used = median(resource.relative_use[known])
    return 0.0 if resource.is_busy_time and used < FULL_UTILISATION else used


def _is_full(resource_limit: ResourceLimit | None) -> bool:
    """Whether a resource was full for a while: then that is what ends the growth."""
    return resource_limit is not None and resource_limit.utilisation_max >= FULL_UTILISATION


def _first(resource_limits: list[ResourceLimit]) -> ResourceLimit | None:
    """The lowest of them; None where there is none."""
    return lowest_of(resource_limits) if resource_limits else None


def _lower_bound(limit: ResourceLimit) -> float:
    return 0.0 if limit.x_max_interval is None else limit.x_max_interval.low


def _usable(resource_limits: tuple[ResourceLimit, ...]) -> list[ResourceLimit]:
    """The limits that may count: those whose interval is not hopeless."""
    return [
        w for w in resource_limits if w.x_max_interval and w.x_max_interval.ratio < MAX_LIMIT_RATIO
    ]


def _near(resource_limits: tuple[ResourceLimit, ...], kept: Observations) -> list[ResourceLimit]:
    """The usable limits that contention may be expected beside: of settings those mostly used."""
    settings = {resource.name for resource in kept.resources if resource.is_setting}
    return [
        resource_limit
        for resource_limit in _usable(resource_limits)
        if resource_limit.resource not in settings or resource_limit.utilisation_max > MAJORITY
    ]
