"""The likelihood of the highest throughputs seen: no capacity is far below them.

The models describe averages over the window, and the throughput that counts as seen is a quantile,
because a burst of cheap queries is no capacity. But a capacity below several bursts is wrong,
however well its model fits the lower loads. With costs whose logarithm varies from interval to
interval by s, a server of capacity c serves m intervals of the highest loads at c·exp(s·z), z
normal. The j-th highest exceeds x with the probability P that j or more of m do, each with
Φ(ln(c/x)/s): a binomial distribution's tail (order statistics: H. A. David 1981). A P below a fifth
speaks against c, down to ε, the probability that the queries were cheap, or miscounted:
ε + (1−ε)·min(1, 5·P).
"""

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import FULL_UTILISATION
from models.distribution_functions import normal_cdf
from models.numerics import TINY
from models.robust_regression import neighbour_deviation
from models.shared_constants import (
    FALSE_SIGN_PROBABILITY,
    MIN_LASTING,
    MIN_POINTS,
    NEAR_SHARE,
    QUERY_VARIATION,
    TOLERATED_CHANGE,
)


def likelihood(ln_capacity: Array, seen: Observations, name: str) -> Array:
    """Compute p(highest throughputs | capacity), at most 1, for ln capacities of shape (points,).

    Capacities in queries/s. `name` is the resource that shows how much a query's cost varies.
    """
    x = np.sort(seen.throughput)[::-1]
    near = int(np.count_nonzero(x >= NEAR_SHARE * x[0]))
    rank = np.arange(1, min(MIN_LASTING, near) + 1)
    passed = (np.log(x[: len(rank)]) - ln_capacity[:, None]) / cost_variation(seen, name)
    by_chance = _binomial_tail(rank, near, normal_cdf(-passed))
    p: Array = np.prod(
        FALSE_SIGN_PROBABILITY
        + (1 - FALSE_SIGN_PROBABILITY) * np.minimum(by_chance / FALSE_SIGN_PROBABILITY, 1.0),
        axis=1,
    )
    return p


def _binomial_tail(rank: NDArray[np.intp], count: int, p: Array) -> Array:
    """Compute the probability that rank or more of count pass, each with p: (points, ranks).

    The first terms of the binomial distribution, for fewer than rank, are subtracted from 1.
    """
    fewer = np.zeros_like(p)
    term = (1 - p) ** count
    for passing in range(int(rank[-1])):
        fewer += np.where(passing < rank, term, 0.0)
        term = term * (count - passing) / (passing + 1) * p / np.maximum(1 - p, TINY)
    tail: Array = np.clip(1 - fewer, 0.0, 1.0)
    return tail


def cost_variation(seen: Observations, name: str) -> float:
    """Compute the deviation of ln of a query's cost between intervals of similar throughput.

    It uses the upper half of the loads, because lower ones are measured less well.
    """
    u, x = seen.resource(name).relative_own_use, seen.throughput
    known = (u > 0) & (u < FULL_UTILISATION) & (x > 0.5 * x.max())
    if np.count_nonzero(known) < MIN_POINTS:
        return TOLERATED_CHANGE
    u, x = u[known], x[known]
    return max(neighbour_deviation(np.log(u / x), x), QUERY_VARIATION)
