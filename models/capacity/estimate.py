"""The estimate of the capacity, without its trust: from limits, from the law, or as observed.

Resource limits and contention's peak are both uncertain. The lowest of independent quantities is
above c when each of them is: P(C > c) = P(peak > c) · P(lowest limit > c), and the probability of
each to be the lowest follows from their hazards.
"""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from models.arrays import Array
from models.capacity.contention_peak import MIN_CONTENDING, ContentionPeak
from models.capacity.distribution import Distribution
from models.capacity.goodness_of_fit import Check, Finding
from models.capacity.highest_throughput_likelihood import likelihood
from models.capacity.observations import Observations
from models.capacity.observed_peak import ObservedPeak, throughput_spread
from models.capacity.resource_and_limit import ResourceLimit
from models.capacity.result import USL
from models.numerics import QUANTILES, ROUNDING, TABLE_SIZE, TINY
from models.shared_constants import TOLERATED_CHANGE
from models.trust import Reason, Trust
from models.usl.fit import UslFit

MISFIT_REASONS = {
    Reason.SEEN_ABOVE_PEAK,
    Reason.NOISY_POINTS,
    Reason.RESIDUAL_PATTERN,
    Reason.SUPERLINEAR,
}
"""Reasons with which the law alone, where no resource is known, tells only what was served."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Median, 5 and 95 % quantile of the capacity (queries/s), and what sets it."""

    value: float | None
    """None: only a lower bound is known."""
    lower: float
    upper: float | None
    """None: no upper bound is known."""
    shares: dict[str, float]
    """The probability of each limit to be the lowest; empty where only a bound is known."""
    x_seen: float
    """The highest throughput that was held for a while, queries/s."""
    distribution: Distribution | None = field(repr=False, default=None)
    observed: bool = False
    """Whether the peak was passed, so that nothing is extrapolated."""
    settling_throughput: float | None = None
    """The load to measure next, where there is only a lower bound; queries/s."""

    @property
    def ratio(self) -> float:
        """The 95 % quantile over the 5 % quantile."""
        return np.inf if self.upper is None or not self.lower else self.upper / self.lower

    @property
    def limit(self) -> str | None:
        """The name of what most likely ends the growth; None: not known."""
        return max(self.shares, key=lambda name: self.shares[name], default=None)

    @classmethod
    def at_least(cls, bound: float, x_seen: float, settle: float | None = None) -> Self:
        """Create an estimate that is only a lower bound, queries/s."""
        return cls(None, bound, None, {}, x_seen, settling_throughput=settle)

    def lowered(self, least: float) -> "Estimate":
        """Return the estimate with its lower half extended down to `least` (queries/s)."""
        if self.distribution is None or self.value is None or least >= self.value:
            return self
        lowered = self.distribution.lowered(least / self.value)
        low = float(lowered.quantiles(QUANTILES[:1])[0])
        return replace(self, lower=low, distribution=lowered)

    def extended_down(self, bound: float) -> "Estimate":
        """Return the estimate with a lower bound of at most `bound` (queries/s)."""
        if self.value is None or bound >= self.lower:
            return self
        return self.lowered(self.value * bound / self.lower)

    @classmethod
    def of_observed(cls, peak: ObservedPeak, x_seen: float) -> Self:
        """Create the estimate from the throughput at a peak that was passed."""
        spread = throughput_spread(peak.error)
        x = peak.throughput
        quantiles = Distribution.of_quantiles(x / spread, x, x * spread)
        seen = max(x_seen, x)
        shares = {peak.resource: 1.0}
        return cls(x, x / spread, x * spread, shares, seen, quantiles, observed=True)

    @classmethod
    def of_law(cls, law: UslFit | None, finding: Finding | None, x_seen: float) -> Self:
        """Create the estimate from the law's peak, or a lower bound if that is not identifiable."""
        if finding is not None and finding.check is Check.LOW_CONCURRENCY:
            # without contention N grows with X
            return cls.at_least(x_seen, x_seen, x_seen * MIN_CONTENDING / finding.value)
        if law is None or law.x_max is None or law.x_max_interval is None:
            return cls.at_least(x_seen, x_seen)
        is_misfit = finding is not None or not MISFIT_REASONS.isdisjoint(law.reasons)
        if law.x_max_median is None or is_misfit:
            return cls.at_least(x_seen, x_seen)
        low, high = law.x_max_interval.low, law.x_max_interval.high
        if law.trust is Trust.NOT_IDENTIFIABLE:
            settle = law.settle_concurrency
            load = float(law.law.throughput(settle)) if settle else None
            return cls.at_least(max(min(low, law.x_max), x_seen), x_seen, load)
        low, high = low / (1 + TOLERATED_CHANGE), high * (1 + TOLERATED_CHANGE)
        quantiles = Distribution.of_quantiles(low, law.x_max, high)
        return cls(law.x_max, low, high, {USL: 1.0}, x_seen, quantiles)

    @classmethod
    def of_lowest(
        cls, usable: list[ResourceLimit], peak: ContentionPeak, served: Observations, x_seen: float
    ) -> Self:
        """Create the estimate from the lowest of limits and peak, given what was served."""
        ends = [float(limit.grid[-1]) for limit in usable]
        grid = np.linspace(np.log(x_seen) - 0.1, max(min(ends), np.log(x_seen) + 0.2), TABLE_SIZE)
        names = [limit.resource for limit in usable] + [USL]
        survivals = [limit.survival(grid) for limit in usable] + [peak.survival(grid)]
        each = np.maximum(np.array(survivals), ROUNDING)
        each = np.minimum(each / each[:, :1], 1.0)
        each[:-1] = _factors_of_lowest_survival(each[:-1])
        lowest = lowest_of(usable)
        possible = likelihood(grid, served, lowest.resource)
        survival = np.prod(each, axis=0)
        shares = _probabilities_to_be_lowest(each, survival, possible)
        survival = _posterior_survival(survival, possible)
        low, middle, high = map(float, np.exp(np.interp(QUANTILES, 1 - survival, grid)))
        upper = None if survival[-1] > QUANTILES[0] else high
        return cls(
            value=middle,
            lower=low,
            upper=upper,
            shares=dict(zip(names, map(float, shares), strict=True)),
            x_seen=x_seen,
            distribution=Distribution(grid, 1 - survival),
        )


def lowest_of(limits: list[ResourceLimit]) -> ResourceLimit:
    """Find the lowest of one or more limits."""
    return min(limits, key=lambda limit: limit.x_max or np.inf)


def _factors_of_lowest_survival(limits: Array) -> Array:
    """Divide the lowest survival of the limits into factors, one of each limit.

    A limit's factor falls where its survival is the lowest. Limits are not independent: the host's
    processors and the server's are one measurement.
    """
    least = np.minimum.accumulate(limits.min(axis=0))
    falls = np.diff(np.log(least), prepend=0.0)
    makes = np.arange(len(limits))[:, None] == np.argmin(limits, axis=0)
    parts: Array = np.exp(np.cumsum(makes * falls, axis=1))
    return parts


def _posterior_survival(survival: Array, likelihood: Array) -> Array:
    """Compute the survival after weighting its density by the likelihood of what was served."""
    falls = -np.diff(survival) * likelihood[1:]
    whole = float(falls.sum()) + float(survival[-1] * likelihood[-1])
    posterior: Array = 1 - np.append(0.0, np.cumsum(falls)) / max(whole, TINY)
    return posterior


def _probabilities_to_be_lowest(each: Array, survival: Array, likelihood: Array) -> Array:
    """Compute the probability of each to be the lowest: ∫ S(c)·L(c)·dH_i(c), H_i = −ln S_i."""
    hazards = -np.diff(np.log(each), axis=1)
    middle = (survival[1:] + survival[:-1]) / 2
    lowest = hazards @ (middle * likelihood[1:])
    shares: Array = lowest / max(float(lowest.sum()), TINY)
    return shares
