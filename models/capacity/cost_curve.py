"""The cost of a query in a resource, utilisation over throughput, as a function of the load.

A base load, waking an idle processor and contention make the cost a smooth curve of the load.
Deviations from that curve are changes of the queries, or of the resource. The curve is fitted once
(`CostCurve`); drift, variance and the latest intervals are compared with it.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from models.arrays import Array
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import FULL_UTILISATION
from models.numerics import quantile
from models.robust_regression import LinearFit, fit_linear
from models.shared_constants import HIGH_QUANTILE, MIN_NOISE

MIN_UTILISATION = 0.05
"""The least utilisation, and share of the high loads, that shows the cost; below, most of it is the
base load."""


@dataclass(frozen=True, eq=False)
class CostCurve:
    """The cost of a query in one resource over the throughput; arrays of shape (intervals,)."""

    x: Array = field(repr=False)
    """The throughputs (queries/s) where the utilisation shows the cost, in the order of time."""
    ln_cost: Array = field(repr=False)
    weights: Array = field(repr=False)

    @classmethod
    def of(cls, seen: Observations, name: str) -> Self:
        """Compute the costs in this resource, weighted by its utilisation."""
        x, u = intervals_with_known_cost(seen, name)
        return cls(x, np.log(u) - np.log(x), u)

    def __len__(self) -> int:
        """Return the number of intervals with a known cost."""
        return len(self.x)

    @cached_property
    def unit(self) -> float:
        """The throughput that the curve is measured in, queries/s."""
        return quantile(self.x, HIGH_QUANTILE)

    @cached_property
    def design(self) -> Array:
        """The curve's columns, its level first, shape (intervals, 4)."""
        return curve_design(self.x / self.unit)

    @cached_property
    def fit(self) -> LinearFit:
        """The curve: a level and the three coefficients of its shape."""
        return fit_linear(self.design, self.ln_cost, self.weights, MIN_NOISE)

    @cached_property
    def residuals(self) -> Array:
        """By how much the ln costs are above the curve through them, shape (intervals,)."""
        off: Array = self.ln_cost - self.design @ self.fit.coefficients
        return off

    def excess(self, other: "CostCurve") -> Array:
        """Compute by how much other intervals' ln costs are above this curve, (intervals,)."""
        if other is self:
            return self.residuals
        off: Array = other.ln_cost - curve_design(other.x / self.unit) @ self.fit.coefficients
        return off


def intervals_with_known_cost(seen: Observations, name: str) -> tuple[Array, Array]:
    """Return throughputs (queries/s) and the server's use where they show the cost, both (k,)."""
    resource = seen.resource(name)
    u = resource.relative_own_use
    known = (u > MIN_UTILISATION) & (u < FULL_UTILISATION) & (not resource.has_configured_limit)
    return seen.throughput[known], u[known]


def curve_design(t: Array) -> Array:
    """Return the columns 1, X, X² and 1/X of a cost curve over the load X, shape (intervals, 4)."""
    return np.array([np.ones_like(t), t, t * t, 1 / np.maximum(t, MIN_UTILISATION)]).T
