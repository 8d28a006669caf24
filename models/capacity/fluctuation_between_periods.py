"""Whether the cost of queries, or the use by others, fluctuates, so that averages may not hold.

Limits are computed from averages over the window. Mixes change, neighbours slow a processor down,
and the use by other programs or the time stolen by a hypervisor varies over hours; then the
capacity of the next hour is not that of the average. Periods of equal length are compared with each
other, beyond what chance within them explains (analysis of variance, R. Fisher 1925).
"""

import numpy as np

from models.arrays import Array
from models.capacity.cost_curve import CostCurve
from models.capacity.observations import Observations
from models.robust_regression import fit_linear
from models.shared_constants import LATEST_INTERVALS, MIN_CURVE_POINTS, MIN_NOISE, PERIODS


def cost_fluctuation(cost: CostCurve) -> float:
    """Compute the deviation of ln of the cost of a query in the resource from period to period.

    0 where the cost is known in too few intervals.
    """
    if len(cost) < MIN_CURVE_POINTS:
        return 0.0
    return _deviation_between_periods(cost.residuals)


def others_fluctuation(seen: Observations, name: str) -> float:
    """Compute the deviation from period to period of ln of what others leave of the resource.

    Its trend over the throughput is taken out.
    0 where the server's own part is not known, or known in too few intervals.
    """
    resource, x = seen.resource(name), seen.throughput
    if resource.own is None:
        return 0.0
    left = 1 - (resource.utilisation - resource.own) / resource.ceiling
    known = (left > 0) & (x > 0)
    if np.count_nonzero(known) < MIN_CURVE_POINTS:
        return 0.0
    x, left = x[known], left[known]
    design, ln_left = np.column_stack([np.ones_like(x), x / x.max()]), np.log(left)
    fitted = fit_linear(design, ln_left, np.ones_like(x), MIN_NOISE)
    return _deviation_between_periods(ln_left - design @ fitted.coefficients)


def _deviation_between_periods(off: Array) -> float:
    """Compute the deviation between periods, beyond chance, of values in the order of time."""
    periods = min(PERIODS, len(off) // LATEST_INTERVALS)
    length, longer = divmod(len(off), periods)
    sizes = length + (np.arange(periods) < longer)
    means = np.add.reduceat(off, np.cumsum(sizes) - sizes) / sizes
    by_chance = float(np.square(np.diff(off)).mean()) / 2 * periods / len(off)
    between = float(np.var(means))
    return float(np.sqrt(max(between - by_chance, 0.0)))
