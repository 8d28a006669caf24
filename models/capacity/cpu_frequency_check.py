"""Whether a processor's clock was lowered at low loads, so that it looked busier than it is.

A governor that saves energy lets a processor run slower at low load, so a query takes more of its
time than at high loads, and a limit estimated from low loads is too low by the same factor.
"""

import numpy as np

from models.capacity.observations import Observations
from models.numerics import median, quantile
from models.shared_constants import HIGH_QUANTILE, MIN_NOISE, MIN_POINTS


def clock_rise(seen: Observations, name: str) -> float:
    """Compute the factor by which this resource's clock may still rise, or rose at high loads.

    A clock below 1 at the highest loads may still rise; one that is higher there than in the busier
    half of the other intervals has risen. 1 where the clock is not known, or there is none.
    """
    clock = seen.resource(name).clock
    if clock is None or np.count_nonzero(np.isfinite(clock)) < MIN_POINTS:
        return 1.0
    known = np.isfinite(clock)
    x, clock = seen.throughput[known], clock[known]
    high = x >= quantile(x, HIGH_QUANTILE)
    fast = median(clock[high])
    below = clock[~high & (x >= median(x))]
    rise = fast / median(below) if len(below) >= MIN_POINTS else 1.0
    return max(rise, 1 / max(fast, MIN_NOISE))
