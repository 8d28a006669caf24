"""How a utilisation goes on beyond what was seen: its demand stays, grows, or falls.

Utilisation law U = U0 + D·X (Denning, Buzen 1978), with a demand per query that need not stay:

    it grows, contention burns the resource:         U = U0 + D·X + Q·X²              (1)
    it falls, a query that finds the resource idle
    pays w for waking it, the others do not:         U = U0 + D·X + w·X·(1 − U)       (2)

Queries come at any time, so a share 1 − U of them finds one processor idle. (2) is linear in U0,
a = D + w and w where U is known: U = U0 + a·X − w·X·U. Where it is measured how many queries find
the processor busy (`idleness`), that share B stands once more in the place of U:

    U = U0 + a·X − w·X·B                                                              (3)

How much of each: `demand_extrapolation`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from models.capacity.batched_cost_share import SharedCost
from models.capacity.idle_processor_wakeups import CpuWakeups
from models.capacity.limit_types import OTHER_PROGRAMS_SHARE
from models.capacity.sample_sizes import SIGNIFICANT_Z
from models.robust import LinearFit, fit_each
from models.usl.law import Array

MIN_UTILISATION_NOISE = 0.002
"""The least deviation of a utilisation."""
BASE_PRIOR = (0.02, 0.1)
"""U0, mean and deviation, as shares of the ceiling: matters where all loads are alike."""
OWN_BASE_PRIOR = (0.005, 0.015)
"""The same for what the server itself uses: one that is asked nothing uses next to nothing."""
MODEL_PRIORS = (0.8, 0.12, 0.08)
"""The probabilities that it stays, grows, falls with the utilisation."""
PROCESSOR_MODEL_PRIORS = (0.3, 0.1, 0.6)
"""The same for a processor, of which the server's own part is known: waking it costs."""
WAKEUP_MODEL_PRIORS = (0.1, 0.1, 0.5, 0.3)
"""The same, and that it falls by (3), where it is measured how many queries find it busy."""
UNCOUNTED_WAKEUP_MODEL_PRIORS = (0.27, 0.1, 0.53, 0.1)
"""The same, and that it falls by (3) and nothing shows of it: nobody counts idle entries."""
LOG_MODEL_PRIORS = (0.4, 0.4)
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
    shares: tuple[float, ...] = MODEL_PRIORS
    """Of the models in `demand_extrapolation`, in their order."""
    idleness: CpuWakeups | None = None
    wakes_unseen: float | None = None
    """One second of processor time as a part of the demand, where idle entries are not counted and
    each query may have woken the processor; None: they are, or it is no processor."""
    log_sharing: SharedCost | None = None

    @cached_property
    def curved(self) -> LinearFit:
        """With its base's prior, and any curvature."""
        return self.fit.given(0, *self.base)

    @cached_property
    def straight(self) -> LinearFit:
        """The same, without a curvature."""
        return self.curved.given(2, 0.0, 1e-6)

    @cached_property
    def at_full_load(self) -> LinearFit:
        """Its straight line once the server needs the whole resource.

        Other programs then keep between nothing and all of what they use at the highest loads: the
        scheduler may divide processors again, a hypervisor may not. Mean and deviation of an
        arcsine distribution between the two.
        """
        straight = self.straight
        base, slope, _ = straight.coefficients.tolist()
        if base <= OTHER_PROGRAMS_SHARE:
            return straight
        use = base + min(slope, 0.0)
        to_highest = np.diag([1.0, float(slope > 0), 1.0])
        to_highest[0, 1] = float(slope < 0)
        covariance = to_highest @ straight.covariance @ to_highest.T
        covariance[0, 0] += use**2 / 8
        coefficients = np.array([use / 2, max(slope, 0.0), straight.coefficients[2]])
        return replace(straight, coefficients=coefficients, covariance=covariance)

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


class FittedParts(NamedTuple):
    """The parts of a utilisation, of which the first may fall."""

    parts: Sequence[Part]
    busy: Sequence[Array]
    """The share of queries that find it busy, by each measure of it: U, and B."""
    awake: Sequence[LinearFit]
    """The first part by (2) and (3) with these: the coefficients of 1, t and −t·busy."""


def fit_parts(many: Sequence[Sequence[Part]]) -> list[FittedParts]:
    """Fit (2) and (3) to the first parts of several utilisations, where they are a demand.

    All are over the same t. At once, for one of them numpy's calls take longer than what they
    compute.
    """
    shares = [_busy(parts) if parts[0].is_demand(SIGNIFICANT_Z) else [] for parts in many]
    each = [(parts[0], busy) for parts, some in zip(many, shares, strict=True) for busy in some]
    fits = iter(_awake(each) if each else ())
    return [
        FittedParts(parts, busy, [next(fits) for _ in busy])
        for parts, busy in zip(many, shares, strict=True)
    ]


def _busy(parts: Sequence[Part]) -> list[Array]:
    """List the whole utilisation, smooth, and the measured shares that find it busy."""
    t, measured = parts[0].t, (parts[0].idleness, parts[0].log_sharing)
    base, slope, bend = sum((part.curved.coefficients for part in parts), np.zeros(3))
    whole = np.clip(base + t * (slope + t * bend), 0.0, 1.0)
    return [whole, *(each.saved for each in measured if each is not None)]


def _awake(each: Sequence[tuple[Part, Array]]) -> list[LinearFit]:
    """Fit each part with the share that finds it busy."""
    t = each[0][0].t
    designs = np.empty((len(each), len(t), 3))
    designs[:, :, 0], designs[:, :, 1] = 1.0, t
    designs[:, :, 2] = -t * np.array([busy for _, busy in each])
    u, weights = (np.array([getattr(p, c) for p, _ in each]).T for c in ("u", "weights"))
    fits = fit_each(designs, u, weights, MIN_UTILISATION_NOISE)
    return [fit.given(0, *p.base) for fit, (p, _) in zip(fits, each, strict=True)]
