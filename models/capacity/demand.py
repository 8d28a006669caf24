"""How a utilisation goes on beyond what was seen: its demand stays, grows, or falls.

Utilisation law U = U0 + D·X (Denning, Buzen 1978), with a demand per query that need not stay:

    it grows, contention burns the resource:         U = U0 + D·X + Q·X²              (1)
    it falls, a query that finds the resource idle
    pays w for waking it, the others do not:         U = U0 + D·X + w·X·(1 − U)       (2)

Queries come at any time, so a share 1 − U of them finds one processor idle. (2) is linear in U0,
a = D + w and w where U is known: U = U0 + a·X − w·X·U. How much of each: `courses`.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from models.robust import LinearFit, fit_linear
from models.usl import Array

NOISE = 0.002
"""The least deviation of a utilisation."""
BASE_PRIOR = (0.02, 0.1)
"""U0, mean and deviation, as shares of the ceiling: matters where all loads are alike."""
OWN_BASE_PRIOR = (0.005, 0.015)
"""The same for what the server itself uses: one that is asked nothing uses next to nothing."""
SHARES = (0.8, 0.12, 0.08)
"""The probabilities that it stays, grows, falls."""
OWN_SHARES = (0.3, 0.1, 0.6)
"""The same for a processor, of which the server's own part is known: waking it costs."""


@dataclass(frozen=True, eq=False)
class Part:
    """One part of a utilisation over throughput t, and what is believed of its base."""

    t: Array = field(repr=False)
    u: Array = field(repr=False)
    weights: Array = field(repr=False)
    """Shape (intervals,), all three; weight 0 where it does not count."""
    fit: LinearFit
    """Coefficients of 1, t and t²."""
    base: tuple[float, float] = BASE_PRIOR
    shares: tuple[float, float, float] = SHARES

    @cached_property
    def bent(self) -> LinearFit:
        """With its base's prior, and any curvature."""
        return self.fit.given(unit(0), *self.base)

    @cached_property
    def straight(self) -> LinearFit:
        """The same, without a curvature."""
        return self.bent.given(unit(2), 0.0, 1e-6)

    @property
    def slope(self) -> float:
        """What one more unit of throughput adds."""
        return float(self.straight.coefficients[1])

    def is_demand(self, errors: float) -> bool:
        """Whether it grows with the throughput, by more than so many standard errors."""
        return self.slope > errors * float(np.sqrt(max(self.straight.covariance[1, 1], 0.0)))

    def awake(self, total: Array) -> LinearFit:
        """Fit (2): the coefficients of 1, t and −t·U, where total is U at each t."""
        design = np.stack([np.ones_like(self.t), self.t, -self.t * total], axis=1)
        return fit_linear(design, self.u, self.weights, NOISE).given(unit(0), *self.base)


def unit(index: int) -> Array:
    """Point along one of the three coefficients."""
    row = np.zeros(3)
    row[index] = 1.0
    return row
