"""Means over hours, or other steps, of a load that was measured over spans of any length."""

import numpy as np
from numpy.typing import ArrayLike

from models.arrays import Array

HOUR_SECONDS = 3600.0
"""Seconds."""


def hourly_means(
    end: ArrayLike, seconds: ArrayLike, rate: ArrayLike, until: float, width: float = HOUR_SECONDS
) -> Array:
    """Average a load over consecutive hours, or steps of a width (s); the last ends at `until`.

    Each span has an end and a length in seconds and a mean rate (queries/s), all of shape (spans,),
    in the order of time. Shorter spans are averaged, longer ones count for each hour that they
    touch; the overlap of a span with the one before counts once. Returns shape (hours,), oldest
    first, NaN where less than half of the hour is known.
    """
    ends = np.asarray(end, dtype=np.float64)
    rates = np.asarray(rate, dtype=np.float64)
    starts = ends - np.asarray(seconds, dtype=np.float64)
    starts[1:] = np.maximum(starts[1:], ends[:-1])
    used = (ends > starts) & (ends <= until) & np.isfinite(rates)
    if not used.any():
        return np.zeros(0)
    starts, ends, rates = starts[used], ends[used], rates[used]
    hours = int(np.ceil((until - starts[0]) / width))
    edges = until - width * np.arange(hours, -1, -1.0)
    knots = np.column_stack((starts, ends)).ravel()
    covered = _amounts_between(edges, knots, ends - starts)
    total = _amounts_between(edges, knots, rates * (ends - starts))
    known = covered >= width / 2
    means: Array = np.divide(total, covered, out=np.full(hours, np.nan), where=known)
    return means


def _amounts_between(edges: Array, knots: Array, amounts: Array) -> Array:
    """Compute how much of amounts, each spread evenly between two knots, lies between edges."""
    sums = np.concatenate(([0.0], np.cumsum(amounts)))
    steps = np.column_stack((sums[:-1], sums[1:])).ravel()
    between: Array = np.diff(np.interp(edges, knots, steps))
    return between
