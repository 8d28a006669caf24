"""How much the error of one tick is that of the next: what n ticks are worth.

Costs that drift with the load, a checkpoint or a cold cache make a model err for many ticks in the
same way. Of errors with lag-1 autocorrelation ρ the mean of n is as uncertain as that of
n·(1 − ρ)/(1 + ρ) independent ones (G. Bayley, J. Hammersley, "The 'Effective' Number of
Independent Observations in an Autocorrelated Time Series", J. R. Stat. Soc. Suppl. 8 (1946)).
"""

from dataclasses import dataclass

import numpy as np

from models.attribution.class_intervals import Array
from models.robust import persistence_of

INFLATION = 2.0
"""Of the variance where hypotheses are compared, in any case: a tick's regressors err together."""
MOST_INFLATION = 10.0
MOST_MISSED = 0.5
"""No tick is missed by more than this part of what was expected: one accident is no echo."""


@dataclass(frozen=True)
class Autocorrelation:
    """Sums of the relative errors of successive ticks. Those of blocks of ticks add up."""

    products: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, y: Array, expected: Array) -> "Autocorrelation":
        """Sum up ticks one after the other, shape (T,)."""
        known = expected > 0
        off = np.where(known, y / np.where(known, expected, 1.0) - 1, 0.0)
        off = np.clip(off, -MOST_MISSED, MOST_MISSED)
        return cls(float(off[1:] @ off[:-1]), float(off @ off))

    def __add__(self, other: "Autocorrelation") -> "Autocorrelation":
        """Add other ticks."""
        return Autocorrelation(self.products + other.products, self.squares + other.squares)

    @property
    def inflation(self) -> float:
        """How many ticks tell no more than an independent one."""
        alike = float(persistence_of(self.products, self.squares))
        return min(INFLATION * alike, MOST_INFLATION)


NO_ECHO = Autocorrelation()
