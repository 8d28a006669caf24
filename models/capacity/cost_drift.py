"""Whether queries still cost what they did over the window: a mix that drifts is no step.

The limits are of the average over the window. So the cost of a query is taken as a curve of the
load and a level for each while, fitted together, and the last level is held against those of the
high loads, on which a limit rests.
"""

import numpy as np

from models.capacity.cost_per_query import NOISE, curve, off_the_curve, told_by
from models.capacity.observations import LATEST, Observations
from models.robust import TINY, fit_columns

WHILES = 8
"""The window is cut into so many, each of as many intervals."""
MIN_POINTS = 4 * WHILES
ERRORS = 2.5
"""By so many standard errors a difference is beyond chance."""


def cost_drift(seen: Observations, name: str) -> float:
    """Compute ln of what a query costs of this resource now over its cost at high loads.

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
    return drift if abs(drift) > ERRORS * error else 0.0


def latest_cost_change(seen: Observations, name: str) -> float:
    """Compute ln of what a query of the last few intervals cost over others at like loads.

    0 where that is no more than chance, or where too few intervals say how busy it was.
    """
    x, u = told_by(seen, name)
    if len(x) < MIN_POINTS:
        return 0.0
    off, deviation = off_the_curve(x, np.log(u) - np.log(x), u)
    change = float(np.median(off[-LATEST:]))
    return change if abs(change) > ERRORS * deviation / float(np.sqrt(LATEST)) else 0.0
