"""Fits of a utilisation whose demand stays, grows or falls beyond the loads seen.

Utilisation law U = U0 + D·X (Denning, Buzen 1978), with a demand per query that need not stay:

    it grows, contention burns the resource:         U = U0 + D·X + Q·X²              (1)
    it falls, a query that finds the resource idle
    pays w for waking it, the others do not:         U = U0 + D·X + w·X·(1 − U)       (2)

Queries arrive at random, so a share 1 − U of them finds a single processor idle. (2) is linear in
U0, a = D + w and w where U is known: U = U0 + a·X − w·X·U. Where the share B of queries that find
the processor busy is measured (`wakeups`), it takes the place of U in a further model:

    U = U0 + a·X − w·X·B                                                              (3)

`demand_extrapolation` weighs these models.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import hypot, sqrt
from typing import NamedTuple

import numpy as np

from models.arrays import Array
from models.capacity.resource_and_limit import OTHER_PROGRAMS_SHARE
from models.capacity.shared_cost import SharedCost
from models.robust_regression import LinearFit, fit_each
from models.shared_constants import CERTAIN_Z, LIKELY, POSSIBLE, SIGNIFICANT_Z, UNLIKELY

MIN_UTILISATION_NOISE = 0.002
"""The least deviation of a utilisation."""
BASE_PRIOR = (0.02, 0.1)
"""The prior of U0, mean and deviation, shares of the ceiling: it matters where loads are alike."""
OWN_BASE_PRIOR = (0.005, 0.015)
"""The same for the server's own use: without queries it uses next to nothing."""
MODEL_PRIORS = (LIKELY, UNLIKELY, UNLIKELY)
"""The prior probabilities, up to a factor, that the demand stays, grows, falls with the
utilisation."""
PROCESSOR_MODEL_PRIORS = (POSSIBLE, UNLIKELY, LIKELY)
"""The same for a processor of which the server's own part is known: waking it costs time."""
WAKEUP_MODEL_PRIORS = (UNLIKELY, UNLIKELY, LIKELY, POSSIBLE)
"""The same, and that it falls by (3), where the share of queries that find it busy is measured."""
UNCOUNTED_WAKEUP_MODEL_PRIORS = (*PROCESSOR_MODEL_PRIORS, UNLIKELY)
"""The same, and that it falls by (3) unseen, where idle entries are not counted."""


@dataclass(frozen=True, eq=False)
class UtilisationPart:
    """One part of a utilisation over throughput t, and the prior of its base."""

    t: Array = field(repr=False)
    u: Array = field(repr=False)
    weights: Array = field(repr=False)
    """All three have shape (intervals,); weight 0 where an interval does not count."""
    fit: LinearFit
    """Coefficients of 1, t and t²."""
    base: tuple[float, float] = BASE_PRIOR
    shares: tuple[float, ...] = MODEL_PRIORS
    """The prior probabilities of the models in `demand_extrapolation`, in their order."""
    wakeups: SharedCost | None = None
    wakeup_share_per_second: float | None = None
    """One second of processor time as a part of the demand, where idle entries are not counted and
    each query may have woken the processor; None: they are counted, or it is no processor."""
    log_sharing: SharedCost | None = None

    def given_base(self, fit: LinearFit) -> LinearFit:
        """Return a fit with the prior of the base, unless the points clearly show a higher one.

        Appliers and purge, for example, may need half a processor without a query.
        """
        mean, deviation = self.base
        error = hypot(deviation, sqrt(self.fit.covariance[0, 0]))
        if self.fit.coefficients[0] - mean > CERTAIN_Z * error:
            return fit
        return fit.given(0, mean, deviation)

    @cached_property
    def curved(self) -> LinearFit:
        """The fit with the prior of the base, and any curvature."""
        return self.given_base(self.fit)

    @cached_property
    def straight(self) -> LinearFit:
        """The same without a curvature."""
        return self.curved.given(2, 0.0, 1e-6)

    @cached_property
    def at_full_load(self) -> LinearFit:
        """The straight line when the server needs the whole resource.

        Other programs then keep between nothing and all of what they use at the highest loads: the
        scheduler may divide processors again, a hypervisor may not. Their use has the mean and
        deviation of an arcsine distribution between the two.
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
        return straight._replace(coefficients=coefficients, covariance=covariance)

    @cached_property
    def slope(self) -> float:
        """The use that one more unit of throughput adds."""
        return float(self.straight.coefficients[1])

    @cached_property
    def slope_error(self) -> float:
        """The standard error of the slope."""
        return sqrt(max(float(self.straight.covariance[1, 1]), 0.0))

    def is_demand(self, errors: float) -> bool:
        """Return whether it grows with the throughput, by more than `errors` standard errors."""
        return self.slope > errors * self.slope_error


class FittedParts(NamedTuple):
    """The parts of a utilisation; the demand of the first may fall."""

    parts: Sequence[UtilisationPart]
    busy: Sequence[Array]
    """The share of queries that find it busy, by each measure of it: U, and B."""
    fits_by_busy: Sequence[LinearFit]
    """The first part by (2) and (3) with each of these: the coefficients of 1, t and −t·busy."""

    @property
    def slope(self) -> float:
        """The sum of the parts' slopes, a demand in the units of 1/t."""
        return sum(part.slope for part in self.parts)

    @property
    def slope_error(self) -> float:
        """Its standard error: the parts' errors are independent."""
        return hypot(*(part.slope_error for part in self.parts))


def fit_parts(many: Sequence[Sequence[UtilisationPart]]) -> list[FittedParts]:
    """Fit (2) and (3) to the first parts of several utilisations, where they are a demand.

    All have the same t. They are fitted together because for a single one numpy's calls take longer
    than the arithmetic.
    """
    shares = [_busy_shares(parts) if parts[0].is_demand(SIGNIFICANT_Z) else [] for parts in many]
    pairs = [
        (parts[0], busy) for parts, of_part in zip(many, shares, strict=True) for busy in of_part
    ]
    fits = iter(_fit_awake(pairs) if pairs else ())
    return [
        FittedParts(parts, busy, [next(fits) for _ in busy])
        for parts, busy in zip(many, shares, strict=True)
    ]


def _busy_shares(parts: Sequence[UtilisationPart]) -> list[Array]:
    """List the shares of queries that find it busy: the smoothed utilisation, measured shares."""
    t, measured = parts[0].t, (parts[0].wakeups, parts[0].log_sharing)
    base, slope, bend = sum((part.curved.coefficients for part in parts), np.zeros(3))
    whole = np.clip(base + t * (slope + t * bend), 0.0, 1.0)
    return [whole, *(each.saved for each in measured if each is not None)]


def _fit_awake(pairs: Sequence[tuple[UtilisationPart, Array]]) -> list[LinearFit]:
    """Fit each part with its share of queries that find it busy."""
    t = pairs[0][0].t
    designs = np.empty((len(pairs), len(t), 3))
    designs[:, :, 0], designs[:, :, 1] = 1.0, t
    designs[:, :, 2] = -t * np.array([busy for _, busy in pairs])
    u, weights = (np.array([getattr(p, c) for p, _ in pairs]).T for c in ("u", "weights"))
    fits = fit_each(designs, u, weights, MIN_UTILISATION_NOISE)
    return [p.given_base(fit) for fit, (p, _) in zip(fits, pairs, strict=True)]
