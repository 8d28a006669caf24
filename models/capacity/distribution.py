"""The distribution of a capacity: P(C ≤ x) for any load x."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log
from typing import Self

import numpy as np

from models.arrays import Array
from models.distribution_functions import NORMAL_95, normal_cdf
from models.numerics import ROUNDING, TABLE_SIZE
from models.shared_constants import MIN_NOISE

TABLE_DEVIATIONS = 4.0
"""The extent of a distribution's table, in deviations to either side."""


@dataclass(frozen=True, eq=False, slots=True)
class Distribution:
    """P(C ≤ x) as a table over ln x, both of shape (places,), ascending.

    Above the last place nothing more is known: there the probability stays as it is at that place.
    """

    ln_x: Array = field(repr=False)
    cdf: Array = field(repr=False)

    @classmethod
    def of_quantiles(cls, lower: float, median: float, upper: float) -> Self:
        """Create a split normal of ln C with these 5, 50 and 95 % quantiles (queries/s)."""
        down, up = _ln_deviation(median / lower), _ln_deviation(upper / median)
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
        """Return the distribution, the half below the median lowered by factors from `least` to 1.

        The lowest quantile gets `least`. The factors have an arcsine distribution: they are near
        one of the two rather than between.
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


def _ln_deviation(ratio: float) -> float:
    """Compute the deviation of ln C from the ratio of its median and its 5 or 95 % quantile."""
    return max(log(ratio) / NORMAL_95, MIN_NOISE)
