"""Who stands in the queue: what computes takes longer when everybody's statements do.

A statement that computes shares the CPU with all others, and its time per call stretches with
theirs; one that sleeps takes as long as ever. With r_kt class k's time per call in tick t and q_kt
that of the other classes, both relative to their means, r = e·q + rest: e is 1 for who computes and
0 for who only waits, whatever its calls, rows or share of the total say.
"""

import numpy as np

from models.attribution.class_ticks import Array
from models.attribution.waits import Mask

COMPUTES, COMPUTES_SPREAD = 1.0, 0.3
"""e of classes that compute (measured: .5 for calls of .1 ms, which find a gap, to 1.4)."""
WAITS, WAITS_SPREAD = 0.0, 0.5
"""e of classes that wait (measured: 0 for sleepers, up to .5 for a lock whose holder computes)."""
LEAST_MEAN = 0.1
"""The mean e is 1 but for noise in q, which divides it out; below this q is nothing but noise."""
LEAST_TICKS = 20
TINY = 1e-300


def waiting_evidence(work: Array, count: Array, size: Array) -> Array:
    """How much more probable e is for who waits than for who computes, log, shape (K,).

    `work`, s, `count` and `size`, the priced calls and rows, have shape (T, K). 0 where nothing can
    be told: few ticks, or a queue that never changes.
    """
    e, error = stretches(work, count, size)
    known = np.isfinite(e) & np.isfinite(error)
    e, error = np.where(known, e, 0.0), np.where(known, error, 1.0)
    waits = _log_normal(e - WAITS, np.hypot(error, WAITS_SPREAD))
    computes = _log_normal(e - COMPUTES, np.hypot(error, COMPUTES_SPREAD))
    return np.where(known, waits - computes, 0.0)


def stretches(work: Array, count: Array, size: Array) -> tuple[Array, Array]:
    """Fit e and its standard error by least squares, shape (K,), NaN where there is none.

    Each tick counts by its calls; e is relative to its mean over all classes.
    """
    there = count > 0
    usual = work.sum(axis=0) / np.maximum(count.sum(axis=0), TINY)
    own = np.where(there, work / np.maximum(count * usual, TINY), 0.0)
    others, known = _mean_of_others(own, np.where(there, size, 0.0))
    calls = np.where(there & known, count, 0.0)
    whole = np.maximum(calls.sum(axis=0), TINY)
    q_mean, r_mean = (calls * others).sum(axis=0) / whole, (calls * own).sum(axis=0) / whole
    q, r = others - q_mean, own - r_mean
    ticks, s_qq = (calls > 0).sum(axis=0), (calls * q * q).sum(axis=0)
    fits = (ticks >= LEAST_TICKS) & (s_qq > 0) & (r_mean > 0)
    s_qq, scale = np.where(fits, s_qq, np.nan), q_mean / np.where(fits, r_mean, np.nan)
    slope = (calls * q * r).sum(axis=0) / s_qq
    variance = (calls * (r - slope * q) ** 2).sum(axis=0) / np.maximum(ticks - 2, 1)
    e, error = scale * slope, scale * np.sqrt(variance / s_qq)
    total = np.where(fits, size.sum(axis=0), 0.0)
    mean = float(total @ np.where(fits, e, 0.0)) / max(float(total.sum()), TINY)
    unit = mean if mean > LEAST_MEAN else np.nan
    return e / unit, error / unit


def _mean_of_others(own: Array, weight: Array) -> tuple[Array, Mask]:
    """Compute q, shape (T, K), and where there is one: the mean of the others by these weights."""
    weighted = own * weight
    rest = weight.sum(axis=1, keepdims=True) - weight
    known = rest > 1e-9 * weight
    sums = weighted.sum(axis=1, keepdims=True) - weighted
    return np.where(known, sums / np.where(known, rest, 1.0), 0.0), known


def _log_normal(off: Array, spread: Array) -> Array:
    answer: Array = -0.5 * (off / spread) ** 2 - np.log(spread)
    return answer
