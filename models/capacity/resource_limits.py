"""The resource limits: at which throughput a resource is full.

Utilisation law U = X·D (P. Denning, J. Buzen, *The Operational Analysis of Queueing Network
Models*, 1978): utilisation grows with throughput, with the service demand D as its slope. It is
linear, so it sees the limit from far below. How the demand may change on the way:
`demand_extrapolation`. The limit is the throughput where the utilisation reaches the ceiling.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import hypot
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.capacity.cost_curve import MIN_UTILISATION
from models.capacity.demand_extrapolation import CEILING, Extrapolations
from models.capacity.device_parallelism import CHANNELS, DeviceParallelism
from models.capacity.distribution import TABLE_DEVIATIONS, TABLE_SIZE
from models.capacity.limit_types import (
    FULL_UTILISATION,
    LimitReason,
    Resource,
    ResourceLimit,
    UtilisationCurve,
)
from models.capacity.observations import MIN_PEAK_UTILISATION
from models.capacity.oversubscription_loss import Clients
from models.capacity.sample_sizes import (
    CERTAIN_Z,
    FALSE_SIGN_PROBABILITY,
    MAJORITY,
    MIN_LASTING,
    MIN_POINTS,
    QUERY_VARIATION,
    SEEN_QUANTILE,
    SIGNIFICANT_Z,
)
from models.capacity.utilisation_fit import (
    LOG_MODEL_PRIORS,
    MIN_UTILISATION_NOISE,
    OWN_BASE_PRIOR,
    PROCESSOR_MODEL_PRIORS,
    UNCOUNTED_WAKEUP_MODEL_PRIORS,
    WAKEUP_MODEL_PRIORS,
    FittedParts,
    Part,
    fit_parts,
)
from models.numerics import NEGLIGIBLE, QUANTILES, median, quantiles
from models.robust import NORMAL_95, fit_columns, normal_cdf
from models.trust import TRUSTED_RATIO, Trust, trust_of
from models.usl.law import Array
from models.usl.posterior import Interval

MAX_FULL_GROWTH = 1.5
"""A full resource holds the throughput; where it grows by more, being busy is not being full."""
MAX_FILLING_SHARE = 0.75
"""A stock that rises in more of the intervals is not in balance: how full it is, is its age."""
LIMIT_RANGE = (-2.5, 2.0)
"""ln X: from so far below where a straight line is full to so far above a limit is looked for."""
MIN_VARIANCE_SHARE = 0.25
"""Of the variance of a utilisation at the median load: those at lower loads have no less."""
CLIENT_USE_PRIOR = (0.1, 0.4)
"""What others use for each of the server's queries, in its own demand: mean and deviation."""
AT_CEILING = CEILING[0] - CEILING[1]
"""With so much used by the server alone it is at the limit, or past it."""
FULL_THROUGHPUT_ERRORS = (0.02, 0.08)
"""How far off ln of the throughputs then is, deviations: of all of them, and of each."""


def find_resource_limits(
    x: Array,
    resources: Sequence[Resource],
    weights: Array | None = None,
    clients: Clients | None = None,
    concurrency: Array | None = None,
) -> tuple[ResourceLimit, ...]:
    """Find where each resource ends; x in queries/s, shape (intervals,), in the order of time.

    Weights say how many intervals each stands for; concurrency is N in threads, of the same shape.
    What is NaN is left out. Without clients a full processor is taken to serve as much as at its
    best number of threads.
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
        resources = [r.mapped(lambda column: column[known]) for r in resources]
    u, own, by_others = _of_the_ceiling(resources)
    full = np.stack([r.full for r in resources], axis=1)
    fitted = _fit_utilisations(x, w, resources, u, own, full)
    seen, x_scale = _highest_utilisations(u), float(x.max())
    found = [
        _limit_without_fit(resource, x, u[:, i], full[:, i], float(seen[i]), fitted[i].parts[0])
        for i, resource in enumerate(resources)
    ]
    farther = [i for i, limit in enumerate(found) if limit is None]
    extrapolated = iter(
        _extrapolate(
            [resources[i] for i in farther], [fitted[i] for i in farther], seen[farther], x_scale
        )
    )
    resource_limits = []
    for i, resource in enumerate(resources):
        resource_limit = _corrected(found[i] or next(extrapolated), resource, x, clients, lost)
        if by_others[i] and not resource_limit.usable:
            reasons = (LimitReason.FILLED_BY_OTHERS, *resource_limit.reasons)
            resource_limit = replace(resource_limit, reasons=reasons)
        curve = UtilisationCurve(fitted[i].parts[0].fit.coefficients, x_scale)
        resource_limits.append(replace(resource_limit, curve=curve))
    return tuple(resource_limits)


def _corrected(
    limit: ResourceLimit, resource: Resource, x: Array, clients: Clients | None, lost: Array
) -> ResourceLimit:
    """Correct a limit for the clients' connections, full intervals, and an uncertain ceiling."""
    if clients is not None and LimitReason.ALREADY_FULL not in limit.reasons:
        limit = _with_oversubscription(resource, limit, clients)
    if limit.usable and _ends_growth(resource):
        filled = _is_filled(resource, x) & resource.may_be_full
        limit = _with_filled(limit, x[filled], lost[filled])
    if limit.usable and resource.ceiling_deviation > 0:
        limit = _with_uncertain_ceiling(resource, limit)
    return limit


def _fit_utilisations(
    x: Array,
    weights: Array,
    resources: Sequence[Resource],
    u: Array,
    own: Array,
    full: NDArray[np.bool_],
) -> list[FittedParts]:
    """Fit each utilisation over the throughput where it follows it; the server's own part apart.

    Columns of u, own and full are the resources'.
    """
    x_scale = float(x.max())
    t = x / x_scale
    # the variance of a utilisation grows with it, as that of a sum of demands does
    rough = np.maximum(t / median(t), MIN_VARIANCE_SHARE)
    follows = (~full) & np.isfinite(u)
    apart = np.flatnonzero(np.count_nonzero(follows & np.isfinite(own), axis=0) >= MIN_POINTS)
    columns = np.concatenate([u, own[:, apart], u[:, apart] - own[:, apart]], axis=1)
    used = np.concatenate([follows, *2 * [follows[:, apart]]], axis=1) & np.isfinite(columns)
    weighed = np.where(used, (weights / rough)[:, None], 0.0)
    design = np.stack([np.ones_like(t), t, t * t], axis=1)
    fits = fit_columns(design, columns, weighed, MIN_UTILISATION_NOISE)
    every = [Part(t, *part) for part in zip(columns.T, weighed.T, fits, strict=True)]
    parts = [[whole] for whole in every[: len(resources)]]
    for place, i in enumerate(apart.tolist(), start=len(resources)):
        parts[i] = _own_and_others([*parts[i], *every[place :: len(apart)][:2]], resources[i], x)
    return fit_parts(parts)


def if_passed(limit: ResourceLimit, x: float, used: float) -> ResourceLimit:
    """Take the limit for none, for a throughput x (queries/s) was held that it hardly allows.

    Where the resource was nearly full meanwhile, used as a share of its ceiling, it ends the growth
    all the same, and by the utilisation law at x/used: the estimate was off by as much (processors
    whose speed varies), and so may the new one be.
    """
    if limit.x_max is None or used < MIN_PEAK_UTILISATION or x > MAX_FULL_GROWTH * limit.x_max:
        return ResourceLimit.none(limit.resource, limit.utilisation_max, LimitReason.NOT_A_LIMIT)
    middle, full_at = np.log(limit.x_max), float(np.log(x * max(CEILING[0] / used, 1.0)))
    upper = float(np.interp(QUANTILES[2], limit.cdf, limit.grid)) - middle
    wider = max(float(full_at - middle) / upper, 1.0)
    grid = full_at + wider * (limit.grid - middle)
    demand = float(np.exp(-full_at))
    moved = _describe(limit.resource, limit.utilisation_max, grid, limit.cdf, demand, limit.growth)
    kept = {name: getattr(limit, name) for name in ("demand", "demand_error", "waking", "curve")}
    return replace(moved, reasons=(LimitReason.ALREADY_FULL, *moved.reasons), **kept)


def _of_the_ceiling(resources: Sequence[Resource]) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Stack utilisations, their own parts, and which were filled by others, as columns.

    What others have filled says nothing about the server: not known.
    """
    u = np.stack([r.relative_use for r in resources], axis=1)
    nothing = np.full(len(u), np.nan)
    own = np.stack([nothing if r.own is None else r.own / r.ceiling for r in resources], axis=1)
    filled = np.stack([r.filled_by_others for r in resources], axis=1)
    by_others = np.count_nonzero(filled, axis=0) >= MIN_POINTS
    return np.where(filled, np.nan, u), np.where(filled, np.nan, np.minimum(own, u)), by_others


def _own_and_others(parts: Sequence[Part], resource: Resource, x: Array) -> list[Part]:
    """Describe what the server uses and what others use of it, beside throughputs x (queries/s).

    Others may work for it (clients on the same host, the kernel's network): somewhat less. Where
    other programs came with the high loads, as nothing but a use below 0 at no load could explain,
    what others use for each query is that of the other intervals.
    """
    whole, own, others = parts
    x_scale = float(x.max())
    own = replace(own, base=OWN_BASE_PRIOR, shares=PROCESSOR_MODEL_PRIORS)
    idleness, log = resource.idleness, resource.log_sharing
    if idleness is not None:
        idle = replace(idleness, per_query=idleness.per_query * x_scale)
        smooth = idle.smoothed(own.t, whole.u, own.weights)
        own = replace(own, shares=WAKEUP_MODEL_PRIORS, idleness=smooth)
    elif (
        resource.short_query_concurrency is not None
        and resource.count is not None
        and own.slope > 0
    ):
        second = x_scale / (resource.count * own.slope)
        own = replace(own, shares=UNCOUNTED_WAKEUP_MODEL_PRIORS, wakes_unseen=second)
    if log is not None:
        written = replace(log, per_query=log.per_query * x_scale)
        shared = written.smoothed(own.t, np.zeros_like(own.t), own.weights)
        own = replace(own, shares=(*own.shares, *LOG_MODEL_PRIORS), log_sharing=shared)
    mean, deviation = CLIENT_USE_PRIOR[0] * own.slope, CLIENT_USE_PRIOR[1] * abs(own.slope)
    below = others.straight.coefficients[0] < 0
    if below and np.count_nonzero(resource.used_by_other_programs(x)) >= MIN_POINTS:
        mean = resource.use_by_others_per_query(x) * x_scale
        deviation = CLIENT_USE_PRIOR[1] * mean
    return [own, replace(others, fit=others.fit.given(1, mean, deviation))]


def _highest_utilisations(u: Array) -> Array:
    """Find the utilisation that each column reached for a while: its 95 % quantile, or 0."""
    last = np.maximum(np.count_nonzero(np.isfinite(u), axis=0) - 1, 0)
    ordered = np.sort(u, axis=0)  # NaN come last
    seen: Array = np.nan_to_num(
        ordered[(SEEN_QUANTILE * last).astype(np.intp), np.arange(u.shape[1])]
    )
    return seen


def _limit_without_fit(
    resource: Resource,
    x: Array,
    u: Array,
    full: NDArray[np.bool_],
    seen: float,
    part: Part,
) -> ResourceLimit | None:
    """Measure the limit where the resource is always full; None: the demand leads to it."""
    name = resource.name
    known = np.isfinite(u)
    if np.count_nonzero(known) < MIN_POINTS:
        return ResourceLimit.none(name, seen, LimitReason.FEW_POINTS)
    if seen < MIN_UTILISATION:
        return ResourceLimit.none(name, seen, LimitReason.LITTLE_USED)
    if resource.is_stock and _is_filling(u[known]):
        return ResourceLimit.none(name, seen, LimitReason.STILL_FILLING)
    follows, full = known & ~full, known & full
    if np.count_nonzero(full) >= MIN_POINTS:
        low, middle, high = quantiles(x[full], QUANTILES)
        # it may be far lower once it is full: past the peak threads burn what others would need
        filling = x[follows & (u > MIN_PEAK_UTILISATION)]
        began = median(filling) if len(filling) >= MIN_POINTS else low
        if high > MAX_FULL_GROWTH * began:
            return ResourceLimit.none(name, seen, LimitReason.NOT_A_LIMIT)
        if np.count_nonzero(follows) < MIN_POINTS or np.max(u[follows]) < MIN_UTILISATION:
            if resource.is_busy_time:
                return ResourceLimit.none(name, seen, LimitReason.SEVERAL_AT_ONCE)
            return _measured(name, seen, float(middle), float(high / low))
    if np.count_nonzero(follows) < MIN_POINTS:
        return ResourceLimit.none(name, seen, LimitReason.FEW_POINTS)
    # of a stock that is emptied now and then some of the intervals look like noise
    if not part.is_demand(CERTAIN_Z if resource.is_stock else SIGNIFICANT_Z):
        return ResourceLimit.none(name, seen, LimitReason.NO_DEMAND)
    return None


def _ends_growth(resource: Resource) -> bool:
    """Whether what is served while the server fills the resource is what the resource allows."""
    apart = resource.is_busy_time or resource.is_stock or resource.counts_waits
    return not apart and resource.ceiling_deviation == 0


def _is_filled(resource: Resource, x: Array) -> NDArray[np.bool_]:
    """Mark where the server fills it, alone or with its clients on the same host; shape as x."""
    if resource.own is None:
        return np.zeros(len(x), dtype=np.bool_)
    alone: NDArray[np.bool_] = resource.relative_own_use >= AT_CEILING
    return alone | (resource.used_for_server(x) >= FULL_UTILISATION)


def _with_filled(limit: ResourceLimit, x: Array, lost: Array) -> ResourceLimit:
    """Weigh the limit by the throughputs x (queries/s) of intervals in which the server filled it.

    They follow the load no longer, so no curve is fitted to them: each is a measurement of the
    limit, somewhat off, and all of them may be off alike, past the peak or on their way to it.
    More statements than the clients usually have connections may have lost so much of ln x.
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
    measured = _with_distribution(limit, limit.grid, np.cumsum(p) / p.sum())
    return replace(measured, further_fall=0.0)


def _with_oversubscription(
    resource: Resource, limit: ResourceLimit, clients: Clients
) -> ResourceLimit:
    """Lower a processor's limit by what it loses with all of the clients' connections at once.

    As far as commits share the writes of a log it takes many of them to fill it.
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
    """Shift ln limit by something normal with this mean and deviation."""
    step = float(limit.grid[1] - limit.grid[0])
    reach = int(np.ceil(TABLE_DEVIATIONS * deviation / step))
    ends = step * np.arange(1, reach + 1)
    grid = np.concatenate((limit.grid[0] - ends[::-1], limit.grid, limit.grid[-1] + ends))
    cdf = np.interp(grid, limit.grid, limit.cdf, left=0.0)
    weights = np.diff(cdf, prepend=0.0)  # what is above all that was looked at stays there
    apart: Array = step * (np.arange(1 - len(grid), len(grid), dtype=np.float64) + 0.5)
    shifted = np.convolve(normal_cdf(apart / deviation), weights, "valid")  # places are even steps
    return _with_distribution(limit, grid + by, shifted)


def _with_distribution(limit: ResourceLimit, grid: Array, cdf: Array) -> ResourceLimit:
    """Give a limit another distribution; what is known of the demand stays."""
    kept = ("demand_error", "waking", "curve", "further_fall", "log_shared")
    known = {name: getattr(limit, name) for name in kept}
    demand = limit.demand or 0.0
    return _describe(
        limit.resource, limit.utilisation_max, grid, cdf, demand, limit.growth, **known
    )


def _is_filling(u: Array) -> bool:
    """Whether a stock grows from interval to interval, but for the moments when it is emptied.

    One in balance, that lets out the more the fuller it is, falls as often as it rises.
    """
    changes = np.diff(u)
    return bool(np.count_nonzero(changes > 0) > MAX_FILLING_SHARE * np.count_nonzero(changes))


def _extrapolate(
    resources: Sequence[Resource], fitted: Sequence[FittedParts], seen: Array, x_scale: float
) -> list[ResourceLimit]:
    """Follow the utilisations up to the ceiling, whatever their demands do on the way."""
    if not resources:
        return []
    reach = [_straight_limit(each.parts) for each in fitted]
    extrapolations = Extrapolations.of(fitted, reach)
    grid = np.linspace(*LIMIT_RANGE, TABLE_SIZE) + np.log(reach)[:, None]
    cdf = extrapolations.reached(np.exp(grid))
    falls = extrapolations.further_fall(reach)
    growth, waking, log = (getattr(extrapolations, c) for c in ("growth", "waking", "log_shared"))
    limits = []
    for i, (resource, each) in enumerate(zip(resources, fitted, strict=True)):
        slope = sum(part.slope for part in each.parts) / x_scale
        error = hypot(*(part.slope_error for part in each.parts)) / x_scale
        if resource.is_busy_time:
            channels = DeviceParallelism(each.parts[0], extrapolations.only(i))
            limit = _of_channels(resource.name, float(seen[i]), channels, reach[i], slope, x_scale)
            limit = replace(limit, demand_error=error)
        else:
            ln_x = grid[i] + np.log(x_scale)
            limit = _describe(
                resource.name,
                float(seen[i]),
                ln_x,
                cdf[i],
                slope,
                growth[i],
                demand_error=error,
                further_fall=float(falls[i]),
                log_shared=float(log[i]),
                waking=float(waking[i]) if len(each.parts) > 1 else 0.0,
            )
        limits.append(limit)
    return limits


def _straight_limit(parts: Sequence[Part]) -> float:
    """Find the t at which the sum of the parts is full if its demand stays."""
    first, *others = parts
    lines = [first.straight, *(part.at_full_load for part in others)]
    base = sum(float(line.coefficients[0]) for line in lines)
    slope = sum(part.slope for part in parts)
    return max((CEILING[0] - base) / max(slope, NEGLIGIBLE), 0.5)


def _of_channels(
    name: str, seen: float, channels: DeviceParallelism, reach: float, demand: float, x_scale: float
) -> ResourceLimit:
    """Look for the limit up to where as many channels as are possible are full."""
    grid = np.linspace(
        LIMIT_RANGE[0], LIMIT_RANGE[1] + np.log(CHANNELS[-1]), 2 * TABLE_SIZE
    ) + np.log(reach)
    cdf = channels.reached(np.exp(grid))
    limit = _describe(name, seen, grid + np.log(x_scale), cdf, demand, 0.0)
    if channels.shares[0] > MAJORITY:
        return limit
    return replace(limit, reasons=(LimitReason.SEVERAL_AT_ONCE, *limit.reasons))


def _describe(
    name: str,
    seen: float,
    grid: Array,
    cdf: Array,
    demand: float,
    growth: float,
    **known: Any,
) -> ResourceLimit:
    """Summarise the distribution of a limit; what else is known of it goes with it."""
    low, middle, high = np.exp(np.interp(QUANTILES, cdf, grid))
    interval = Interval(float(low), float(high))
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


def _measured(name: str, seen: float, x: float, spread: float) -> ResourceLimit:
    """Take the limit from the throughput of a resource that is full nearly always."""
    deviation = max(np.log(spread) / (2 * NORMAL_95), QUERY_VARIATION)
    grid = np.log(x) + np.linspace(-TABLE_DEVIATIONS, TABLE_DEVIATIONS, TABLE_SIZE) * deviation
    resource_limit = _describe(
        name, seen, grid, normal_cdf((grid - np.log(x)) / deviation), 1 / x, 0.0
    )
    return ResourceLimit(
        **{**vars(resource_limit), "reasons": (LimitReason.ALREADY_FULL, *resource_limit.reasons)}
    )
