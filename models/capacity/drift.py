"""Whether queries still cost what they did over the window: a mix that drifts is no step.

The walls are of the average over the window. So the cost of a query is taken as a curve of the
load and a level for each while, fitted together, and the last level is held against those of the
high loads, on which a wall rests.

A cost that goes up and down from one while to another is an average that may hold for none of
them, the next least of all: mixes that wander, processors that neighbours slow down.
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
USED = 0.04
"""Of a resource that is used less, the base load is most of what is seen."""
NOISE = 0.01
SPELLS, LEAST_SPELL = 32, 8
"""A wandering cost is looked for in so many parts of the window, of so many intervals at least."""
WANDERS = 0.07
"""The deviation of ln of a cost between them, beyond chance, from which on it wanders."""


def cost_drift(seen: Observations, name: str) -> float:
    """Compute ln of what a query costs of this resource of late over its cost at high loads.

    0 where that is no more than chance, or where too few intervals say how busy it was.
    """
    x, u = _told_by(seen, name)
    if len(x) < MIN_POINTS:
        return 0.0
    place = np.arange(len(x)) * WHILES // len(x)
    levels = (place[:, None] == np.arange(WHILES)).astype(np.float64)
    design = np.column_stack([levels, _curve(x)])
    cost = (np.log(u) - np.log(x))[:, None]
    fitted = fit_columns(design, cost, np.ones_like(cost), NOISE)[0]
    off = np.zeros(design.shape[1])
    off[:WHILES] = -np.square(x) @ levels / np.sum(np.square(x))
    off[WHILES - 1] += 1.0
    drift = float(off @ fitted.coefficients)
    error = float(np.sqrt(max(float(off @ fitted.covariance @ off), TINY)))
    return drift if abs(drift) > max(OTHERWISE, ERRORS * error) else 0.0


def cost_wander(seen: Observations, name: str) -> float:
    """Compute the deviation of ln of what a query costs of this resource from spell to spell.

    Of spells of one length, beyond what chance within them explains (analysis of variance, R.
    Fisher 1925). 0 where that is little, or where too few intervals say how busy it was.
    """
    x, u = _told_by(seen, name)
    spells = min(SPELLS, len(x) // LEAST_SPELL)
    if spells < MIN_POINTS // LEAST_SPELL:
        return 0.0
    design, cost = np.column_stack([np.ones_like(x), _curve(x)]), np.log(u) - np.log(x)
    residuals = cost - design @ fit_linear(design, cost, u, NOISE).coefficients
    each = np.array_split(residuals, spells)
    within = np.square(np.diff(residuals)).mean() / 2 * spells / len(x)
    wander = np.sqrt(max(float(np.var([spell.mean() for spell in each]) - within), 0.0))
    return wander if wander > WANDERS else 0.0


def _told_by(seen: Observations, name: str) -> tuple[Array, Array]:
    """The throughputs and the server's utilisations of this resource where they tell its cost."""
    resource = seen.resource(name)
    u = resource.of_ours
    known = (u > USED) & (u < FULL) & (not resource.is_setting)
    return seen.throughput[known], u[known]


def _curve(x: Array) -> Array:
    """What a cost is over the load but for its level: X, X² and 1/X."""
    t = x / float(np.quantile(x, 0.9))
    return np.column_stack([t, t * t, 1 / np.maximum(t, 0.05)])
