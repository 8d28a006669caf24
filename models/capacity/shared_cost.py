"""A cost that one query pays for all: the share of queries that avoid it, from a counter of it.

An idle processor is woken once for all queries that arrive while it runs, and a log is written and
flushed once for all that commit meanwhile (group commit: D. DeWitt and others 1984; D. Gawlick, D.
Kinkade 1985). At low loads each query pays; the more queries overlap, the fewer pay. So the cost
per query falls, and how far it has fallen is measured, not assumed.
"""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from models.arrays import Array
from models.numerics import quantile
from models.shared_constants import HIGH_QUANTILE, MIN_POINTS

MIN_LOAD_SHARE = 0.2
"""The share of the highest throughput from which on background activity hardly counts."""
POLYNOMIAL_DEGREE = 3
"""Of the polynomial that smooths the share over the throughput: the share is a regressor, and noise
of its own would hide what it explains."""


@dataclass(frozen=True, eq=False)
class SharedCost:
    """The share of queries that were spared a cost, in each interval."""

    saved: Array = field(repr=False)
    """The share of the queries that did not pay it, shape (intervals,); NaN where not known."""
    per_query: float
    """How often a query pays it at low loads."""

    @classmethod
    def of(cls, x: Array, paid: Array) -> Self | None:
        """Compute the share from how often a query pays, compared with low loads.

        x in queries/s, paid per second, both of shape (intervals,). None where too few are
        known.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            per_query = np.where(x > 0, paid / x, np.nan)
        known = np.isfinite(per_query)
        if np.count_nonzero(known) < MIN_POINTS:
            return None
        loaded = known & (x >= MIN_LOAD_SHARE * x[known].max())
        at_low_load = quantile(per_query[loaded], HIGH_QUANTILE)
        if at_low_load <= 0:
            return None
        return cls(np.clip(1 - per_query / at_low_load, 0.0, 1.0), at_low_load)

    def with_saved(self, saved: Array) -> Self:
        """Return the cost for other intervals: `saved` of shape (intervals,)."""
        return replace(self, saved=saved)

    def smoothed(self, t: Array, otherwise: Array, weights: Array) -> Self:
        """Return the cost with `saved` smoothed over the throughput t, by weight.

        Where `saved` is not known, `otherwise` is used. All of shape (intervals,).
        """
        saved = np.where(np.isfinite(self.saved), self.saved, np.clip(otherwise, 0.0, 1.0))
        used = (weights > 0) & np.isfinite(saved)
        if np.count_nonzero(used) <= POLYNOMIAL_DEGREE:
            return self.with_saved(np.nan_to_num(saved))
        powers = np.vander(t, POLYNOMIAL_DEGREE + 1)
        root = np.sqrt(weights[used])
        rows, right = powers[used] * root[:, None], saved[used] * root
        coefficients = np.linalg.lstsq(rows, right, rcond=None)[0]
        return self.with_saved(np.clip(powers @ coefficients, 0.0, 1.0))
