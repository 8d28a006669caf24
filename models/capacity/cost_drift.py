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
OTHERWISE = float(np.log(1.06))
"""By so much in ln the last level must differ. A drift of the mix is to a part one of the load,
which the curve takes: measured, capacities were off by twice of what the levels differ by."""
ERRORS = 2.5
"""And by so many standard errors. In simulation no day without a drift differs by so much."""
FAR = float(np.log(1.12))
"""By so much in ln the cost of the latest intervals is another one."""


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
    off, deviation = off_the_curve(x, np.log(u) - np.log(x), u)
    chance = ERRORS * deviation / float(np.sqrt(LATEST))
    return abs(float(np.median(off[-LATEST:]))) > max(FAR, chance)
