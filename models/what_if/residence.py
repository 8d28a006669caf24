"""The residence time of a query after changes: time on resources, queues there, and the rest.

Today's residence time R is measured. The time that a query takes on each resource is known, and the
queue there follows from its utilisation; the remainder, which no resource explains, grows with
contention by the law: R ~ 1 + σ(N−1) + κN(N−1) (`models.usl.law`, equation 1).

The queue of c processors with service time S and utilisation U: S/c · U^(√(2(c+1))−1)/(1−U)
(H. Sakasegawa, Annals of the Institute of Statistical Mathematics 29, 1977), for random arrivals.
"""

from dataclasses import replace
from math import sqrt

import numpy as np

from models.arrays import Array
from models.numerics import TINY
from models.shared_constants import MIN_NOISE
from models.trust import MAX_ERROR
from models.usl.law import Usl
from models.what_if.changes import Changes
from models.what_if.current_state import CurrentLoad, CurrentState, LimitKind, ResourceUse
from models.what_if.effects import lambda_factor, time_factor, workload_factor
from models.what_if.uncertainty_draws import Draws

MAX_UTILISATION = 1 - MIN_NOISE
"""The greatest utilisation of a resource that counts until a change fills it; likewise the greatest
share of the law's Xmax."""


def residence_times(
    today: CurrentState,
    load: CurrentLoad,
    changes: Changes,
    draws: Draws,
    grown: Array | float = 1.0,
) -> Array:
    """Compute R in seconds, shape (draws,); infinite where a resource would be more than full.

    The load is that of `changes`, times `grown`: one number, or one for each draw. Without either
    R is exactly today's.

    Queues are anything from none to those of random arrivals, and at most slightly longer than what
    the service times leave of R, since clients that wait for each other cause shorter queues. The
    excess allowed is the relative error of a measured concurrency: at a low load a queue may be no
    longer than that, and its growth was not seen.
    """
    today_r = load.residence_time
    served, queued = _sum_over_resources(today, load, Changes(), draws, 1.0)
    served_then, queued_then = _sum_over_resources(today, load, changes, draws, grown)
    shrink = np.minimum(1.0, today_r / np.maximum(served, TINY))
    room = today_r - shrink * served
    longest = room + MAX_ERROR * today_r
    part = draws.queueing * np.minimum(1.0, longest / np.maximum(shrink * queued, TINY))
    rest = np.maximum(room - part * shrink * queued, 0.0)
    rest_factor = workload_factor(changes, draws, today.time_shares)
    rest_factor = rest_factor * _contention_factor(today, load, changes, draws, grown)
    is_finite = np.isfinite(queued_then)
    added_queue = np.where(is_finite, queued_then, queued) - queued
    times = (
        today_r + shrink * (served_then - served + part * added_queue) + rest * (rest_factor - 1)
    )
    result: Array = np.where(is_finite, np.maximum(times, shrink * served_then), np.inf)
    return result


def _sum_over_resources(
    today: CurrentState, load: CurrentLoad, changes: Changes, draws: Draws, grown: Array | float
) -> tuple[Array, Array]:
    """Sum the service times and the queues of random arrivals over the resources, s."""
    nothing = np.zeros_like(draws.share_normal)
    each = [
        _times_at_load(use, _own_utilisation(today, use, load, draws), changes, draws, grown)
        for use in today.uses
    ]
    return sum((service for service, _ in each), nothing), sum((q for _, q in each), nothing)


def unexplained_part(today: CurrentState, load: CurrentLoad) -> float:
    """Compute the share of R that neither resources nor queues of random arrivals explain."""
    taken = 0.0
    for use in today.uses:
        queue = _queueing_time(
            np.array([use.seconds]), min(use.utilisation, MAX_UTILISATION), use.channels
        )
        taken += use.seconds + float(queue[0])
    return max(1 - taken / load.residence_time, 0.0)


def _service_time(use: ResourceUse, seconds: Array | float, draws: Draws) -> Array:
    """Compute the time on a resource without a queue."""
    waited = 1.0 if use.is_waited_for else draws.waited_share
    return seconds * waited * np.ones_like(draws.share_normal)


def _queueing_time(service: Array, busy: Array | float, channels: float) -> Array:
    """Compute the queueing time of random arrivals, s; infinite at a full resource."""
    exponent = sqrt(2 * (channels + 1)) - 1
    free = 1 - np.minimum(busy, MAX_UTILISATION)
    queue = service / channels * np.asarray(busy) ** exponent / free
    found: Array = np.where(np.asarray(busy) < 1, queue, np.inf)
    return found


def _utilisation_by_others(use: ResourceUse) -> float:
    """Return today's utilisation by others than this server."""
    return max(min(use.utilisation, MAX_UTILISATION) - use.own_utilisation, 0.0)


def _own_utilisation(
    today: CurrentState, use: ResourceUse, load: CurrentLoad, draws: Draws
) -> Array:
    """Compute the server's part of today's utilisation: what others leave, times X over the limit.

    The utilisation of the latest interval is one of many on which the limit is based, and alone
    suggests too much certainty about where the resource is full. It is used where the resource has
    no limit. The measured queue is finite, so today's total is below 1.
    """
    others = _utilisation_by_others(use)
    limit = today.limit_index(use.name)
    if limit is None:
        return np.full_like(draws.share_normal, min(use.own_utilisation, MAX_UTILISATION - others))
    own: Array = np.minimum(
        (1 - others) * load.throughput / draws.limits[limit], MAX_UTILISATION - others
    )
    return own


def _times_at_load(
    use: ResourceUse, own: Array, changes: Changes, draws: Draws, grown: Array | float
) -> tuple[Array, Array]:
    """Compute service and queueing time after changes; others' work becomes faster too."""
    factor = time_factor(use.kind, changes, draws, use.shares)
    faster = time_factor(use.kind, replace(changes, queries={}), draws, {})
    more = changes.cores if use.kind is LimitKind.CPU else 1.0
    others = _utilisation_by_others(use) * faster / more
    busy = others + own * factor * changes.load * grown / (changes.servers * more)
    service = _service_time(use, use.seconds * factor, draws)
    return service, _queueing_time(service, busy, use.channels * more)


def _contention_factor(
    today: CurrentState, load: CurrentLoad, changes: Changes, draws: Draws, grown: Array | float
) -> Array:
    """Compute the factor by which time grows with contention, by the law with a drawn peak."""
    law = today.law
    if law is None or law.x_max is None:
        return np.ones_like(draws.share_normal)
    faster = lambda_factor(today, changes, draws)
    now = np.full_like(draws.share_normal, load.throughput)
    peak = today.limit(LimitKind.CONTENTION)
    place = None if peak is None else today.limit_index(peak.name)
    if place is not None:
        now = now * law.x_max / draws.limits[place]
    x = now * changes.load * grown / changes.servers / faster
    return _law_factor(law, x) / _law_factor(law, now)


def _law_factor(law: Usl, x: Array) -> Array:
    """Compute 1 + σ(N−1) + κN(N−1) at each throughput of the present hardware."""
    at = np.minimum(x, MAX_UTILISATION * (law.x_max or np.inf))
    n = np.maximum(law.concurrency_at_throughput(at), 1.0)
    factor: Array = 1 + law.contention_cost(n) + law.coherency_cost(n)
    return factor
