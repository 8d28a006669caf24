"""The number of requests that a device serves at once, where only its busy time is known.

Busy time counts one request as much as ten. A device of m channels, each busy for a share ρ of
the time, independent of each other, is busy for U = 1 − (1 − ρ)^m: at m = 8 half busy is a twelfth
of what it can do. ρ is linear in the throughput (utilisation law), and m·(1 − (1−U)^(1/m)) is m·ρ.
So each m gives a straight line through the points in its own scale, whose limit is where it reaches
m, and is weighted by how well it reproduces U. Far below the limit the points of every m lie on a
straight line, and the number remains unknown.
"""

import numpy as np

from models.arrays import Array
from models.capacity.demand_extrapolation import CEILING, Extrapolations
from models.capacity.utilisation_fit import UtilisationPart
from models.distribution_functions import student_cdf
from models.robust_regression import fit_columns
from models.shared_constants import MIN_NOISE

CHANNELS = 2 ** np.arange(7)
"""The numbers of channels considered; all are equally probable before any point."""


class DeviceParallelism:
    """The probability of each number of channels of one device, and its limit with each."""

    def __init__(self, part: UtilisationPart, extrapolations: Extrapolations) -> None:
        """Weigh each number of channels; with one, the utilisation follows `extrapolations`."""
        self._extrapolations = extrapolations
        design = np.array([np.ones_like(part.t), part.t]).T
        u = np.where(part.weights > 0, np.clip(part.u, 0.0, 1.0), 0.0)[:, None]
        weights = np.broadcast_to(part.weights[:, None], (len(u), len(CHANNELS)))
        self._fits = fit_columns(
            design, CHANNELS * (1 - (1 - u) ** (1 / CHANNELS)), weights, MIN_NOISE
        )
        lines = design @ np.array([fit.coefficients for fit in self._fits]).T
        rho = np.clip(lines / CHANNELS, 0.0, 1.0)
        squares = np.square(u - (1 - (1 - rho) ** CHANNELS))
        error = part.weights @ squares / part.weights.sum()
        freedom = np.array([fit.freedom for fit in self._fits])
        ln_p = -0.5 * freedom * np.log(error + MIN_NOISE**2)
        p = np.exp(ln_p - ln_p.max())
        self.shares: Array = p / p.sum()
        """The probability of each of CHANNELS."""

    def reached(self, reach: float, ratios: Array) -> Array:
        """Compute P(the device is full below t = reach·ratio), the ratios ascending, (points,).

        It never falls.
        """
        t = reach * ratios
        several, rows = CHANNELS[1:, None], np.array([np.ones_like(t), t])
        ceiling, deviation = CEILING
        over = np.array([fit.coefficients for fit in self._fits[1:]]) @ rows - ceiling * several
        covariance = np.array([fit.covariance for fit in self._fits[1:]])
        variance = np.maximum(np.sum(covariance @ rows * rows, axis=1), 0.0)
        freedom = np.array([fit.freedom for fit in self._fits[1:]])[:, None]
        each = student_cdf(over, freedom, variance + (deviation * several) ** 2)
        of_one = self._extrapolations.reached([reach], ratios)[0]
        cdf: Array = self.shares[0] * of_one
        cdf += self.shares[1:] @ np.maximum.accumulate(each, axis=1)
        return cdf
