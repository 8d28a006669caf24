"""The response of residence times to short changes of the load, which contention moves at once.

Where long statements run by day, or a remote party answers more slowly then, residence times rise
with the load over the day, without any contention. But then the short ups and downs of the load do
not move them. So the changes of ln R between successive short periods are compared with those of a
smooth curve R(N) through all intervals (J. Hausman, *Specification Tests in Econometrics*, 1978).
Chance in R also moves N. So the curve's changes in the even intervals are the instrument for those
of the odd ones, and the reverse: chance is independent between them. Where N is the average of a
few samples, its noise would tilt a curve R(N), and the curve is one of the throughput, R(X).
"""

import numpy as np

from models.arrays import Array
from models.numerics import median
from models.robust_regression import fit_linear
from models.shared_constants import (
    FAR_RATIO,
    MIN_FIT_INTERVALS,
    MIN_NOISE,
    SIGNIFICANT_Z,
    TOLERATED_CHANGE,
)

PERIOD = 4
"""The number of intervals in a period: two even and two odd ones."""


def ignores_load(n: Array, x: Array, *, sampled: bool = False) -> bool:
    """Return whether residence times follow short changes of the load clearly less than long ones.

    The trend over the window says how much they should.
    n in threads, x in queries/s, both of shape (intervals,), in the order of time. False where that
    is not known. A sampled n is above 0, and noisy: the load is then measured by x.
    """
    if len(n) < PERIOD * MIN_FIT_INTERVALS:
        return False
    r, load = n / x, x / x.max() if sampled else n / n.max()
    design = np.column_stack([np.ones_like(load), load, load * load])
    weights = np.ones_like(r) if sampled else r**-2.0
    curve = design @ fit_linear(design, r, weights, MIN_NOISE * median(r)).coefficients
    expected = np.log(np.clip(curve, r.min(), r.max()))
    if np.ptp(expected) <= TOLERATED_CHANGE:
        return False
    # the logarithm of a noisy time is too low, the more so the fewer statements were sampled
    steps = _steps(expected)
    changes = np.diff(np.log(_means(r)), axis=0) if sampled else _steps(np.log(r))
    instrument = steps[:, ::-1]
    shared = float(np.sum(instrument * steps))
    if shared <= 0:
        return False
    response = float(np.sum(instrument * changes)) / shared
    off = np.sum(instrument * (changes - response * steps), axis=1)
    error = np.sqrt(max(off @ off + off[1:] @ off[:-1], off @ off / 2)) / shared
    return bool(response + SIGNIFICANT_Z * error < 1 / FAR_RATIO)


def _steps(values: Array) -> Array:
    """Compute the changes between periods, of the means of their even and odd intervals.

    values of shape (intervals,), the result of shape (periods − 1, 2).
    """
    return np.diff(_means(values), axis=0)


def _means(values: Array) -> Array:
    """Compute the means of each period's even and odd intervals, shape (periods, 2)."""
    whole = len(values) // PERIOD * PERIOD
    means: Array = values[:whole].reshape(-1, PERIOD // 2, 2).mean(axis=1)
    return means
