"""Whether a processor's clock was lowered at low loads: it looks busier than it is then.

A governor that saves energy lets a processor run slower while there is little to do, so a query
takes more of its time than it will at high loads, and a limit from low loads is too low by as much.
"""

import numpy as np

from models.capacity.observations import Observations

HIGH = 0.9
"""The quantile of the throughputs from which on they count as high."""
FAST = 0.9
"""A clock that is slower at high loads, as a share of how fast it can run, may still be raised."""
FROM, RISES = 0.5, 1.1
"""By so much the clock at high loads is above that of the others, from such a share of them on,
where it rises with the load. Lower loads do not matter: the limit rests on the higher ones."""
MIN_POINTS = 6
"""So many intervals must tell it."""


def clock_low(seen: Observations, name: str) -> bool:
    """Tell whether the clock of this resource was low at the highest loads, or rose towards them.

    False where the clock is not known, and for a resource that has none.
    """
    clock = seen.resource(name).clock
    if clock is None or np.count_nonzero(np.isfinite(clock)) < MIN_POINTS:
        return False
    known = np.isfinite(clock)
    x, clock = seen.throughput[known], clock[known]
    high = x >= np.quantile(x, HIGH)
    fast = float(np.median(clock[high]))
    below = clock[~high & (x >= FROM * np.median(x[high]))]
    rises = len(below) >= MIN_POINTS and fast > RISES * float(np.median(below))
    return rises or fast < FAST
