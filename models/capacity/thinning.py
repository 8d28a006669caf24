"""Which intervals a long window keeps: a spread over load and age instead of thousands alike.

Intervals fall into cells of load (six to the octave, down from the greatest) and of age (one to the
octave). Crowded cells are thinned, evenly over time, until all together fit the limit, so that an
old interval at a high load is kept longer than a thousand idle ones. Nothing is random, and what
was kept can be thinned again with newer intervals, so a window needs no more memory than this.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.numerics import TINY
from models.usl.law import Array

MAX_INTERVALS = 500
LOADS_PER_OCTAVE, LOAD_OCTAVES = 6, 6
YOUNG_SECONDS = 900.0
"""Intervals younger than this (s) are of one age; older ones fall into octaves of it."""
HALF_LIFE_SECONDS = 86_400.0
"""After so long (s) an interval weighs half."""
MAX_CELL_WEIGHT = 8.0
"""A cell weighs no more than so many intervals: those of one load and age are nearly one."""


@dataclass(frozen=True, eq=False)
class Kept:
    """The intervals kept, in the order of time; arrays of shape (kept,)."""

    indices: NDArray[np.intp] = field(repr=False)
    counts: Array = field(repr=False)
    """How many intervals each stands for; to be handed in when they are thinned again."""
    weights: Array = field(repr=False)
    """The weight of each in a fit: less with age, and at most `MAX_CELL_WEIGHT` for a cell."""


def thin(
    at: ArrayLike,
    throughput: ArrayLike,
    now: float,
    *,
    counts: ArrayLike = 1.0,
    limit: int = MAX_INTERVALS,
    half_life: float = HALF_LIFE_SECONDS,
) -> Kept:
    """Choose at most `limit` intervals; at in seconds, rising, and throughput of shape (k,).

    What has no throughput is not kept. Raises ValueError for a limit below 1.
    """
    if limit < 1:
        raise ValueError(f"the limit must be at least 1, not {limit}")
    times, x = np.asarray(at, dtype=np.float64), np.asarray(throughput, dtype=np.float64)
    stands_for = np.broadcast_to(np.asarray(counts, dtype=np.float64), x.shape)
    known = np.flatnonzero(np.isfinite(x) & (x >= 0))
    if len(known) == 0:
        return Kept(known, np.empty(0), np.empty(0))
    age = np.maximum(now - times[known], 0.0)
    cell = _cells(x[known], age)
    chosen = _evenly(cell, limit)
    total = np.bincount(cell, weights=stands_for[known])
    kept_in_cell = np.bincount(cell[chosen])
    of = cell[chosen]
    share = total[of] / kept_in_cell[of]
    weights = np.minimum(share, MAX_CELL_WEIGHT / kept_in_cell[of]) * 0.5 ** (
        age[chosen] / half_life
    )
    return Kept(known[chosen], share, weights)


def _cells(x: Array, age: Array) -> NDArray[np.intp]:
    """Number each interval's cell of load and age from 0, the fuller the load the lower."""
    lowest = LOADS_PER_OCTAVE * LOAD_OCTAVES
    top = max(float(x.max()), TINY)
    below = -np.log2(np.maximum(x / top, 2.0 ** -(LOAD_OCTAVES + 1)))
    load = np.minimum(below * LOADS_PER_OCTAVE, lowest).astype(np.intp)
    octave = np.ceil(np.log2(np.maximum(age / YOUNG_SECONDS, 1.0))).astype(np.intp)
    _, cell = np.unique(octave * (lowest + 1) + load, return_inverse=True)
    return cell.astype(np.intp)


def _evenly(cell: NDArray[np.intp], limit: int) -> NDArray[np.intp]:
    """Choose from each cell evenly over time, the newest always, as many as fit."""
    sizes = np.bincount(cell)
    quota = _quota(sizes, limit)
    order = np.argsort(cell, kind="stable")
    starts = np.cumsum(sizes) - sizes
    place = np.arange(len(cell)) - starts[cell[order]]
    size, take = sizes[cell[order]], np.minimum(quota, sizes[cell[order]])
    # the place is chosen where the count of takes so far steps up; it does at the last
    chosen = (place + 1) * take // size > place * take // size
    found: NDArray[np.intp] = np.sort(order[chosen])
    return found if len(found) <= limit else found[-limit:]


def _quota(sizes: NDArray[np.intp], limit: int) -> int:
    """Find how many each cell may keep at most."""
    low, high = 1, int(sizes.max())
    while low < high:
        middle = (low + high + 1) // 2
        fits = int(np.minimum(sizes, middle).sum()) <= limit
        low, high = (middle, high) if fits else (low, middle - 1)
    return low
