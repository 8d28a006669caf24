"""Draws of what is uncertain today: every prediction is computed for each of them.

The same draws serve every change, so that two predictions differ by the changes alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array
from models.capacity.distribution import TABLE_DEVIATIONS
from models.distribution_functions import normal_cdf
from models.numerics import ROUNDING, even_shares
from models.random_numbers import DRAW_COUNT, SEED, RandomNumbers
from models.what_if.current_state import CurrentState, LimitDistribution, UseShare

UNTRUSTED_DEVIATION = 0.15
"""Standard deviation of the logarithm by which a capacity that is not trusted is off, beyond its
own interval. From below half of the load of 60 recorded servers 93 % of the residence times at
higher loads are then in their intervals, and of the loads at a given residence time; 88 % without
(`test_what_if_real_servers`, `test_sla_real_servers`)."""


@dataclass(frozen=True, eq=False)
class Draws:
    """The uncertain quantities, shape (draws,) each, but (limits, draws) for `limits`."""

    capacity: Array
    """Today's capacity, queries/s."""
    limits: Array
    """Where each limit is today, queries/s; the one that binds is at the capacity."""
    random_access_share: Array
    """The part of the disk's time that random requests take, which is not known."""
    waited_share: Array
    """The part of the time on disks and links that queries wait for."""
    queueing: Array
    """The length of queues, relative to those of random arrivals."""
    unknown_cpu: Array
    """The part of a query's time that is CPU, where that is not known."""
    residence_normal: Array
    """Standard normals: the error of today's residence time."""
    share_normal: Array
    """Standard normals: the error of the shares of classes."""


def draws_of(today: CurrentState) -> Draws:
    """Draw what is uncertain; capacity and limits are NaN where the capacity is not known."""
    uniform = _even_shares_in_random_order(SEED, 8 + len(today.limits))
    if today.capacity is None or today.distribution is None or not today.limits:
        capacity = np.full(DRAW_COUNT, np.nan)
        limits = np.full((len(today.limits), DRAW_COUNT), np.nan)
    else:
        capacity = today.distribution.quantiles(uniform[0])
        binding = _draw_binding_limit(today.limits, uniform[1])
        limits = np.stack(
            [
                np.where(binding == k, capacity, _draw_above(limit, capacity, uniform[8 + k]))
                for k, limit in enumerate(today.limits)
            ]
        )
    return Draws(
        capacity=capacity,
        limits=limits,
        random_access_share=uniform[2],
        waited_share=uniform[3],
        queueing=uniform[4],
        unknown_cpu=uniform[5],
        residence_normal=_normal_quantile(uniform[7]),
        share_normal=_normal_quantile(uniform[6]),
    )


def widen_untrusted(today: CurrentState, draws: Draws) -> Draws:
    """Spread the limits of a capacity that is not trusted, none of them below the present load."""
    if today.is_trusted or today.load is None:
        return draws
    off = np.exp(UNTRUSTED_DEVIATION * draws.share_normal)
    off = np.maximum(off, np.minimum(1.0, today.load.throughput / draws.capacity))
    return replace(draws, limits=off * draws.limits)


def independent_normals(rows: int) -> Array:
    """Draw standard normals that are independent of those of `Draws`, shape (rows, draws)."""
    return _normal_quantile(_even_shares_in_random_order(SEED + 1, rows))


def draw_share(share: UseShare, draws: Draws) -> Array:
    """Draw a class's share, shape (draws,)."""
    drawn: Array = np.clip(share.value * (1 + share.error * draws.share_normal), 0.0, 1.0)
    return drawn


def _even_shares_in_random_order(seed: int, rows: int) -> Array:
    """Draw probabilities that are evenly spread in each row, shape (rows, draws)."""
    random = RandomNumbers(seed)
    orders = [random.permutation(DRAW_COUNT) for _ in range(rows)]
    return even_shares(DRAW_COUNT)[np.stack(orders)]


def _draw_binding_limit(limits: Sequence[LimitDistribution], uniform: Array) -> NDArray[np.intp]:
    """Draw which limit binds, by their probabilities."""
    p = np.array([max(limit.probability, 0.0) for limit in limits])
    places = np.searchsorted(np.cumsum(p) / p.sum(), uniform)
    bounded: NDArray[np.intp] = np.minimum(places, len(limits) - 1)
    return bounded


def _draw_above(limit: LimitDistribution, capacity: Array, uniform: Array) -> Array:
    """Draw a limit that does not bind: from its distribution above the capacity."""
    ln_c = np.log(capacity)
    below = np.interp(ln_c, limit.grid, limit.cdf)
    cdf = np.maximum.accumulate(limit.cdf) + ROUNDING * np.arange(len(limit.cdf))
    ln_x = np.interp(below + uniform * (1 - below), cdf, limit.grid)
    above: Array = np.exp(np.maximum(ln_x, ln_c))
    return above


def _normal_quantile(uniform: Array) -> Array:
    table = np.linspace(-TABLE_DEVIATIONS, TABLE_DEVIATIONS, DRAW_COUNT + 1)
    quantile: Array = np.interp(uniform, normal_cdf(table), table)
    return quantile
