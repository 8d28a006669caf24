"""Whether the cost of a query has drifted within the window, without a step of the mix.

Limits are computed from averages over the window. So the cost of a query is fitted as a curve of
the load and a level for each period together, and the last level is compared with those of the high
loads, on which a limit is based.
"""

import numpy as np

from models.capacity.cost_curve import CostCurve
from models.numerics import TINY, median
from models.robust_regression import fit_linear
from models.shared_constants import (
    GROUP_INTERVALS,
    LATEST_INTERVALS,
    MIN_CURVE_POINTS,
    MIN_NOISE,
    SIGNIFICANT_Z,
)


def cost_drift(cost: CostCurve) -> float:
    """Compute ln of the present cost of a query in the resource over its cost at high loads.

    0 where that is no more than chance, or where the cost is known in too few intervals.
    """
    x = cost.x
    if len(x) < MIN_CURVE_POINTS:
        return 0.0
    place = np.arange(len(x)) * GROUP_INTERVALS // len(x)
    levels = (place[:, None] == np.arange(GROUP_INTERVALS)).astype(np.float64)
    design = np.column_stack([levels, cost.design[:, 1:]])
    fitted = fit_linear(design, cost.ln_cost, np.ones_like(x), MIN_NOISE)
    off = np.zeros(design.shape[1])
    off[:GROUP_INTERVALS] = -np.square(x) @ levels / np.sum(np.square(x))
    off[GROUP_INTERVALS - 1] += 1.0
    drift = float(off @ fitted.coefficients)
    error = float(np.sqrt(max(float(off @ fitted.covariance @ off), TINY)))
    return drift if abs(drift) > SIGNIFICANT_Z * error else 0.0


def latest_cost_change(cost: CostCurve, latest: CostCurve) -> float:
    """Compute ln of a query's cost in the latest intervals over that of all at similar loads.

    `latest` includes outliers, which the curve does not. 0 where that is no more than chance, or
    where the cost is known in too few intervals.
    """
    if len(cost) < MIN_CURVE_POINTS or len(latest) < MIN_CURVE_POINTS:
        return 0.0
    change = median(cost.excess(latest)[-LATEST_INTERVALS:])
    return (
        change
        if abs(change) > SIGNIFICANT_Z * cost.fit.scale / float(np.sqrt(LATEST_INTERVALS))
        else 0.0
    )
