"""What a call usually costs: the median over time of what a division gives it.

A division in proportion to time blames a class for all the time that it runs. Waits that nobody
told (for the log, for latches, for a slow client) come in bursts, while the cost of what a call
does stays; so the median interval says more of the cost than the mean does. What a call does is
counted by its rows as well: calls that read ten times as many rows may cost ten times as much.
"""

import numpy as np

from models.attribution.class_intervals import Array

CALLS = 30
"""Intervals with fewer calls are taken together: the median of few is not that of their mean."""
LEAST_GROUPS = 8
"""With fewer groups of calls the mean counts."""


def equivalent_calls(size: Array, count: Array) -> Array:
    """Count each class's calls and rows at their unit costs, `size`, in its mean calls: (T, K).

    Where nothing has a unit cost, calls count as they are.
    """
    total = size.sum(axis=0)
    part = size / np.where(total > 0, total, 1.0)
    return np.where(total > 0, part * count.sum(axis=0), count)


def scaled_to_median_cost(parts: Array, count: Array) -> Array:
    """Scale each class's parts to what its calls usually cost; all together stay what they were.

    Both have shape (T, K); `count` may be any measure of what was done, in calls.
    """
    had = parts.sum(axis=0)
    classes = zip(parts.T, count.T, strict=True)
    usual = np.array([_usual(z, n) for z, n in classes]) * count.sum(axis=0)
    together = float(usual.sum())
    factor = usual / np.where(had > 0, had, 1.0)
    result: Array = parts * (factor * float(had.sum()) / together if together > 0 else 1.0)
    return result


def _usual(parts: Array, count: Array) -> float:
    """Take the weighted median of what a call costs, of one class, shape (T,)."""
    made = np.cumsum(count)
    if not len(made) or made[-1] <= 0:
        return 0.0
    _, group = np.unique((made - count / 2) // CALLS, return_inverse=True)
    calls, sums = np.bincount(group, count), np.bincount(group, parts)
    there = calls > 0
    if there.sum() < LEAST_GROUPS:
        return float(parts.sum() / made[-1])
    calls, cost = calls[there], sums[there] / calls[there]
    order = np.argsort(cost)
    below = np.cumsum(calls[order])
    return float(cost[order][np.searchsorted(below, below[-1] / 2)])
