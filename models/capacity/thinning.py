"""The intervals that a long window keeps: spread over load, concurrency and age, not all alike.

Intervals fall into cells of load (six to the octave, down from the greatest), of concurrency and of
age (one to the octave each). Crowded cells are thinned, evenly over time, until all together fit
the limit, so that an old interval at a high load is kept longer than a thousand idle ones, and a
saturated one among hours of the same throughput without queues. The choice is deterministic,
and kept intervals can be thinned again with newer ones, so the memory of a window is bounded.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.arrays import Array
from models.forecast.daily_peaks import DAY_HOURS
from models.forecast.hourly_means import HOUR_SECONDS
from models.numerics import TINY
from models.shared_constants import MIN_NOISE

MAX_INTERVALS = 500
LOADS_PER_OCTAVE = 6
YOUNG_SECONDS = 900.0
"""Intervals younger than this (s) are of one age; older ones fall into octaves of it."""
HALF_LIFE_SECONDS = DAY_HOURS * HOUR_SECONDS
"""The age (s) at which an interval weighs half."""
MAX_CELL_WEIGHT = 8.0
"""The greatest weight of those of one load and age, in intervals: they add little evidence."""


@dataclass(frozen=True, eq=False)
class KeptIntervals:
    """The intervals kept, in the order of time; arrays of shape (kept,)."""

    indices: NDArray[np.intp] = field(repr=False)
    counts: Array = field(repr=False)
    """How many intervals each one represents; to be passed when they are thinned again."""
    weights: Array = field(repr=False)
    """The weight of each in a fit: less with age, and at most `MAX_CELL_WEIGHT` for a cell."""


def thin(
    at: ArrayLike,
    throughput: ArrayLike,
    now: float,
    *,
    concurrency: ArrayLike = np.nan,
    counts: ArrayLike = 1.0,
    limit: int = MAX_INTERVALS,
    half_life: float = HALF_LIFE_SECONDS,
) -> KeptIntervals:
    """Choose at most `limit` intervals; at in seconds, ascending, and throughput of shape (k,).

    concurrency: in statements, of shape (k,), NaN where not known. Intervals without a known
    throughput are not kept. Raises ValueError for a limit below 1.
    """
    if limit < 1:
        raise ValueError(f"the limit must be at least 1, not {limit}")
    times, x = np.asarray(at, dtype=np.float64), np.asarray(throughput, dtype=np.float64)
    represented = np.broadcast_to(np.asarray(counts, dtype=np.float64), x.shape)
    known = np.flatnonzero(np.isfinite(x) & (x >= 0))
    if len(known) == 0:
        return KeptIntervals(known, np.empty(0), np.empty(0))
    age = np.maximum(now - times[known], 0.0)
    n = np.broadcast_to(np.asarray(concurrency, dtype=np.float64), x.shape)
    load_and_age = _cells_of_load_and_age(x[known], age)
    cell = _divided_by_concurrency(load_and_age, n[known])
    chosen = _choose_evenly(cell, limit)
    total, kept = np.bincount(cell, weights=represented[known]), np.bincount(cell[chosen])
    share = total[cell[chosen]] / kept[cell[chosen]]
    most = MAX_CELL_WEIGHT / np.bincount(load_and_age[chosen])[load_and_age[chosen]]
    weights = np.minimum(share, most) * 0.5 ** (age[chosen] / half_life)
    return KeptIntervals(known[chosen], share, weights)


def _cells_of_load_and_age(x: Array, age: Array) -> NDArray[np.intp]:
    """Number each interval's cell of load and age; higher loads have lower numbers."""
    lowest = int(-LOADS_PER_OCTAVE * np.log2(MIN_NOISE))
    top = max(float(x.max()), TINY)
    below = -np.log2(np.maximum(x / top, MIN_NOISE))
    load = (below * LOADS_PER_OCTAVE).astype(np.intp)
    octave = np.ceil(np.log2(np.maximum(age / YOUNG_SECONDS, 1.0))).astype(np.intp)
    cell: NDArray[np.intp] = octave * (lowest + 1) + load
    return cell


def _divided_by_concurrency(cell: NDArray[np.intp], n: Array) -> NDArray[np.intp]:
    """Divide the cells by octaves of concurrency, and number them from 0.

    Up to one statement at once, and where their number is not known, is one octave.
    """
    octave = np.log2(np.maximum(np.nan_to_num(n), 1.0)).astype(np.intp)
    _, divided = np.unique(octave * (cell.max() + 1) + cell, return_inverse=True)
    return divided.astype(np.intp)


def _choose_evenly(cell: NDArray[np.intp], limit: int) -> NDArray[np.intp]:
    """Choose as many intervals as fit, of each cell evenly over time and always the newest."""
    sizes = np.bincount(cell)
    quota = _cell_quota(sizes, limit)
    order = np.argsort(cell, kind="stable")
    starts = np.cumsum(sizes) - sizes
    place = np.arange(len(cell)) - starts[cell[order]]
    size, take = sizes[cell[order]], np.minimum(quota, sizes[cell[order]])
    # a place is chosen where the number taken so far increases, as it does at the last place
    chosen = (place + 1) * take // size > place * take // size
    found: NDArray[np.intp] = np.sort(order[chosen])
    return found if len(found) <= limit else found[-limit:]


def _cell_quota(sizes: NDArray[np.intp], limit: int) -> int:
    """Find the greatest number of intervals per cell with which all cells fit the limit."""
    low, high = 1, int(sizes.max())
    while low < high:
        middle = (low + high + 1) // 2
        fits = int(np.minimum(sizes, middle).sum()) <= limit
        low, high = (middle, high) if fits else (low, middle - 1)
    return low
