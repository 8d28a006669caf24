"""Who stands in the queue: what computes takes longer when everybody's statements do.

A statement that computes shares the CPU with all others, and its time per call stretches with
theirs; one that sleeps takes as long as ever. With r_kt class k's time per call in interval t, q_kt
that of the other classes, both relative to their means, r = e·q + rest: e is 1 for who computes and
0 for who only waits, whatever its calls, rows or share of the total say.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.attribution.class_intervals import FEW, Array, Mask
from models.numerics import NEGLIGIBLE, TINY

COMPUTES_SPREAD = 0.2
"""Of e about 1, of classes that compute (measured: 0.6 to 1.4)."""
WAITS_SPREAD = 0.6
"""Of e about 0, of classes that wait (measured: 0 for sleepers, up to 0.5 for a lock whose holder
computes, and 1.5 where the loads of all rise together: so does the queue for the lock)."""
ALONE = 0.05
"""Of the classes that compute, how many do not queue with the others: those wait for disks, say."""
LEAST_PARTS, PART = 4, 30
"""Intervals are summed up in so many parts at least, of so many intervals at most."""

Places = NDArray[np.intp]


@dataclass(frozen=True)
class Elasticity:
    """Sums over parts of Σ n·dq², Σ n·dq·dr, their squares and product, shape (5, K).

    n are the calls, dq and dr are off their means of the part.
    """

    sums: Array

    @classmethod
    def of(cls, work: Array, count: Array, size: Array) -> "Elasticity":
        """Sum up one part: work, s, calls, and what calls and rows cost, each of shape (T, K)."""
        there = count > 0
        usual = _ratio(work.sum(axis=0), count.sum(axis=0))
        own = _ratio(work, count * usual)
        others, known = _mean_of_others(own, np.where(there, size, 0.0))
        calls = np.where(there & known, count, 0.0)
        whole = calls.sum(axis=0)
        q = _ratio(others, _ratio((calls * others).sum(axis=0), whole)) - 1
        r = _ratio(own, _ratio((calls * own).sum(axis=0), whole)) - 1
        qq, qr = (calls * q * q).sum(axis=0), (calls * q * r).sum(axis=0)
        return cls(np.stack((qq, qr, qq * qq, qq * qr, qr * qr)))

    @classmethod
    def of_parts(cls, work: Array, count: Array, size: Array) -> "Elasticity":
        """Sum up many intervals, part by part; few are one part."""
        if len(work) < FEW:
            return cls.of(work, count, size)
        parts = max(LEAST_PARTS, len(work) // PART)
        pieces = zip(*(np.array_split(t, parts) for t in (work, count, size)), strict=True)
        return cls(np.sum([cls.of(*piece).sums for piece in pieces], axis=0))

    def __add__(self, other: "Elasticity") -> "Elasticity":
        """Add other parts of the same classes."""
        return Elasticity(self.sums + other.sums)

    def at(self, places: Sequence[int] | Places) -> "Elasticity":
        """Take the classes at these places; at −1 is one of which nothing is known."""
        where = np.asarray(places, dtype=np.intp)
        return Elasticity(np.where(where >= 0, self.sums[:, where], 0.0))

    def elasticities(self, size: Array) -> tuple[Array, Array]:
        """Fit e and its standard error, shape (K,), NaN where there is none.

        e is relative to its mean over all classes by `size`. What disturbs one disturbs the next
        as well: only parts are taken for independent.
        """
        qq, qr, q4, q3r, q2r2 = self.sums
        unit = np.where((qq > 0) & (q4 < qq * qq), qq, np.nan)
        e = qr / unit
        error = np.sqrt(np.maximum(q2r2 - 2 * e * q3r + e * e * q4, 0.0)) / unit
        known = np.isfinite(e)
        total = np.where(known, size, 0.0)
        mean = float(total @ np.where(known, e, 0.0)) / max(float(total.sum()), TINY)
        scale = mean if mean > 0 else np.nan  # 1 but for noise in q, which divides it out
        return e / scale, error / scale

    def evidence(self, size: Array) -> Array:
        """How much more probable e is for who waits than for who computes, log, shape (K,).

        0 where nothing can be told: few intervals, a queue that never changes. Far above 1 is never
        waiting: where many calls wait the mean e is low, and that of who computes high beside it.
        """
        e, error = self.elasticities(size)
        known = np.isfinite(e)
        e, error = np.where(known, np.clip(e, 0.0, 1.0), 0.0), np.where(known, error, 1.0)
        waits = _log_normal(e, np.hypot(error, WAITS_SPREAD))
        computes = _log_normal(e - 1, np.hypot(error, COMPUTES_SPREAD))
        either = np.logaddexp(computes + np.log(1 - ALONE), waits + np.log(ALONE))
        return np.where(known, waits - either, 0.0)


def _mean_of_others(own: Array, weight: Array) -> tuple[Array, Mask]:
    """Compute q, shape (T, K), and where there is one: the mean of the others by these weights."""
    weighted = own * weight
    rest = weight.sum(axis=1, keepdims=True) - weight
    known = rest > NEGLIGIBLE * weight
    sums = weighted.sum(axis=1, keepdims=True) - weighted
    return np.where(known, sums / np.where(known, rest, 1.0), 0.0), known


def _ratio(part: Array, whole: Array) -> Array:
    """Divide; 0 where there is no whole, whose shape may be that of the columns alone."""
    there = whole > TINY
    return np.where(there, part / np.where(there, whole, 1.0), 0.0)


def _log_normal(off: Array, spread: Array) -> Array:
    result: Array = -0.5 * (off / spread) ** 2 - np.log(spread)
    return result
