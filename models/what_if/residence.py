"""The residence time of a query after changes: time on resources, queues there, and the rest.

Today's residence time R is measured. What a query takes of each resource is known, and the queue
there follows from how busy it is; the remainder is what no resource explains, which grows with
contention as the law says: R ~ 1 + σ(N−1) + κN(N−1) (`models.usl.law`, equation 1).

The queue of c processors that are busy for the part U of the time: S/c · U^(√(2(c+1))−1)/(1−U)
(H. Sakasegawa, Annals of the Institute of Statistical Mathematics 29, 1977), for random arrivals.
"""

from dataclasses import replace
from math import sqrt

import numpy as np

from models.usl.law import Array, Usl
from models.what_if.changes import Changes
from models.what_if.current_state import CurrentState, Kind, Load, Use
from models.what_if.effects import lambda_factor, time_factor, workload_factor
from models.what_if.posterior_draws import Draws

NEAR_PEAK = 0.98
"""The law's concurrency is taken up to this part of its peak."""
FULL = 0.995
"""A resource counts as no busier than this, until a change fills it."""


def residence_times(today: CurrentState, load: Load, changes: Changes, draws: Draws) -> Array:
    """Compute R in seconds, shape (draws,); infinite where a resource would be more than full.

    Queues are anything from none to those of random arrivals, and no longer than what R leaves
    beside the service times: clients that wait for each other make shorter ones.
    """
    nothing = np.zeros_like(draws.normal)
    now = [_service(use, use.seconds, draws) for use in today.uses]
    served = sum(now, nothing)
    shrink = np.minimum(1.0, load.residence_time / np.maximum(served, 1e-300))
    queues = [
        _queue(service, _busy(use), use.channels)
        for use, service in zip(today.uses, now, strict=True)
    ]
    room = load.residence_time - shrink * served
    queued = shrink * sum(queues, nothing)
    part = draws.queueing * np.minimum(1.0, room / np.maximum(queued, 1e-300))
    rest = room - part * queued
    grown = workload_factor(changes, draws, today.time_shares)
    grown = grown * _contention(today, load, changes, draws)
    then = [_changed(use, changes, draws) for use in today.uses]
    longer = sum((after - before for (after, _), before in zip(then, now, strict=True)), nothing)
    waits = sum((after - before for (_, after), before in zip(then, queues, strict=True)), nothing)
    finite = np.where(np.isfinite(waits), waits, 0.0)
    times = load.residence_time + shrink * (longer + part * finite) + rest * (grown - 1)
    ended: Array = np.where(np.isfinite(waits), times, np.inf)
    return ended


def _service(use: Use, seconds: Array | float, draws: Draws) -> Array:
    """Compute the time on a resource without a queue."""
    waited = 1.0 if use.is_waited_for else draws.waited_for
    return seconds * waited * np.ones_like(draws.normal)


def _queue(service: Array, busy: Array | float, channels: float) -> Array:
    """Compute the queue of random arrivals; infinite at a resource that is more than full."""
    exponent = sqrt(2 * (channels + 1)) - 1
    free = 1 - np.minimum(busy, FULL)
    queue = service / channels * np.asarray(busy) ** exponent / free
    found: Array = np.where(np.asarray(busy) < 1, queue, np.inf)
    return found


def _busy(use: Use) -> float:
    """Today's utilisation: a queue that was measured has an end."""
    return min(use.utilisation, FULL)


def _changed(use: Use, changes: Changes, draws: Draws) -> tuple[Array, Array]:
    """Compute service and queue after changes; what others use of it becomes faster too."""
    factor = time_factor(use.kind, changes, draws, use.shares)
    faster = time_factor(use.kind, replace(changes, queries={}), draws, {})
    more = changes.cores if use.kind is Kind.CPU else 1.0
    own = min(use.own, _busy(use))
    others = (_busy(use) - own) * faster / more
    busy = others + own * factor * changes.load / (changes.servers * more)
    service = _service(use, use.seconds * factor, draws)
    return service, _queue(service, busy, use.channels * more)


def _contention(today: CurrentState, load: Load, changes: Changes, draws: Draws) -> Array:
    """Compute how many times as long queries hold each other up, by the law."""
    law = today.law
    if law is None or law.x_max is None:
        return np.ones_like(draws.normal)
    faster = lambda_factor(today, changes, draws)
    x = load.throughput * changes.load / changes.servers / faster
    return _held_up(law, x) / _held_up(law, np.full_like(x, load.throughput))


def _held_up(law: Usl, x: Array) -> Array:
    """Compute 1 + σ(N−1) + κN(N−1) at each throughput of the present hardware."""
    at = np.minimum(x, NEAR_PEAK * (law.x_max or np.inf))
    n = np.maximum(law.concurrency_at_throughput(at), 1.0)
    factor: Array = 1 + law.contention_cost(n) + law.coherency_cost(n)
    return factor
