"""The effect of changes on the time that a query takes on each resource, and so on each limit.

The equations are those of M. Taufer, T. Stricker, R. Weber, "Scalability and Resource Usage of an
OLAP Benchmark on Clusters of PCs", SPAA 2002, Table 1 (section 3.3), as ratios:

    CPU       CPI · IC · t_clock_cycle                  /  cpu_speed                          (1)
    disk      t_seq = 2 · blk · seq / disk_rate         /  disk_rate                          (2)
              t_no_seq = no_seq · t_avg_stride          ·  disk_latency                       (3)
    network   (size_rec + size_trans) / (rates)         /  network                            (4)

What no resource explains (section 4.1: time "not allocated") stays as it is. The law's λ is the
inverse of the time that a query takes alone, the sum of all these; σ and κ stay.
"""

from dataclasses import replace

import numpy as np

from models.arrays import Array
from models.attribution.capacity_gain import MIN_LEFT
from models.numerics import ROUNDING
from models.what_if.changes import Changes
from models.what_if.current_state import CurrentState, LimitKind, SharesByClass
from models.what_if.uncertainty_draws import Draws, draw_share

INTERFERENCE_DEVIATION = 0.12
"""Deviation of the additional cost that a class causes for others' calls, relative to its share:
classes evict each other's data from the processor's caches. Measured: 0.1 and 0.13 for a class that
scans, about 0 for others (`bench/class_removal.py`)."""


def time_factor(kind: LimitKind, changes: Changes, draws: Draws, shares: SharesByClass) -> Array:
    """Compute the factor by which a query's time on a resource changes, shape (draws,)."""
    by_kind: dict[LimitKind, Array | float] = {
        LimitKind.CPU: 1 / changes.cpu_speed,
        LimitKind.HOST_CPU: 1 / changes.cpu_speed,
        LimitKind.DISK_TIME: _disk_time_factor(changes, draws),
        LimitKind.DISK_OPERATIONS: changes.disk_latency,
        LimitKind.DISK_BYTES: 1 / changes.disk_rate,
        LimitKind.NETWORK: 1 / changes.network,
    }
    factor: Array = by_kind.get(kind, 1.0) * workload_factor(changes, draws, shares)
    return factor


def workload_factor(changes: Changes, draws: Draws, shares: SharesByClass) -> Array:
    """Compute the factor 1 − Σ s·(1 − f) of a use after changes of class costs, shape (draws,).

    Cheaper classes may make the calls of others cheaper, which no share shows: the upper half of
    the draws of the shares allows for it.
    """
    freed = np.zeros_like(draws.share_normal)
    for name, factor in changes.queries.items():
        if name in shares:
            freed = freed + draw_share(shares[name], draws) * (1 - factor)
    interference = INTERFERENCE_DEVIATION * np.maximum(draws.share_normal, 0.0)
    left: Array = np.maximum(1 - freed, MIN_LEFT) * (1 - interference * freed)
    return left


def limit_factors(today: CurrentState, changes: Changes, draws: Draws) -> Array:
    """Compute the factor by which each limit changes, shape (limits, draws)."""
    rows = [np.ones_like(draws.share_normal)] * len(today.limits)
    for k, limit in enumerate(today.limits):
        if limit.kind is LimitKind.CONTENTION:
            rows[k] = lambda_factor(today, changes, draws)
        else:
            rows[k] = 1 / time_factor(limit.kind, changes, draws, limit.shares)
        if limit.kind is LimitKind.CPU:
            rows[k] = rows[k] * changes.cores
    found: Array = changes.servers * np.array(rows).reshape(len(rows), len(draws.share_normal))
    return found


def lambda_factor(today: CurrentState, changes: Changes, draws: Draws) -> Array:
    """Compute λ'/λ, shape (draws,): 1/λ is the sum of the times on resources and of the rest."""
    parts = {
        use.kind: part for use, part in zip(today.uses, parts_of_time(today, draws), strict=True)
    }
    if LimitKind.CPU not in parts:
        parts[LimitKind.CPU] = draws.unknown_cpu
    whole = np.maximum(sum(parts.values(), np.zeros_like(draws.share_normal)), 1.0)
    hardware = replace(changes, queries={})
    saved = sum(
        (
            part / whole * (1 - time_factor(kind, hardware, draws, {}))
            for kind, part in parts.items()
        ),
        np.zeros_like(draws.share_normal),
    )
    factor: Array = 1 / ((1 - saved) * workload_factor(changes, draws, today.time_shares))
    return factor


def parts_of_time(today: CurrentState, draws: Draws) -> list[Array]:
    """Compute each resource's share of the time of a query that runs alone, 1/λ; (draws,) each."""
    alone = _time_alone(today)
    return [
        np.clip(use.seconds * (1.0 if use.is_waited_for else draws.waited_share) / alone, 0.0, 1.0)
        for use in today.uses
    ]


def _time_alone(today: CurrentState) -> float:
    """Estimate 1/λ, s: by the law, else by the residence time, which is no shorter."""
    known = [1 / today.law.lam] if today.law else []
    known += [today.load.residence_time] if today.load else []
    return max(min(known, default=np.inf), ROUNDING)


def _disk_time_factor(changes: Changes, draws: Draws) -> Array:
    """Combine (2) and (3), weighted by the drawn shares of sequential and random accesses."""
    sequential, random = 1 - draws.random_access_share, draws.random_access_share
    factor: Array = sequential / changes.disk_rate + random * changes.disk_latency
    return factor
