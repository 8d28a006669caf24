"""Classes that wait: by wait functions in the text, by time beyond the CPU, and for row locks.

The server counts row-lock waits for all statements together, not for each class:
`Innodb_row_lock_time` rises, when a wait ends, by the time that it took. MariaDB's LOCK_TIME of a
statement holds table and metadata locks only, so that a statement that queues for a hot row looks
as if it computed (measured: 37.2 s of the 38.3 s of such an UPDATE; its LOCK_TIME was 0.07 s).

A class that computes shares the CPU with all others, and its time per call rises with theirs; that
of a class that sleeps does not. With r_kt class k's time per call in interval t, q_kt that of the
other classes, both relative to their means, r = e·q + rest: e, the elasticity, is 1 for a class
that computes and 0 for one that only waits, whatever its calls, rows or share of the total.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array, Mask
from models.attribution.call_and_row_costs import USUAL_CPU
from models.attribution.class_interval_table import FOLDS
from models.attribution.nnls import fix_unknowns, minimise_non_negative
from models.attribution.sufficient_statistics import MIN_SHARE
from models.numerics import NEGLIGIBLE, TINY
from models.shared_constants import MIN_FIT_INTERVALS, UNLIKELY

IO_BOUND_SHARE = 0.1
"""Share of the host's time spent waiting for IO above which times are not used."""

MIN_COMPUTING_LEVEL = 0.4
"""Least CPU seconds per second of work time of classes that compute, if threads get a CPU at once
(measured: 0.4 for a class that also writes or sends results, 0.9 for one that only computes)."""


def min_computing_level(running: float | None, io_wait: float | None) -> float:
    """Compute the least CPU that a computing class uses per second of its work time.

    `running` is the part of the threads' runnable time in which they had a CPU. Returns 0 if it is
    not known or the host waits for IO.
    """
    return (
        0.0
        if running is None or (io_wait or 0.0) > IO_BOUND_SHARE
        else MIN_COMPUTING_LEVEL * running
    )


def cannot_compute_all(work: Array, total: float, level: float) -> Mask:
    """Find classes whose time is more than computing can explain, shape (K,).

    Classes that compute use at least `level`·work, and together no more than the total: as long as
    they exceed it, the one with most work is taken to wait. This needs neither texts nor rows.
    """
    waiting = np.zeros(len(work), dtype=np.bool_)
    if level <= 0:
        return waiting
    for k in np.argsort(-work, kind="stable"):
        if level * work[~waiting].sum() <= total:
            break
        waiting[k] = True
    return waiting


def cap_waiting_work(work: Array, count: Array | None, waiting: Mask) -> Array:
    """Cut the work time of waiting classes, s, shape (T, K), to what their calls can cost."""
    if count is None:
        return np.where(waiting, 0.0, work)
    return np.where(waiting, np.minimum(work, USUAL_CPU["calls"] * count), work)


_LOCK_CLAUSE = re.compile(r"\bFOR\s+(?:UPDATE|SHARE)\b|\bLOCK\s+IN\s+SHARE\s+MODE\b", re.IGNORECASE)


def row_locking_classes(
    rows_affected: Array | None, texts: Sequence[str | None] | None
) -> Mask | None:
    """Find the classes that lock rows, shape (K,): they change rows, or their text requests locks.

    `rows_affected` has shape (T, K). Returns None if it is not known.
    """
    if rows_affected is None:
        return None
    words = texts or [None] * rows_affected.shape[1]
    pairs = zip(rows_affected.sum(axis=0), words, strict=True)
    return np.array(
        [bool(rows or (text and _LOCK_CLAUSE.search(text))) for rows, text in pairs], np.bool_
    )


def divide_lock_waits(work: Array, waited: Array, expected: Array) -> Array:
    """Divide the waits for locks of all classes over those that wait, s, shape (T, K).

    `work`, s, shape (T, K), is statement time less the lock time that the server counts for the
    class; `waited`, s, shape (T,), the waits that are in `work`; `expected`, shape (K,), up to a
    factor, the fraction of its work that a class is expected to wait, 0 for one that never does.
    Each class waits for a fraction of its work, between 0 and 1: least squares of the waits on the
    work, drawn towards what is expected as far as the intervals do not distinguish the classes.
    """
    result = np.zeros_like(work)
    classes = np.flatnonzero((expected > 0) & (work.sum(axis=0) > 0))
    if not len(classes):
        return result
    x, y = work[:, classes], np.minimum(waited, work[:, classes].sum(axis=1))
    total = float((x @ expected[classes]).sum())
    common = np.minimum(float(y.sum()) / total * expected[classes], 1.0)
    residual = y - x @ common
    ridge = float(np.sqrt(residual @ residual / max(len(y) - 1, 1))) + MIN_SHARE * float(x.max())
    matrix = x.T @ x + ridge**2 * np.eye(len(classes))
    vector = x.T @ y + ridge**2 * common
    fraction = minimise_non_negative(matrix, vector)
    if len(whole := np.flatnonzero(fraction > 1)):
        fix_unknowns(matrix, vector, whole, np.ones(len(classes)))
        fraction = minimise_non_negative(matrix, vector)
    result[:, classes] = np.minimum(fraction, 1.0) * x
    return result


COMPUTES_SPREAD = 0.2
"""Standard deviation of e about 1 for classes that compute (measured: e of 0.6 to 1.4)."""

WAITS_SPREAD = 0.6
"""Standard deviation of e about 0 for classes that wait (measured: e of 0 for sleepers, up to 0.5
for a lock whose holder computes, and 1.5 where the loads of all classes rise together, and with
them the queue for the lock)."""


@dataclass(frozen=True, slots=True)
class Elasticity:
    """Sums over parts of Σ n·dq², Σ n·dq·dr, their squares and product, shape (5, K).

    n are the calls, dq and dr the deviations of q and r from their means in the part.
    """

    sums: Array

    @classmethod
    def of(cls, work: Array, count: Array, size: Array) -> "Elasticity":
        """Sum up one part: work, s, calls, and what calls and rows cost, each of shape (T, K)."""
        has_calls = count > 0
        mean_time = _ratio(work.sum(axis=0), count.sum(axis=0))
        own = _ratio(work, count * mean_time)
        others, known = _mean_of_others(own, np.where(has_calls, size, 0.0))
        calls = np.where(has_calls & known, count, 0.0)
        total_calls = calls.sum(axis=0)
        q = _ratio(others, _ratio((calls * others).sum(axis=0), total_calls)) - 1
        r = _ratio(own, _ratio((calls * own).sum(axis=0), total_calls)) - 1
        qq, qr = (calls * q * q).sum(axis=0), (calls * q * r).sum(axis=0)
        return cls(np.stack((qq, qr, qq * qq, qq * qr, qr * qr)))

    @classmethod
    def of_parts(cls, work: Array, count: Array, size: Array) -> "Elasticity":
        """Sum up many intervals, shape (T, K), part by part; few intervals are one part."""
        if len(work) < MIN_FIT_INTERVALS:
            return cls.of(work, count, size)
        parts = max(FOLDS, len(work) // MIN_FIT_INTERVALS)
        pieces = zip(*(np.array_split(t, parts) for t in (work, count, size)), strict=True)
        return cls(np.sum([cls.of(*piece).sums for piece in pieces], axis=0))

    def __add__(self, other: "Elasticity") -> "Elasticity":
        """Add other parts of the same classes."""
        return Elasticity(self.sums + other.sums)

    def at(self, places: Sequence[int] | NDArray[np.intp]) -> "Elasticity":
        """Return the classes at these indices, (k,); −1 is a class of which nothing is known."""
        indices = np.asarray(places, dtype=np.intp)
        return Elasticity(np.where(indices >= 0, self.sums[:, indices], 0.0))

    def elasticities(self, size: Array) -> tuple[Array, Array]:
        """Fit e and its standard error, shape (K,), NaN where there is none.

        e is relative to its mean over all classes, weighted by `size`. Errors of neighbouring
        intervals are correlated, so only parts count as independent. A time per call that never
        varies was computed, not measured, and has none.
        """
        qq, qr, q4, q3r, q2r2 = self.sums
        unit = np.where((qq > 0) & (q4 < qq * qq) & (q2r2 > NEGLIGIBLE * q4), qq, np.nan)
        e = qr / unit
        error = np.sqrt(np.maximum(q2r2 - 2 * e * q3r + e * e * q4, 0.0)) / unit
        known = np.isfinite(e)
        total = np.where(known, size, 0.0)
        mean = float(total @ np.where(known, e, 0.0)) / max(float(total.sum()), TINY)
        scale = mean if mean > 0 else np.nan  # 1 except for noise in q, which the division cancels
        return e / scale, error / scale

    def evidence(self, size: Array) -> Array:
        """Compute the log likelihood ratio of e, waiting over computing, shape (K,).

        0 if unknown: few intervals, or a queue that never changes. An e far above 1 never means
        waiting: if many calls wait, the mean e is low, and computing classes are high relative to
        it.
        """
        e, error = self.elasticities(size)
        known = np.isfinite(e)
        e, error = np.where(known, np.clip(e, 0.0, 1.0), 0.0), np.where(known, error, 1.0)
        waits = _log_normal(e, np.hypot(error, WAITS_SPREAD))
        computes = _log_normal(e - 1, np.hypot(error, COMPUTES_SPREAD))
        computes_or_reads = np.logaddexp(computes + np.log(1 - UNLIKELY), waits + np.log(UNLIKELY))
        return np.where(known, waits - computes_or_reads, 0.0)


def _mean_of_others(own: Array, weight: Array) -> tuple[Array, Mask]:
    """Compute q, the weighted mean of the other classes, and where it exists, shape (T, K) each."""
    weighted = own * weight
    rest = weight.sum(axis=1, keepdims=True) - weight
    known = rest > NEGLIGIBLE * weight
    sums = weighted.sum(axis=1, keepdims=True) - weighted
    return np.where(known, sums / np.where(known, rest, 1.0), 0.0), known


def _ratio(part: Array, whole: Array) -> Array:
    """Divide `part` by `whole`, which may have the shape of the columns alone; 0 where it is 0."""
    is_positive = whole > TINY
    return np.where(is_positive, part / np.where(is_positive, whole, 1.0), 0.0)


def _log_normal(off: Array, spread: Array) -> Array:
    result: Array = -0.5 * (off / spread) ** 2 - np.log(spread)
    return result
