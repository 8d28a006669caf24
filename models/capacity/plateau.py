"""Whether throughput has stopped growing: more statements at once, but no more throughput.

Below its limit a server completes more, the more statements run at once. Where far more statements
complete no more, interval after interval, something else delays them, and the throughput is the
maximum: by the asymptotic bounds of a closed network (P. Denning, J. Buzen 1978) it is one over the
longest demand. A lock looks like this, while no resource is full.

Where clients do not wait for each other's answers, throughput is the arrival rate, and N = X·R (J.
Little 1961) also varies with the residence time. So N counts as higher only beyond what the scatter
of R explains. Intervals beside other programs, which take processors away for a while, do not
count, nor do statements that wait for a processor, whose limit is known. There is a plateau only
from one statement at once on: at a limit that lets one statement pass at a time there is always
one, or the next that waits for it.
"""

import numpy as np

from models.arrays import Array, Mask
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import Resource
from models.numerics import median
from models.robust_regression import medians, neighbour_deviation
from models.shared_constants import (
    CLEAR_RATIO,
    FAR_RATIO,
    MIN_LASTING,
    MIN_POINTS,
    NEAR_SHARE,
    SIGNIFICANT_Z,
)
from models.trust import MAX_ERROR, MAX_GROWTH

TOP_SHARE = 0.92
"""Throughputs of at least this share of the third highest are the top; two may be bursts."""


def find_plateau(seen: Observations, nearest: str | None = None) -> float | None:
    """Find the throughput (queries/s) that more statements do not raise; None: it still grows.

    None also where too few intervals below the top show how much residence times vary, and where
    statements may wait for the resource named `nearest`, that of the nearest limit: it is busy, and
    it is not known how many wait for it.
    """
    alone, seen = ~seen.beside_other_programs, seen.without_queues()
    loaded = alone & seen.is_loaded_and_exact
    if np.count_nonzero(loaded) < 2 * MIN_POINTS:
        return None
    n, x = seen.concurrency[loaded], seen.throughput[loaded]
    top, first = top_and_its_concurrency(n, x)
    scatter = _residence_time_scatter(seen, alone, top)
    if first < 1 or scatter is None:
        return None
    # by chance the first concurrency may be that far below its usual value, and others above
    beyond = max(FAR_RATIO, np.exp(2 * SIGNIFICANT_Z * scatter))
    many, few = n >= beyond * first, (x >= top) & (n < CLEAR_RATIO * first)
    if min(np.count_nonzero(many), np.count_nonzero(few)) < MIN_POINTS:
        return None
    if nearest is not None and _may_wait_for(seen.resource(nearest), loaded, many):
        return None
    level = median(x[many])
    growth = np.log(level / median(x[few])) / np.log(median(n[many]) / median(n[few]))
    # on a plateau most intervals with many statements are at the top; else they piled up
    stays = 2 * np.count_nonzero(x[many] >= top) > np.count_nonzero(many)
    return level if stays and growth <= MAX_GROWTH else None


def top_and_its_concurrency(n: Array, x: Array) -> tuple[float, float]:
    """Find the least throughput that counts as the top, and the concurrency that reaches it.

    n in threads and x in queries/s, both of shape (intervals,), at least three of them; the results
    are in x's and n's units. The concurrency is N = X·R with the residence time R of intervals just
    below the top, since most intervals at the top may have more than is needed to reach it.
    """
    top = float(TOP_SHARE * np.sort(x)[-MIN_LASTING])
    near = (x < top) & (x >= (1 - MAX_ERROR) * top)
    if np.count_nonzero(near) < MIN_LASTING:
        return top, float(np.sort(n[x >= top])[MIN_LASTING - 1])
    return top, top * median(n[near] / x[near])


def _may_wait_for(resource: Resource, loaded: Mask, many: Mask) -> bool:
    """Return whether the statements of intervals with many may wait for a busy resource.

    Where it is counted which of them do, these are already left out.
    """
    if resource.waiting is not None:
        return False
    return float(medians(resource.relative_use[loaded][many])) >= NEAR_SHARE


def _residence_time_scatter(seen: Observations, alone: Mask, top: float) -> float | None:
    """Compute the deviation of ln R between intervals of similar throughput, half of top to top.

    None for too few intervals of those marked by alone, shape (intervals,). top in queries/s.
    """
    n, x = seen.concurrency, seen.throughput
    below = alone & seen.has_exact_concurrency & (x < top) & (x > 0.5 * top)
    if np.count_nonzero(below) < MIN_POINTS:
        return None
    return neighbour_deviation(np.log(n[below] / x[below]), x[below])
