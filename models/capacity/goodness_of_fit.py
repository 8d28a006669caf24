"""Whether the law may be fitted to the points at all, and whether it describes them.

The checks of B. Schwartz and E. Fortune, *Forecasting MySQL Scalability with the Universal
Scalability Law* (Percona): efficiency X/(λN) must not exceed 1, residuals must have no pattern, and
Threads_running of two or three makes points that look almost random.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from models.arrays import Array
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import FULL_UTILISATION, ResourceLimit
from models.numerics import TINY, median, quantile
from models.reason_enum import ReasonEnum
from models.robust_regression import neighbour_deviation, persistence
from models.shared_constants import (
    CERTAIN_Z,
    GROUP_INTERVALS,
    HIGH_QUANTILE,
    MAJORITY,
    MIN_CURVE_POINTS,
    MIN_MEETING_CONCURRENCY,
    MIN_NOISE,
    MIN_POINTS,
    SEEN_QUANTILE,
    TOLERATED_CHANGE,
)
from models.trust import MAX_ERROR, Reason, Trust
from models.usl.fit import SUPERLINEAR_SHARE, UslFit
from models.usl.law import Usl

LOW_CONCURRENCY = 4.0
"""Sampled concurrency below this, in threads, is not used."""


class Check(ReasonEnum):
    """A possible problem of the points, or of the law through them."""

    FEW_POINTS = (
        "few_points",
        "fewer than six of the intervals used have a mean concurrency of 0.5 or more",
    )
    LOW_CONCURRENCY = (
        "low_concurrency",
        "with so few statements contention cannot be distinguished from chance",
    )
    NOISY = (
        "noisy_concurrency",
        "the number of running threads varies more by chance than with the load",
    )
    SUPERLINEAR = (
        "superlinear",
        "throughput grows faster than concurrency, which the law cannot describe",
    )
    PATTERN = (
        "pattern_in_residuals",
        "the law is too high at some loads and too low at others: its shape is wrong",
    )


@dataclass(frozen=True)
class Finding:
    """One check that failed, and the number that it failed on."""

    check: Check
    value: float

    @property
    def refuses(self) -> bool:
        """Whether the law must not be fitted."""
        return self.check in (Check.FEW_POINTS, Check.LOW_CONCURRENCY, Check.NOISY)


def check_concurrency(loaded: Observations) -> Finding | None:
    """Return why no law may be fitted to these intervals; None where it may."""
    n, variance = loaded.concurrency, loaded.n_variance
    if len(n) < MIN_POINTS:
        return Finding(Check.FEW_POINTS, float(len(n)))
    high, is_sampled = quantile(n, HIGH_QUANTILE), bool(variance.any())
    if high < (LOW_CONCURRENCY if is_sampled else MIN_MEETING_CONCURRENCY):
        return Finding(Check.LOW_CONCURRENCY, high)
    if not is_sampled:
        return None
    # the share of the spread that is not the noise of sampling
    reliable = 1 - float(np.mean(variance)) / max(float(np.var(n)), TINY)
    return Finding(Check.NOISY, reliable) if reliable < MAJORITY else None


class MergedPoints(NamedTuple):
    """The points to which the law is fitted; arrays of shape (points,)."""

    n: Array
    """N, threads."""
    x: Array
    """X, queries/s."""
    weights: Array
    """How many intervals each represents."""
    n_variance: Array
    busy: Array
    """The use of the resource that is full first, as a share of its ceiling; NaN: not known."""


def merge_noisy(loaded: Observations, busy: Array | None = None) -> MergedPoints:
    """Merge neighbours in throughput until each concurrency is known within 5 %.

    `busy` has shape (intervals,). Points that are exact stay in the order of time. Noise in N tilts
    a fit over N towards contention; throughput is exact, so that grouping by throughput does not
    (measured: the bias of Nmax falls from 90 % to 1 %).
    """
    n, x, w, v = loaded.concurrency, loaded.throughput, loaded.weights, loaded.n_variance
    busy = np.full(len(x), np.nan) if busy is None else busy
    if not v.any():
        return MergedPoints(n, x, w, v, busy)
    order = np.argsort(x, kind="stable")
    starts, total, noise = [0], 0.0, 0.0
    for place, i in enumerate(order):
        if place and noise <= (MAX_ERROR * total) ** 2:
            starts.append(place)
            total = noise = 0.0
        total, noise = total + n[i], noise + v[i]
    edges = np.array(starts)
    weight = np.add.reduceat(w[order], edges)
    sizes = np.diff(np.append(edges, len(order)))
    n, x, v, busy = (np.add.reduceat(column[order], edges) / sizes for column in (n, x, v, busy))
    return MergedPoints(n, x, weight, v / sizes, busy)


def check_fit(n: Array, x: Array, weights: Array, n_variance: Array, law: Usl) -> Finding | None:
    """Return why a law does not describe these points, shape (points,); None where it does.

    n and n_variance in threads (squared), x in queries/s.
    """
    residuals = np.log(x / law.throughput(n))
    noise = _residual_noise(n, residuals)
    above = np.log(x / (law.lam * n)) - 2 * np.sqrt(n_variance) / n
    least = max(float(np.log1p(TOLERATED_CHANGE)), 2 * noise)
    share = float(weights @ (above > least)) / float(weights.sum())
    if share > SUPERLINEAR_SHARE:
        return Finding(Check.SUPERLINEAR, share)
    worst = _residual_pattern(n, residuals, noise)
    return Finding(Check.PATTERN, worst) if abs(worst) > MAX_ERROR else None


def _residual_noise(n: Array, residuals: Array) -> float:
    """Estimate the deviation of a residual from neighbours in load, whatever the law."""
    return max(neighbour_deviation(residuals, n), MIN_NOISE)


def _residual_pattern(n: Array, residuals: Array, noise: float) -> float:
    """Find the greatest median residual of a group of neighbours in load beyond its error, or 0."""
    if len(n) < MIN_CURVE_POINTS:
        return 0.0
    error = noise * np.sqrt(persistence(residuals))
    groups = np.array_split(residuals[np.argsort(n, kind="stable")], GROUP_INTERVALS)
    centre = median(residuals)
    off = [(median(g) - centre, error * np.sqrt(np.pi / 2 / len(g))) for g in groups]
    beyond = [size for size, deviation in off if abs(size) > CERTAIN_Z * deviation]
    return max(beyond, key=abs, default=0.0)


def limit_trust_by_finding(law: UslFit | None, finding: Finding | None) -> UslFit | None:
    """Return the law, indicative at most where a finding shows that its shape is wrong."""
    if law is None or finding is None:
        return law
    doubt = Reason.SUPERLINEAR if finding.check is Check.SUPERLINEAR else Reason.RESIDUAL_PATTERN
    reasons = tuple(reason for reason in Reason if reason in {*law.reasons, doubt})
    return replace(law, trust=law.trust.at_most(Trust.INDICATIVE), reasons=reasons)


def error_at_highest_loads(seen: Observations, limit: ResourceLimit) -> float:
    """Compute by which share a limit's resource was busier at the highest loads than its curve.

    A few intervals hardly influence a limit, which is right for a backup, but at the highest loads
    they show where it is: the second half of the hyper-threads does less than the first. 0 where
    the utilisation is known in too few intervals.
    """
    resource, x = seen.resource(limit.resource), seen.throughput
    u = resource.relative_own_use
    known = (u < FULL_UTILISATION) & (x > 0)
    if resource.is_busy_time or limit.curve is None or np.count_nonzero(known) < MIN_CURVE_POINTS:
        return 0.0
    top = known & (x >= quantile(x[known], SEEN_QUANTILE))
    # of a resource that is little used, an error counts less
    return median(u[top] - limit.curve.at(x[top])) / max(median(u[top]), MAJORITY)
