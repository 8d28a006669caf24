"""The residence time of a query after changes: time on resources, queues there, and the rest.

Today's residence time R is measured. What a query takes of each resource is known, and the queue
there follows from how busy it is; the remainder is what no resource explains, which grows with
contention as the law says: R ~ 1 + σ(N−1) + κN(N−1) (`models.usl`, equation 1).

The queue of c processors that are busy for the part U of the time: S/c · U^(√(2(c+1))−1)/(1−U)
(H. Sakasegawa, Annals of the Institute of Statistical Mathematics 29, 1977), for random arrivals.
"""

from dataclasses import replace
from math import sqrt

import numpy as np

from models.usl import Array, Usl
from models.what_if.changes import Changes
from models.what_if.draws import Draws
from models.what_if.effects import lambda_factor, time_factor, workload_factor
from models.what_if.today import Kind, Load, Today, Use

NEAR_PEAK = 0.98
"""The law's concurrency is taken up to this part of its peak."""
FULL = 0.995
"""A resource counts as no busier than this, until a change fills it."""


def residence_times(today: Today, load: Load, changes: Changes, draws: Draws) -> Array:
    """Compute R in seconds, shape (draws,); infinite where a resource would be more than full."""
    now = [_time(use, use.seconds, _busy(use), use.channels, draws) for use in today.uses]
    spent = sum(now, np.zeros_like(draws.normal))
    shrink = np.minimum(1.0, load.residence_time / np.maximum(spent, 1e-300))
    rest = load.residence_time - shrink * spent
    then = [_changed(use, changes, draws) for use in today.uses]
    rest = rest * workload_factor(changes, draws, today.time_shares)
    rest = rest * _contention(today, load, changes, draws)
    difference = sum(
        (after - before for after, before in zip(then, now, strict=True)),
        np.zeros_like(draws.normal),
    )
    unexplained = rest - (load.residence_time - shrink * spent)
    times: Array = load.residence_time + shrink * difference + unexplained
    return times


def _time(
    use: Use, seconds: Array | float, busy: Array | float, channels: float, draws: Draws
) -> Array:
    """Compute the time on a resource with its queue."""
    free = 1 - np.minimum(busy, FULL)
    exponent = sqrt(2 * (channels + 1)) - 1
    queue = draws.queueing / channels * np.asarray(busy) ** exponent / free
    waited = 1.0 if use.is_waited_for else draws.waited_for
    found: Array = np.where(np.asarray(busy) < 1, seconds * waited * (1 + queue), np.inf)
    return found


def _busy(use: Use) -> float:
    """Today's utilisation: a queue that was measured has an end."""
    return min(use.utilisation, FULL)


def _changed(use: Use, changes: Changes, draws: Draws) -> Array:
    """Compute the same after the changes; what others use of it becomes faster too."""
    factor = time_factor(use.kind, changes, draws, use.shares)
    faster = time_factor(use.kind, replace(changes, queries={}), draws, {})
    more = changes.cores if use.kind is Kind.CPU else 1.0
    own = min(use.own, _busy(use))
    others = (_busy(use) - own) * faster / more
    busy = others + own * factor * changes.load / (changes.servers * more)
    return _time(use, use.seconds * factor, busy, use.channels * more, draws)


def _contention(today: Today, load: Load, changes: Changes, draws: Draws) -> Array:
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
