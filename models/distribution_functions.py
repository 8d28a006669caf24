"""The distribution functions of the normal distribution and of Student's."""

import numpy as np

from models.arrays import Array

NORMAL_95 = 1.6448536269514722
"""The 95 % quantile of the standard normal distribution."""


def normal_cdf(z: Array) -> Array:
    """Compute Φ(z) within 1e-7, of any shape: Abramowitz and Stegun, formula 26.2.17."""
    t = np.abs(z, out=np.empty(np.shape(z)))  # in place: half of the time was for new arrays
    t *= 0.2316419
    t += 1
    np.divide(1, t, out=t)
    series: Array = np.multiply(1.330274429, t, out=np.empty_like(t))
    for coefficient in (-1.821255978, 1.781477937, -0.356563782, 0.319381530):
        series += coefficient
        series *= t
    density = np.square(z, out=t)
    density *= -0.5
    series *= np.exp(density, out=density)
    series *= 1 / np.sqrt(2 * np.pi)
    return np.subtract(1, series, out=series, where=np.greater(z, 0))


def student_cdf(off: Array, freedom: Array | float, variance: Array | float = 1.0) -> Array:
    """Compute Student's distribution function of off/√variance, of any shape.

    Abramowitz and Stegun, 26.7.8.
    """
    spread = np.square(off)
    spread /= 2 * freedom
    spread += variance
    z = off * (1 - 1 / (4 * freedom))
    z /= np.sqrt(spread)
    return normal_cdf(z)
