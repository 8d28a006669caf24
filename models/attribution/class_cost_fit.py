"""The fit of class costs: priors, equations (C and b as shares of Σy), and result."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from models.arrays import Array, Quantity
from models.attribution.sufficient_statistics import INFLATION, MIN_SHARE, Moments
from models.numerics import NEGLIGIBLE, TINY

COMPUTE_SPREAD = 0.3
"""Relative standard deviation of the use per second of work time, over classes that compute
(measured: 0.12 on a quiet host to 0.32 on a saturated one)."""
WAIT_SPREAD = 2.0
"""Relative standard deviation of the use of a class that waits from that by shared unit costs."""
BASE_SHARE, BASE_SPREAD = 0.08, 0.1
"""Share of the total that no class explains (measured: 0.07 to 0.1), and its spread."""
TYPICAL_NOISE = 0.05
"""Approximate relative deviation of an interval: the start value of the noise, and what priors are
weighed against."""
MIN_FREE_SHARE = 0.75
"""Least share of the intervals that is left as degrees of freedom of the noise."""
NOISE_ITERATIONS = 2
"""Iterations for level and noise; after one, a hypothesis still has those of another."""
MISFIT_ERROR = 0.1
"""A relative error of this size per interval is no longer noise: the costs themselves vary, and the
variance is inflated once more."""


@dataclass(frozen=True)
class ClassPriors:
    """Priors per class, known before the total is used; units of y, shape (K,)."""

    by_size: Array
    """P_k: calls and rows at shared unit costs."""
    work: Array | None
    """W_k: work time, any unit; None where y does not depend on time. 0 for a class that cannot
    have computed all that time."""
    max_use: Array | None = None
    """The most that each can have used; None: not known."""
    min_computing_level: float | None = None
    """Lower bound of θ if y is CPU: CPU seconds per second of work; the upper bound is 1. None: y
    is something else."""
    wait_evidence: Array | None = None
    """Log of the likelihood ratio of a class's data, waiting over computing; None: no data."""
    inflation: float = INFLATION
    """The number of intervals with as much information as one independent interval."""


@dataclass(frozen=True)
class FittedMixture:
    """The use by each class over the intervals that were fitted, shape (K,), units of y."""

    totals: Array
    base: float
    """Use without any class: b·ΣΔt."""
    variances: Array
    """Of the totals, shape (K,)."""
    computing: Array
    """Probability that a class computes while it runs, 0..1."""
    level: float | None
    """θ: use per unit of work time, units of y per unit of work."""
    intervals: int

    @classmethod
    def without_use(cls, classes: int, total: float, intervals: int) -> Self:
        """Return a fit in which no class used anything: all of the total is the base."""
        zeros = np.zeros(classes)
        return cls(zeros, total, zeros, zeros + 1, None, intervals)

    @property
    def stderr(self) -> Array:
        """Standard error of each total, shape (K,), units of y."""
        return np.sqrt(np.maximum(self.variances, 0.0))


class NormalPrior(NamedTuple):
    """Normal prior of each C, shape (…, K)."""

    mean: Array
    precision: Array


@dataclass(frozen=True)
class MixtureProblem:
    """The fit of K classes in shares: of Σy, of Σ work, of each regressor's total.

    Methods take one level and noise, or several, shape (…,): for a single hypothesis numpy's calls
    take longer than the arithmetic.
    """

    moments: Moments
    size: Array
    """P_k, calls and rows at shared unit costs, shape (K,)."""
    max_share: Array
    work: Array
    """W_k, 0 for classes that cannot have computed."""
    work_unit: float
    levels: tuple[float, float]
    """Bounds of θ."""
    wait_evidence: Array
    """Evidence that a class waits, log of odds, shape (K,)."""
    inflation: float
    """The number of intervals with as much information as one independent interval."""

    @classmethod
    def of(cls, moments: Moments, priors: ClassPriors) -> "MixtureProblem":
        """Scale moments and priors to shares; Σy must be above 0."""
        work = np.zeros_like(priors.by_size) if priors.work is None else priors.work
        unit = float(work.sum()) or 1.0
        most = np.full_like(work, np.inf) if priors.max_use is None else priors.max_use
        most = most / moments.y_total
        size = np.minimum(priors.by_size / moments.y_total, most)
        levels = (NEGLIGIBLE, np.inf)
        if priors.min_computing_level is not None:
            unit_level = unit / moments.y_total
            levels = (max(priors.min_computing_level, NEGLIGIBLE) * unit_level, unit_level)
        waiting = np.zeros_like(work) if priors.wait_evidence is None else priors.wait_evidence
        return cls(
            moments.scaled(), size, most, work / unit, unit, levels, waiting, priors.inflation
        )

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.size)

    def level_of(self, used: ArrayLike, worked: ArrayLike) -> Array:
        """Compute the nearest possible level to used/worked, of any one shape; 0 without work.

        `used` in units of y, `worked` in units of work.
        """
        worked = np.asarray(worked)
        nearest = np.clip(used / np.maximum(worked, TINY), *self.levels)
        return np.where(worked > 0, nearest, 0.0)

    def unexplained_time_ratio(self, level: ArrayLike) -> Array:
        """Compute the ratio of each class's time to what its rows explain, shape (…, K)."""
        return np.multiply.outer(level, self.work / np.maximum(self.size, TINY))

    def spreads(self, level: ArrayLike) -> tuple[Array, Array]:
        """Compute the deviations of C if it computes, (…, K), and if it waits, (K,)."""
        least = MIN_SHARE / self.classes
        computes = np.maximum(np.multiply.outer(level, COMPUTE_SPREAD * self.work), least)
        waits = np.minimum(WAIT_SPREAD * self.size, self.max_share)
        return computes, np.maximum(waits, least)

    def prior(self, computing: Array, level: ArrayLike) -> NormalPrior:
        """Compute the prior of C at these probabilities of computing, 0..1, shape (…, K)."""
        computes, waits = self.spreads(level)
        by_time, by_size = computing / computes**2, (1 - computing) / waits**2
        precision = by_time + by_size
        worked = np.multiply.outer(level, self.work)
        return NormalPrior((by_time * worked + by_size * self.size) / precision, precision)

    def normal_equations(self, prior: NormalPrior, noise: ArrayLike) -> tuple[Array, Array]:
        """Set up normal equations of (C, b); `noise`: a variance.

        They have the shapes (…, K+1, K+1) and (…, K+1).
        """
        k, diagonal, weight = self.classes, np.arange(self.classes), 1 / np.asarray(noise)
        matrix = np.multiply.outer(weight, self.moments.gram)
        vector = np.multiply.outer(weight, self.moments.projection)
        matrix[..., diagonal, diagonal] += prior.precision
        vector[..., :k] += prior.precision * prior.mean
        matrix[..., k, k] += 1 / BASE_SPREAD**2
        vector[..., k] += BASE_SHARE / BASE_SPREAD**2
        return matrix, vector

    def prior_penalty(self, prior: NormalPrior, found: Array) -> Array:
        """Sum the squared deviations of (C, b), shape (…, K+1), from the priors, standardised."""
        k = self.classes
        off: Array = (prior.precision * (found[..., :k] - prior.mean) ** 2).sum(axis=-1)
        off += (found[..., k] - BASE_SHARE) ** 2 / BASE_SPREAD**2
        return off


def inflate_variance(variance: Quantity, factor: float = INFLATION) -> Quantity:
    """Inflate the variance of an interval, more so if its deviation is beyond `MISFIT_ERROR`."""
    return factor * variance * (1 + variance / MISFIT_ERROR**2)
