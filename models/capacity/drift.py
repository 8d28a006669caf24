"""Whether queries still cost what they did over the window: a mix that drifts is no step.

The walls are of the average over the window. So the cost of a query is taken as a curve of the
load and a level for each while, fitted together, and the last level is held against those of the
high loads, on which a wall rests.
"""

import numpy as np

from models.capacity.observations import Observations
from models.capacity.wall import FULL
from models.robust import TINY, fit_columns, fit_linear
from models.usl import Array

WHILES = 8
"""The window is cut into so many, each of as many intervals."""
MIN_POINTS = 4 * WHILES
OTHERWISE = float(np.log(1.06))
"""By so much in ln the last level must differ. A drift of the mix is to a part one of the load,
which the curve takes: measured, capacities were off by twice of what the levels differ by."""
ERRORS = 2.5
"""And by so many standard errors. In simulation no day without a drift differs by so much."""
LATEST, FAR = 8, float(np.log(1.12))
"""So many intervals are the latest, and by so much in ln their cost is another one."""
USED = 0.04
"""Of a resource that is used less, the base load is most of what is seen."""
NOISE = 0.01


def cost_drift(seen: Observations, name: str) -> float:
    """Compute ln of what a query costs of this resource of late over its cost at high loads.

    0 where that is no more than chance, or where too few intervals say how busy it was.
    """
    x, u = told_by(seen, name)
    if len(x) < MIN_POINTS:
        return 0.0
    place = np.arange(len(x)) * WHILES // len(x)
    levels = (place[:, None] == np.arange(WHILES)).astype(np.float64)
    design = np.column_stack([levels, curve(x)])
    cost = (np.log(u) - np.log(x))[:, None]
    fitted = fit_columns(design, cost, np.ones_like(cost), NOISE)[0]
    off = np.zeros(design.shape[1])
    off[:WHILES] = -np.square(x) @ levels / np.sum(np.square(x))
    off[WHILES - 1] += 1.0
    drift = float(off @ fitted.coefficients)
    error = float(np.sqrt(max(float(off @ fitted.covariance @ off), TINY)))
    return drift if abs(drift) > max(OTHERWISE, ERRORS * error) else 0.0


def costs_otherwise(seen: Observations, name: str) -> bool:
    """Tell whether of late a query cost far more or less of this resource than at this load before.

    By the last few intervals, of all and not only of those that outliers were taken from.
    """
    x, u = told_by(seen, name)
    if len(x) < MIN_POINTS:
        return False
    cost = np.log(u) - np.log(x)
    design = np.column_stack([np.ones_like(x), curve(x)])
    fitted = fit_linear(design, cost, u, NOISE)
    residuals = cost - design @ fitted.coefficients
    last = residuals[-LATEST:]
    chance = ERRORS * fitted.scale / np.sqrt(LATEST)
    return abs(float(np.median(last))) > max(FAR, float(chance))


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
