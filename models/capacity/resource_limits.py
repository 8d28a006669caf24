"""The resource limits: the throughputs at which resources are full.

Utilisation law U = X·D (P. Denning, J. Buzen, *The Operational Analysis of Queueing Network
Models*, 1978): utilisation grows with throughput, with the service demand D as its slope. It is
linear, so it shows the limit from far below. `demand_extrapolation` has how the demand may change
on the way. The limit is the throughput where the utilisation reaches the ceiling.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from models.arrays import Array, Mask
from models.capacity.cost_curve import MIN_UTILISATION
from models.capacity.demand_extrapolation import CEILING, Extrapolations
from models.capacity.device_parallelism import CHANNELS, DeviceParallelism
from models.capacity.distribution import TABLE_DEVIATIONS
from models.capacity.oversubscription_loss import ClientConnections
from models.capacity.resource_and_limit import (
    FULL_UTILISATION,
    MAX_LIMIT_RATIO,
    LimitReason,
    Resource,
    ResourceLimit,
    UtilisationCurve,
)
from models.capacity.unshared_log_writes import FurtherFall, further_fall
from models.capacity.utilisation_fit import (
    MIN_UTILISATION_NOISE,
    OWN_BASE_PRIOR,
    PROCESSOR_MODEL_PRIORS,
    UNCOUNTED_WAKEUP_MODEL_PRIORS,
    WAKEUP_MODEL_PRIORS,
    FittedParts,
    UtilisationPart,
    fit_parts,
)
from models.distribution_functions import NORMAL_95, normal_cdf
from models.numerics import NEGLIGIBLE, QUANTILES, TABLE_SIZE, median, quantiles
from models.robust_regression import fit_columns
from models.shared_constants import (
    CERTAIN_Z,
    FALSE_SIGN_PROBABILITY,
    FAR_RATIO,
    MAJORITY,
    MIN_LASTING,
    MIN_NOISE,
    MIN_POINTS,
    NEAR_SHARE,
    QUERY_VARIATION,
    SEEN_QUANTILE,
    SIGNIFICANT_Z,
)
from models.trust import TRUSTED_RATIO, Trust, trust_of
from models.usl.peak_posterior import CredibleInterval

LIMIT_REACH = float(np.log(MAX_LIMIT_RATIO))
"""How far from the limit of a straight line, in ln X, a limit is sought."""
LN_LIMIT_RATIOS = np.linspace(-LIMIT_REACH, LIMIT_REACH, TABLE_SIZE)
"""The places at which it is sought, ln of its ratio to that of a straight line."""
LIMIT_RATIOS = np.exp(LN_LIMIT_RATIOS)
LN_DEVICE_RATIOS = np.linspace(-LIMIT_REACH, LIMIT_REACH + np.log(CHANNELS[-1]), 2 * TABLE_SIZE)
"""The same for a device, up to where the greatest number of channels is full."""
DEVICE_RATIOS = np.exp(LN_DEVICE_RATIOS)
MIN_VARIANCE_SHARE = 0.25
"""The least variance of a utilisation at low loads, as a share of that at the median load."""
CLIENT_USE_PRIOR = (0.1, 0.4)
"""The use by others per query, as a share of the server's own demand: mean and deviation."""
MIN_FILLED_UTILISATION = CEILING[0] - CEILING[1]
"""A server that alone uses this much of a resource is at the limit, or past it."""
FULL_THROUGHPUT_ERRORS = (0.02, 0.08)
"""The deviations of ln of the throughputs then: a common error of all, and that of each."""


def find_resource_limits(
    x: Array,
    resources: Sequence[Resource],
    weights: Array | None = None,
    clients: ClientConnections | None = None,
    concurrency: Array | None = None,
) -> tuple[ResourceLimit, ...]:
    """Find the limit of each resource; x in queries/s, shape (intervals,), in the order of time.

    Weights say how many intervals each represents; concurrency is N in threads, of the same shape.
    NaN is left out. Without clients a full processor is assumed to serve as much as at its best
    number of threads.
    """
    if not resources:
        return ()
    known = (x > 0) & np.isfinite(x)
    x, w = x[known], np.ones_like(x[known]) if weights is None else weights[known]
    if len(x) == 0:
        return tuple(ResourceLimit.none(r.name, 0.0, LimitReason.FEW_POINTS) for r in resources)
    lost = np.zeros_like(x)
    if clients is not None and concurrency is not None:
        lost = clients.loss_beyond(concurrency[known])
    if not known.all():
        resources = [r.with_columns_changed(lambda column: column[known]) for r in resources]
    u, own, filled_by_others = _stack_relative_use(resources)
    full = np.array([r.full for r in resources]).T
    parts = _fit_utilisations(x, w, resources, u, own, full)
    seen, x_scale = _highest_utilisations(u), float(x.max())
    found = [
        _limit_without_extrapolation(resource, x, u[:, i], full[:, i], float(seen[i]), parts[i][0])
        for i, resource in enumerate(resources)
    ]
    rest = [i for i, limit in enumerate(found) if limit is None]
    fitted = fit_parts([parts[i] for i in rest])
    extrapolated = iter(_extrapolate([resources[i] for i in rest], fitted, seen[rest], x_scale))
    resource_limits = []
    for i, resource in enumerate(resources):
        resource_limit = _correct_limit(found[i] or next(extrapolated), resource, x, clients, lost)
        if filled_by_others[i] and not resource_limit.usable:
            reasons = (LimitReason.FILLED_BY_OTHERS, *resource_limit.reasons)
            resource_limit = replace(resource_limit, reasons=reasons)
        curve = UtilisationCurve(parts[i][0].fit.coefficients, x_scale)
        resource_limits.append(replace(resource_limit, curve=curve))
    return tuple(resource_limits)


def _correct_limit(
    limit: ResourceLimit,
    resource: Resource,
    x: Array,
    clients: ClientConnections | None,
    lost: Array,
) -> ResourceLimit:
    """Correct a limit for log writes, connections, full intervals, and an uncertain ceiling."""
    if limit.usable and LimitReason.ALREADY_FULL not in limit.reasons:
        limit = _with_unshared_log_writes(limit, further_fall(resource, x, limit.log_shared))
        if clients is not None:
            limit = _with_oversubscription(resource, limit, clients)
    if limit.usable and resource.own is not None and _is_limit_measurable(resource):
        filled = _is_filled_by_server(resource, x) & resource.may_be_full
        limit = _with_filled_intervals(limit, x[filled], lost[filled])
    if limit.usable and resource.ceiling_deviation > 0:
        limit = _with_uncertain_ceiling(resource, limit)
    return limit


def _fit_utilisations(
    x: Array,
    weights: Array,
    resources: Sequence[Resource],
    u: Array,
    own: Array,
    full: Mask,
) -> list[list[UtilisationPart]]:
    """Fit each utilisation where it follows the throughput, and the server's own part separately.

    Columns of u, own and full are those of the resources.
    """
    x_scale = float(x.max())
    t = x / x_scale
    # the variance of a utilisation grows with it, as that of a sum of demands does
    rough = np.maximum(t / median(t), MIN_VARIANCE_SHARE)
    follows = (~full) & np.isfinite(u)
    separate = np.flatnonzero(np.count_nonzero(follows & np.isfinite(own), axis=0) >= MIN_POINTS)
    columns = np.concatenate([u, own[:, separate], u[:, separate] - own[:, separate]], axis=1)
    used = np.concatenate([follows, *2 * [follows[:, separate]]], axis=1) & np.isfinite(columns)
    weights_used = np.where(used, (weights / rough)[:, None], 0.0)
    design = np.array([np.ones_like(t), t, t * t]).T
    fits = fit_columns(design, columns, weights_used, MIN_UTILISATION_NOISE)
    fitted = [
        UtilisationPart(t, *part) for part in zip(columns.T, weights_used.T, fits, strict=True)
    ]
    whole, own_and_others = fitted[: len(resources)], fitted[len(resources) :]
    own_parts, others_parts = own_and_others[: len(separate)], own_and_others[len(separate) :]
    parts = [[part] for part in whole]
    for i, own_part, others_part in zip(separate.tolist(), own_parts, others_parts, strict=True):
        parts[i] = _add_priors([whole[i], own_part, others_part], resources[i], x)
    return parts


def correct_refuted_limit(limit: ResourceLimit, x: float, used: float) -> ResourceLimit:
    """Move or drop a limit that is refuted by an observed throughput x (queries/s).

    Where the resource was nearly full meanwhile (used is a share of its ceiling), it ends the
    growth all the same, by the utilisation law at x/used: the estimate was off by that much
    (processors whose speed varies), and the new one may be as well. Otherwise there is no limit.
    """
    if limit.x_max is None or used < NEAR_SHARE or x > FAR_RATIO * limit.x_max:
        return ResourceLimit.none(limit.resource, limit.utilisation_max, LimitReason.NOT_A_LIMIT)
    middle, full_at = np.log(limit.x_max), float(np.log(x * max(CEILING[0] / used, 1.0)))
    upper = float(np.interp(QUANTILES[2], limit.cdf, limit.grid)) - middle
    wider = max(float(full_at - middle) / upper, 1.0) if upper > 0 else 1.0
    grid = full_at + wider * (limit.grid - middle)
    demand = float(np.exp(-full_at))
    moved = _limit_from_distribution(
        limit.resource, limit.utilisation_max, grid, limit.cdf, demand, limit.growth
    )
    names = ("demand", "demand_error", "waking", "curve", "log_shared")
    kept = {name: getattr(limit, name) for name in names}
    return replace(moved, reasons=(LimitReason.ALREADY_FULL, *moved.reasons), **kept)


def _stack_relative_use(resources: Sequence[Resource]) -> tuple[Array, Array, Mask]:
    """Stack utilisations, the server's own parts, and which were filled by others, as columns.

    The utilisations are shares of the ceiling; NaN where others filled a resource, which says
    nothing about the server.
    """
    u = np.array([r.relative_use for r in resources]).T
    unknown = np.full(len(u), np.nan)
    own = np.array([unknown if r.own is None else r.own / r.ceiling for r in resources]).T
    filled = np.array([r.filled_by_others for r in resources]).T
    filled_by_others = np.count_nonzero(filled, axis=0) >= MIN_POINTS
    return (
        np.where(filled, np.nan, u),
        np.where(filled, np.nan, np.minimum(own, u)),
        filled_by_others,
    )


def _add_priors(
    parts: Sequence[UtilisationPart], resource: Resource, x: Array
) -> list[UtilisationPart]:
    """Add the priors to the server's own part of a utilisation, and to that of others.

    x: throughputs, queries/s. Others may work for the server (clients on the same host, the
    kernel's network), and use somewhat less. Where other programs ran at the high loads, so that
    the line of others starts below 0 at no load, their use per query is that of the other
    intervals.
    """
    whole, own, others = parts
    x_scale = float(x.max())
    own = replace(own, base=OWN_BASE_PRIOR, shares=PROCESSOR_MODEL_PRIORS)
    wakeups, log = resource.wakeups, resource.log_sharing
    if wakeups is not None:
        counted = replace(wakeups, per_query=wakeups.per_query * x_scale / resource.ceiling)
        smooth = counted.smoothed(own.t, whole.u, own.weights)
        own = replace(own, shares=WAKEUP_MODEL_PRIORS, wakeups=smooth)
    elif (
        resource.short_query_concurrency is not None
        and resource.count is not None
        and own.slope > 0
    ):
        second = x_scale / (resource.count * resource.ceiling * own.slope)
        own = replace(own, shares=UNCOUNTED_WAKEUP_MODEL_PRIORS, wakeup_share_per_second=second)
    if log is not None:
        processors = (resource.count or 1.0) * resource.ceiling
        written = replace(log, per_query=log.per_query * x_scale / processors)
        # that more commits share the writes of the log is as likely as all other models together
        shared = written.smoothed(own.t, np.zeros_like(own.t), own.weights)
        own = replace(own, shares=(*own.shares, sum(own.shares)), log_sharing=shared)
    mean, deviation = CLIENT_USE_PRIOR[0] * own.slope, CLIENT_USE_PRIOR[1] * abs(own.slope)
    starts_below_zero = others.straight.coefficients[0] < 0
    if starts_below_zero and np.count_nonzero(resource.is_used_by_other_programs(x)) >= MIN_POINTS:
        mean = resource.use_by_others_per_query(x) * x_scale
        deviation = CLIENT_USE_PRIOR[1] * mean
    return [own, replace(others, fit=others.fit.given(1, mean, deviation))]


def _highest_utilisations(u: Array) -> Array:
    """Compute the utilisation that each column reached for a while: its 95 % quantile, or 0."""
    last = np.maximum(np.count_nonzero(np.isfinite(u), axis=0) - 1, 0)
    ordered = np.sort(u, axis=0)  # NaN come last
    seen: Array = np.nan_to_num(
        ordered[(SEEN_QUANTILE * last).astype(np.intp), np.arange(u.shape[1])]
    )
    return seen


def _limit_without_extrapolation(
    resource: Resource,
    x: Array,
    u: Array,
    full: Mask,
    seen: float,
    part: UtilisationPart,
) -> ResourceLimit | None:
    """Return the limit where it is measured, or there is none; None: it must be extrapolated."""
    name = resource.name
    known = np.isfinite(u)
    if np.count_nonzero(known) < MIN_POINTS:
        return ResourceLimit.none(name, seen, LimitReason.FEW_POINTS)
    if seen < MIN_UTILISATION:
        return ResourceLimit.none(name, seen, LimitReason.LITTLE_USED)
    if resource.is_fill_level and _is_filling(u[known]):
        return ResourceLimit.none(name, seen, LimitReason.STILL_FILLING)
    follows, full = known & ~full, known & full
    if np.count_nonzero(full) >= MIN_POINTS:
        low, middle, high = quantiles(x[full], QUANTILES)
        from_there = _throughput_when_full(resource, x, u, follows, low)
        # what a full processor serves varies as much with the mix, its speed and the threads
        if resource.count is None and high > FAR_RATIO * from_there:
            return ResourceLimit.none(name, seen, LimitReason.NOT_A_LIMIT)
        if np.count_nonzero(follows) < MIN_POINTS or np.max(u[follows]) < MIN_UTILISATION:
            if resource.is_busy_time:
                return ResourceLimit.none(name, seen, LimitReason.SEVERAL_AT_ONCE)
            return _measured_limit(name, seen, float(middle), float(high / low))
    if np.count_nonzero(follows) < MIN_POINTS:
        return ResourceLimit.none(name, seen, LimitReason.FEW_POINTS)
    # a fill level that drops now and then looks noisy in some of the intervals
    if not part.is_demand(CERTAIN_Z if resource.is_fill_level else SIGNIFICANT_Z):
        return ResourceLimit.none(name, seen, LimitReason.NO_DEMAND)
    return None


def _throughput_when_full(
    resource: Resource, x: Array, u: Array, follows: Mask, low: float
) -> float:
    """Estimate the throughput (queries/s) from which on a resource counts as full.

    low: the 5 % quantile of the throughputs with it full, which may have fallen far: past the peak
    threads waste what others need. Where it is nearly full shows that, but a query may cost much
    less of a processor once it is full: what waits shares its commits. A device that serves several
    requests at once is busy long before it is full.
    """
    filling = x[follows & (u > NEAR_SHARE)]
    if len(filling) < MIN_POINTS:
        return low
    return median(filling) if resource.is_busy_time else max(median(filling), low)


def _is_limit_measurable(resource: Resource) -> bool:
    """Return whether the throughput while the server fills the resource measures its limit."""
    is_excluded = resource.is_busy_time or resource.is_fill_level or resource.counts_waits
    return not is_excluded and resource.ceiling_deviation == 0


def _is_filled_by_server(resource: Resource, x: Array) -> Mask:
    """Mark where the server, alone or with clients on the same host, fills it; shape as x.

    Its own part must be known.
    """
    alone: Mask = resource.relative_own_use >= MIN_FILLED_UTILISATION
    return alone | (resource.use_for_server_queries(x) >= FULL_UTILISATION)


def _with_filled_intervals(limit: ResourceLimit, x: Array, lost: Array) -> ResourceLimit:
    """Update the limit by the throughputs x (queries/s) of intervals in which the server filled it.

    They no longer follow the load, so no curve is fitted to them: each is a measurement of the
    limit with an error of its own, and a common one, past the peak or on the way to it. lost is the
    loss of ln x where more statements ran than the clients usually have connections.
    """
    if len(x) < MIN_LASTING:
        return limit
    common, each = FULL_THROUGHPUT_ERRORS
    deviation = np.sqrt(common**2 + each**2 / len(x) + median(lost) ** 2)
    z = (limit.grid - median(np.log(x) + lost)) / deviation
    fitted = np.diff(limit.cdf, prepend=0.0)
    prior = (1 - FALSE_SIGN_PROBABILITY) * fitted + FALSE_SIGN_PROBABILITY / len(fitted)
    p = prior * np.exp(-0.5 * z**2)
    if p.sum() < NEGLIGIBLE:
        return limit
    measured = _with_distribution(limit, limit.grid, (np.cumsum(p) - p / 2) / p.sum())
    return replace(measured, further_fall=0.0)


def _with_unshared_log_writes(limit: ResourceLimit, fall: FurtherFall | None) -> ResourceLimit:
    """Raise the limit by what its demand may fall once commits share the writes of the log.

    A fall counts as far as it is more than the one that the models expect.
    """
    if fall is None or fall.mean < MIN_NOISE:
        return limit
    more = np.maximum(np.log1p(-limit.further_fall) - np.log1p(-fall.shares), 0.0)
    lower = np.interp(limit.grid - more[:, None], limit.grid, limit.cdf, left=0.0)
    cdf = (1 - fall.probabilities.sum()) * limit.cdf + fall.probabilities @ lower
    raised = _with_distribution(limit, limit.grid, cdf)
    further = float(fall.probabilities @ -np.expm1(-more))
    return replace(raised, further_fall=1 - (1 - limit.further_fall) * (1 - further))


def _with_oversubscription(
    resource: Resource, limit: ResourceLimit, clients: ClientConnections
) -> ResourceLimit:
    """Lower a processor's limit by the loss with statements in all of the clients' connections.

    As far as commits share the writes of a log nothing is lost: many are needed to fill it.
    """
    if limit.x_max is None or resource.count is None:
        return limit
    loss = clients.loss(resource.count, limit.x_max) * (1 - limit.log_shared)
    return _shifted(limit, -loss, loss) if loss > 0 else limit


def _with_uncertain_ceiling(resource: Resource, limit: ResourceLimit) -> ResourceLimit:
    """Widen the limit by how uncertain the ceiling is: ln limit shifts with ln ceiling."""
    wider = _shifted(limit, 0.0, resource.ceiling_deviation)
    error = np.hypot(limit.demand_error or 0.0, resource.ceiling_deviation * (limit.demand or 0.0))
    wider = replace(wider, demand_error=None if limit.demand_error is None else float(error))
    if not resource.is_ceiling_assumed:
        return wider
    reasons = [reason for reason in limit.reasons if reason not in wider.reasons]
    reasons = [*reasons, LimitReason.CEILING_ASSUMED, *wider.reasons]
    return replace(wider, trust=wider.trust.at_most(Trust.INDICATIVE), reasons=tuple(reasons))


def _shifted(limit: ResourceLimit, by: float, deviation: float) -> ResourceLimit:
    """Shift ln limit by a normally distributed amount with this mean and deviation."""
    step = float(limit.grid[1] - limit.grid[0])
    reach = int(np.ceil(TABLE_DEVIATIONS * deviation / step))
    ends = step * np.arange(1, reach + 1)
    grid = np.concatenate((limit.grid[0] - ends[::-1], limit.grid, limit.grid[-1] + ends))
    cdf = np.interp(grid, limit.grid, limit.cdf, left=0.0)
    weights = np.diff(cdf, prepend=0.0)  # what is above the grid stays there
    distances: Array = step * (np.arange(1 - len(grid), len(grid), dtype=np.float64) + 0.5)
    # the grid has even steps
    shifted = np.convolve(normal_cdf(distances / deviation), weights, "valid")
    return _with_distribution(limit, grid + by, shifted)


def _with_distribution(limit: ResourceLimit, grid: Array, cdf: Array) -> ResourceLimit:
    """Return the limit with another distribution; what is known of the demand stays."""
    kept = ("demand_error", "waking", "curve", "further_fall", "log_shared")
    known = {name: getattr(limit, name) for name in kept}
    demand = limit.demand or 0.0
    return _limit_from_distribution(
        limit.resource, limit.utilisation_max, grid, cdf, demand, limit.growth, **known
    )


def _is_filling(u: Array) -> bool:
    """Return whether a fill level rises from interval to interval, except when it is emptied.

    One in equilibrium, which drains faster the fuller it is, falls as often as it rises.
    """
    changes = np.diff(u)
    return bool(np.count_nonzero(changes > 0) > NEAR_SHARE * np.count_nonzero(changes))


def _extrapolate(
    resources: Sequence[Resource], fitted: Sequence[FittedParts], seen: Array, x_scale: float
) -> list[ResourceLimit]:
    """Extrapolate the utilisations to the ceiling, with demands that stay, grow or fall."""
    if not fitted:
        return []
    reach = [_straight_limit(each) for each in fitted]
    extrapolations = Extrapolations.of(fitted, reach)
    grid = LN_LIMIT_RATIOS + np.log(reach)[:, None]
    cdf = extrapolations.reached(reach, LIMIT_RATIOS)
    middles = [np.interp(QUANTILES[1], p, at) for p, at in zip(cdf, grid, strict=True)]
    falls = extrapolations.further_fall(np.exp(middles).tolist())
    growth, waking, log = (getattr(extrapolations, c) for c in ("growth", "waking", "log_shared"))
    limits = []
    for i, (resource, each) in enumerate(zip(resources, fitted, strict=True)):
        used, demand, error = float(seen[i]), each.slope / x_scale, each.slope_error / x_scale
        if resource.is_busy_time:
            channels = DeviceParallelism(each.parts[0], extrapolations.only(i))
            limit = _limit_of_channels(resource.name, used, channels, reach[i], demand, x_scale)
            limits.append(replace(limit, demand_error=error))
            continue
        limit = _limit_from_distribution(
            resource.name,
            used,
            grid[i] + np.log(x_scale),
            cdf[i],
            demand,
            growth[i],
            demand_error=error,
            further_fall=float(falls[i]),
            log_shared=float(log[i]),
            waking=float(waking[i]) if len(each.parts) > 1 else 0.0,
        )
        limits.append(limit)
    return limits


def _straight_limit(fitted: FittedParts) -> float:
    """Find the t at which the sum of the parts is full if its demand stays."""
    first, *others = fitted.parts
    lines = [first.straight, *(part.at_full_load for part in others)]
    base = sum(float(line.coefficients[0]) for line in lines)
    return max((CEILING[0] - base) / max(fitted.slope, NEGLIGIBLE), 0.5)


def _limit_of_channels(
    name: str, seen: float, channels: DeviceParallelism, reach: float, demand: float, x_scale: float
) -> ResourceLimit:
    """Compute the limit of a device, with as many channels as it may have."""
    grid = LN_DEVICE_RATIOS + np.log(reach * x_scale)
    cdf = channels.reached(reach, DEVICE_RATIOS)
    limit = _limit_from_distribution(name, seen, grid, cdf, demand, 0.0)
    if channels.shares[0] > MAJORITY:
        return limit
    return replace(limit, reasons=(LimitReason.SEVERAL_AT_ONCE, *limit.reasons))


def _limit_from_distribution(
    name: str,
    seen: float,
    grid: Array,
    cdf: Array,
    demand: float,
    growth: float,
    **known: Any,
) -> ResourceLimit:
    """Create a limit from its distribution; known are further fields.

    Where the distribution ends below one half, the limit is beyond it and not known.
    """
    low, middle, high = np.exp(np.interp(QUANTILES, cdf, grid, right=np.inf))
    if np.isinf(middle):
        return ResourceLimit.none(name, seen, LimitReason.WIDE_INTERVAL)
    interval = CredibleInterval(float(low), float(high))
    trust = trust_of(interval.ratio, doubted=interval.ratio >= TRUSTED_RATIO)
    reasons = (
        (LimitReason.DEMAND_GROWS, growth > MAJORITY),
        (LimitReason.WIDE_INTERVAL, trust is not Trust.TRUSTED),
    )
    return ResourceLimit(
        resource=name,
        x_max=float(middle),
        x_max_interval=interval,
        demand=demand,
        growth=float(growth),
        utilisation_max=seen,
        trust=trust,
        reasons=tuple(reason for reason, holds in reasons if holds),
        grid=grid,
        cdf=cdf,
        **known,
    )


def _measured_limit(name: str, seen: float, x: float, spread: float) -> ResourceLimit:
    """Create the limit from the throughput x of a resource that is nearly always full."""
    deviation = max(np.log(spread) / (2 * NORMAL_95), QUERY_VARIATION)
    grid = np.log(x) + np.linspace(-TABLE_DEVIATIONS, TABLE_DEVIATIONS, TABLE_SIZE) * deviation
    limit = _limit_from_distribution(
        name, seen, grid, normal_cdf((grid - np.log(x)) / deviation), 1 / x, 0.0
    )
    return replace(limit, reasons=(LimitReason.ALREADY_FULL, *limit.reasons))
