"""What a query costs of a resource, utilisation over throughput, but for how busy it is.

A base load, waking an idle processor and contention make the cost a smooth curve of the load. What
lies off that curve is of the queries themselves, or of the resource.
"""

import numpy as np

from models.capacity.observations import Observations
from models.capacity.resource_limit import FULL
from models.robust import fit_linear
from models.usl.law import Array

USED = 0.04
"""Of a resource that is used less, the base load is most of what is seen."""
NOISE = 0.01
"""The least deviation of ln of a cost."""


def told_by(seen: Observations, name: str) -> tuple[Array, Array]:
    """The throughputs and the server's utilisations of this resource where they tell its cost."""
    resource = seen.resource(name)
    u = resource.of_ours
    known = (u > USED) & (u < FULL) & (not resource.is_setting)
    return seen.throughput[known], u[known]


def curve(x: Array) -> Array:
    """What a cost is over the load but for its level: X, X² and 1/X."""
    t = x / float(np.quantile(x, 0.9))
    return np.column_stack([t, t * t, 1 / np.maximum(t, 0.05)])


def off_the_curve(x: Array, ln_cost: Array, weights: Array) -> tuple[Array, float]:
    """Compute by how much each ln cost is off the curve through all, and its deviation.

    All of shape (intervals,), in the order of time.
    """
    design = np.column_stack([np.ones_like(x), curve(x)])
    fitted = fit_linear(design, ln_cost, weights, NOISE)
    return ln_cost - design @ fitted.coefficients, fitted.scale
