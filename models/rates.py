"""From samples to intervals: rates of counters, averages of gauges, Little's law.

All times are seconds on one monotonic clock, as float64 arrays that rise. A counter's value at the
edge of an interval is interpolated between the two samples around it. What is not known is NaN:
an interval with a gap, a restart or a counter that goes backwards has no rate at all.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import isnan, nan

import numpy as np
from numpy.typing import ArrayLike

from models.arrays import Array, Mask

START_TOLERANCE = 3.0
"""Uptime counts whole seconds: a server's start may seem to move by less than this (s)."""


def epochs(at: ArrayLike, uptime: ArrayLike) -> Array:
    """Number the server's restarts: shape (n,), rising by one at the first sample after each.

    A restart shows as an uptime that goes back, or as a start (`at - uptime`) that moves.
    """
    times, up = _array(at), _array(uptime)
    if times.size == 0:
        return times
    moved = np.abs(np.diff(times - up)) > START_TOLERANCE
    return np.concatenate(([0.0], np.cumsum(moved | (np.diff(up) < 0))))


class Brackets:
    """The samples around each edge of intervals: the same for all counters that were read then.

    `edges` and `at`, the samples' times, are in seconds; `max_gap` is the longest time in seconds
    that two samples may be apart.
    """

    def __init__(self, edges: ArrayLike, at: ArrayLike, max_gap: float) -> None:
        self.edges, self.at, self.max_gap = _array(edges), _array(at), max_gap
        self._is_gap = self.at[1:] - self.at[:-1] > max_gap
        before = np.searchsorted(self.at, self.edges, side="right") - 1
        after = np.searchsorted(self.at, self.edges, side="left")
        inside = (before >= 0) & (after < self.at.size)
        self._is_inside = inside[:-1] & inside[1:]
        self._first, self._last = before[:-1], after[1:]

    def increases(
        self,
        value: ArrayLike,
        *,
        epoch: ArrayLike | None = None,
        monotonic: ArrayLike | None = None,
    ) -> Array:
        """Compute `increases` of a counter that was read at these times."""
        values = _array(value)
        rising = values if monotonic is None else _array(monotonic)
        epoch_of = None if epoch is None else _array(epoch)
        there = np.isfinite(values + rising)
        if np.count_nonzero(there) < max(there.size, 2):
            return self._increases_where(there, values, epoch_of, rising)
        breaks = self._is_gap | (rising[1:] < rising[:-1])
        if epoch_of is not None:
            breaks |= epoch_of[1:] != epoch_of[:-1]
        reached = np.interp(self.edges, self.at, values)
        rise = reached[1:] - reached[:-1]
        known = self._is_inside & (rise >= 0)
        if breaks.any():
            broken = np.append(0, np.cumsum(breaks))
            known[known] = broken[self._first[known]] == broken[self._last[known]]
        return np.where(known, rise, np.nan)

    def _increases_where(
        self, there: Mask, values: Array, epoch: Array | None, rising: Array
    ) -> Array:
        """Compute `increases` from some of the samples, a mask of shape (samples,)."""
        if np.count_nonzero(there) < 2:
            return np.full(max(self.edges.size - 1, 0), np.nan)
        fewer = Brackets(self.edges, self.at[there], self.max_gap)
        epoch = None if epoch is None else epoch[there]
        return fewer.increases(values[there], epoch=epoch, monotonic=rising[there])


def increases(
    edges: ArrayLike,
    at: ArrayLike,
    value: ArrayLike,
    *,
    max_gap: float,
    epoch: ArrayLike | None = None,
    monotonic: ArrayLike | None = None,
) -> Array:
    """Compute the rise of a counter between consecutive edges, shape (len(edges) − 1,), or NaN.

    `max_gap` is the longest time in seconds that two samples may be apart. No rise is known
    over a change of `epoch` (see `epochs`) or a fall of `monotonic` (default: `value` itself).
    A sample whose value is NaN is as one that is not there. For many counters that were read at the
    same times `Brackets` takes half of the time.
    """
    return Brackets(edges, at, max_gap).increases(value, epoch=epoch, monotonic=monotonic)


def increase(
    start: float, end: float, at: Sequence[float], value: Sequence[float], *, max_gap: float
) -> float:
    """Compute `increases` between two edges from a few samples: the same in a tenth of the time."""
    if any(map(isnan, value)):
        there = [(t, v) for t, v in zip(at, value, strict=True) if not isnan(v)]
        at, value = [t for t, _ in there], [v for _, v in there]
    before, after = bisect_right(at, start) - 1, bisect_left(at, end)
    if before < 0 or after >= len(at):
        return nan
    for (t, v), (later, w) in pairwise(zip(at[before : after + 1], value[before:], strict=False)):
        if later - t > max_gap or w < v:
            return nan
    rise = _interpolate(end, at, value) - _interpolate(start, at, value)
    return rise if rise >= 0 else nan


def _interpolate(mark: float, at: Sequence[float], value: Sequence[float]) -> float:
    """Interpolate as `numpy.interp` does, to the last bit; the mark is between first and last."""
    k = bisect_right(at, mark) - 1
    if at[k] == mark:
        return value[k]
    slope = (value[k + 1] - value[k]) / (at[k + 1] - at[k])
    return slope * (mark - at[k]) + value[k]


def averages(edges: ArrayLike, at: ArrayLike, value: ArrayLike) -> tuple[Array, Array]:
    """Compute the mean and the number of a gauge's samples from each edge up to the next.

    Two arrays of shape (len(edges) − 1,); the mean is NaN where there was no sample. All values
    must be known: after one that is NaN no mean is.
    """
    marks, times, values = _array(edges), _array(at), _array(value)
    places = np.searchsorted(times, marks, side="left")
    counts = np.diff(places).astype(np.float64)
    sums = np.diff(np.concatenate(([0.0], np.cumsum(values)))[places])
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0), counts


def concurrency_by_littles_law(statement_seconds: ArrayLike, seconds: ArrayLike) -> Array:
    """Compute N = X·R: statement time (s) over the interval (s), of any shape (Little 1961).

    Statement time includes what statements still in flight have spent so far.
    """
    return _array(statement_seconds) / _array(seconds)


def _array(values: ArrayLike) -> Array:
    return np.asarray(values, dtype=np.float64)
