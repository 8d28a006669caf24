"""Who stands in the queue: what computes takes longer when everybody's statements do.

A statement that computes shares the CPU with all others, and its time per call stretches with
theirs; one that sleeps takes as long as ever. With r_kt class k's time per call in tick t and q_kt
that of the other classes, both relative to their means, r = e·q + rest: e is 1 for who computes and
0 for who only waits, whatever its calls, rows or share of the total say.
"""

import numpy as np

from models.attribution.class_ticks import Array
from models.attribution.waits import Mask

COMPUTES, COMPUTES_SPREAD = 1.0, 0.2
"""e of classes that compute (measured: .6 to 1.4)."""
WAITS, WAITS_SPREAD = 0.0, 0.5
"""e of classes that wait (measured: 0 for sleepers, up to .5 for a lock whose holder computes)."""
ALONE = 0.05
"""Of the classes that compute, how many do not queue with the others: those wait for disks, say."""
LEAST_MEAN = 0.1
"""The mean e is 1 but for noise in q, which divides it out; below this q is nothing but noise."""
LEAST_TICKS = 20
PARTS = 8
"""Into which the ticks are cut for the jackknife."""
SAME, TINY = 1e-9, 1e-300


def waiting_evidence(work: Array, count: Array, size: Array) -> Array:
    """How much more probable e is for who waits than for who computes, log, shape (K,).

    `work`, s, `count` and `size`, the priced calls and rows, have shape (T, K). 0 where nothing can
    be told: few ticks, or a queue that never changes.
    """
    e, error = stretches(work, count, size)
    known = np.isfinite(e)
    e, error = np.where(known, np.maximum(e, 0.0), 0.0), np.where(known, error, 1.0)
    waits = _log_normal(e - WAITS, np.hypot(error, WAITS_SPREAD))
    computes = _log_normal(e - COMPUTES, np.hypot(error, COMPUTES_SPREAD))
    either = np.logaddexp(computes + np.log(1 - ALONE), waits + np.log(ALONE))
    return np.where(known, waits - either, 0.0)


def stretches(work: Array, count: Array, size: Array) -> tuple[Array, Array]:
    """Fit e by least squares and its standard error, shape (K,), NaN where there is none.

    Each tick counts by its calls; e is relative to its mean over all classes. The error is the
    jackknife's over stretches of time, for what disturbs a tick disturbs the next as well.
    """
    if len(work) < LEAST_TICKS:
        return np.full(work.shape[1], np.nan), np.full(work.shape[1], np.nan)
    there = count > 0
    usual = work.sum(axis=0) / np.maximum(count.sum(axis=0), TINY)
    own = np.where(there, work / np.maximum(count * usual, TINY), 0.0)
    others, known = _mean_of_others(own, np.where(there, size, 0.0))
    calls = np.where(there & known, count, 0.0)
    begins = np.linspace(0, len(work), PARTS, endpoint=False, dtype=np.intp)
    terms = (np.ones(1), others, own, others * others, others * own)
    parts = np.stack([np.add.reduceat(calls * term, begins) for term in terms])
    whole = parts.sum(axis=1)
    e, without = _elasticity(whole), _elasticity(whole[:, None] - parts)
    error = np.sqrt((PARTS - 1) / PARTS * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    fits = ((calls > 0).sum(axis=0) >= LEAST_TICKS) & np.isfinite(e) & np.isfinite(error)
    total = np.where(fits, size.sum(axis=0), 0.0)
    mean = float(total @ np.where(fits, e, 0.0)) / max(float(total.sum()), TINY)
    unit = np.where(fits & (mean > LEAST_MEAN), mean, np.nan)
    return e / unit, error / unit


def _elasticity(sums: Array) -> Array:
    """Slope of r on q at their means, from Σ n·(1, q, r, q², q·r), shape (5, ...)."""
    n, q, r, qq, qr = sums
    s_qq = n * qq - q * q
    fits = (s_qq > SAME * n * qq) & (r > 0)
    answer: Array = (n * qr - q * r) * q / np.where(fits, s_qq * r, np.nan)
    return answer


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
