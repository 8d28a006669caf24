"""The distribution of a capacity: P(C ≤ x) for any load x."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, log
from typing import Self

import numpy as np

from models.capacity.sample_sizes import MIN_NOISE
from models.numerics import ROUNDING
from models.robust import NORMAL_95, normal_cdf
from models.usl.law import Array

UNBOUNDED_SPREAD = 2.0
"""Without a 95 % quantile the capacity may be as much higher as lower, and as much again."""
UNKNOWN_LOWER_DEVIATION = 1.0
"""The deviation of the logarithm below the median where the 5 % quantile says nothing."""
TABLE_DEVIATIONS, TABLE_SIZE = 4.0, 129
"""A table of a distribution reaches so many deviations to either side, at so many places,
one of them the middle."""


@dataclass(frozen=True, eq=False, slots=True)
class Distribution:
    """P(C ≤ x) as a table over ln x, both of shape (places,), rising.

    Above the last place nothing more is known: there the probability stays as it is at that place.
    """

    ln_x: Array = field(repr=False)
    cdf: Array = field(repr=False)

    @classmethod
    def of_quantiles(cls, lower: float, median: float, upper: float | None) -> Self:
        """A split normal of ln C with these 5, 50 and 95 % quantiles (queries/s)."""
        down = _spread(median / lower) if lower > 0 else UNKNOWN_LOWER_DEVIATION
        known = upper is not None and upper < inf
        up = _spread(upper / median) if upper and known else UNBOUNDED_SPREAD * down
        z = np.linspace(-TABLE_DEVIATIONS, TABLE_DEVIATIONS, TABLE_SIZE)
        return cls(log(median) + np.where(z < 0, down, up) * z, normal_cdf(z))

    @property
    def median(self) -> float:
        """The 50 % quantile, queries/s; the last place where that is not reached."""
        return float(self.quantiles([0.5])[0])

    def at_most(self, load: Array | float) -> Array:
        """Compute P(C ≤ load), the load in queries/s, of any shape."""
        tiny = np.finfo(np.float64).tiny
        reached: Array = np.interp(np.log(np.maximum(load, tiny)), self.ln_x, self.cdf, left=0.0)
        return reached

    def lowered(self, least: float) -> "Distribution":
        """Lower the half below the median by factors between `least` and 1, lowest first.

        Without a unit, they have an arcsine distribution: near one of the two rather than between.
        """
        ln_x, cdf = self.ln_x, self.cdf
        if cdf[-1] > 0.5:  # the median becomes a place of the table, so that it stays
            at = np.searchsorted(cdf, 0.5)
            ln_x, cdf = np.insert(ln_x, at, log(self.median)), np.insert(cdf, at, 0.5)
        factors = (1 + least) / 2 - (1 - least) / 2 * np.cos(np.pi * np.minimum(2 * cdf, 1.0))
        return Distribution(ln_x + np.log(factors), cdf)

    def quantiles(self, shares: Sequence[float] | Array) -> Array:
        """Compute the quantiles (queries/s); the last place where a share is not reached."""
        rising = self.cdf + ROUNDING * np.arange(len(self.cdf))
        found: Array = np.exp(np.interp(shares, rising, self.ln_x))
        return found


def _spread(ratio: float) -> float:
    """Compute the deviation of ln C: C's median over its 5 % quantile, or 95 % over the median."""
    return max(log(ratio) / NORMAL_95, MIN_NOISE)
