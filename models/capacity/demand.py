"""How a utilisation goes on beyond what was seen: its demand stays, grows, or falls.

Utilisation law U = U0 + D·X (Denning, Buzen 1978), with a demand per query that need not stay:

    it grows, contention burns the resource:         U = U0 + D·X + Q·X²              (1)
    it falls, a query that finds the resource idle
    pays w for waking it, the others do not:         U = U0 + D·X + w·X·(1 − U)       (2)

Queries come at any time, so a share 1 − U of them finds one processor idle. (2) is linear in U0,
a = D + w and w where U is known: U = U0 + a·X − w·X·U. Where it is measured how many queries find
the processor busy (`idleness`), that share B stands once more in the place of U:

    U = U0 + a·X − w·X·B                                                              (3)

How much of each: `extrapolations`.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from models.capacity.cpu_wakeups import CpuWakeups
from models.capacity.shared_cost import SharedCost
from models.robust import LinearFit, fit_linear
from models.usl.law import Array

NOISE = 0.002
"""The least deviation of a utilisation."""
BASE_PRIOR = (0.02, 0.1)
"""U0, mean and deviation, as shares of the ceiling: matters where all loads are alike."""
OWN_BASE_PRIOR = (0.005, 0.015)
"""The same for what the server itself uses: one that is asked nothing uses next to nothing."""
SHARES = (0.8, 0.12, 0.08)
"""The probabilities that it stays, grows, falls with the utilisation."""
OWN_SHARES = (0.3, 0.1, 0.6)
"""The same for a processor, of which the server's own part is known: waking it costs."""
MEASURED_SHARES = (0.1, 0.1, 0.5, 0.3)
"""The same, and that it falls by (3), where it is measured how many queries find it busy."""
UNMEASURED_SHARES = (0.27, 0.1, 0.53, 0.1)
"""The same, and that it falls by (3) and nothing shows of it: nobody counts idle entries."""
LOG_SHARES = (0.4, 0.4)
"""Beside these, that it falls by (3) as more commits share the writes of the log: slowly, fast."""


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
    shares: tuple[float, ...] = SHARES
    """Of `extrapolations`, in their order."""
    idleness: CpuWakeups | None = None
    wakes_unseen: float | None = None
    """One second of processor time as a part of the demand, where idle entries are not counted and
    each query may have woken the processor; None: they are, or it is no processor."""
    log_sharing: SharedCost | None = None

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

    @property
    def slope_error(self) -> float:
        """The standard error of the slope."""
        return float(np.sqrt(max(self.straight.covariance[1, 1], 0.0)))

    def is_demand(self, errors: float) -> bool:
        """Whether it grows with the throughput, by more than so many standard errors."""
        return self.slope > errors * self.slope_error

    def awake(self, busy: Array) -> LinearFit:
        """Fit (2) or (3): the coefficients of 1, t and −t·busy, which is U or B at each t."""
        design = np.stack([np.ones_like(self.t), self.t, -self.t * busy], axis=1)
        return fit_linear(design, self.u, self.weights, NOISE).given(unit(0), *self.base)


def unit(index: int) -> Array:
    """Point along one of the three coefficients."""
    row = np.zeros(3)
    row[index] = 1.0
    return row
