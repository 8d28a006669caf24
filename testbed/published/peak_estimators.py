"""Estimators of the peak from the points below it, with which `fit` is compared.

Each answers with Xmax (queries/s, infinite where it finds no peak), and with its 90 % interval and
its trust where it has them.
"""

import warnings
from dataclasses import dataclass
from math import inf, log

import numpy as np
import scipy

from models.arrays import Array
from models.trust import Trust
from models.usl.fit import FitMethod, UslFit, fit
from models.usl.peak_posterior import CredibleInterval


@dataclass(frozen=True)
class PredictedPeak:
    """A predicted peak."""

    x_max: float
    interval: CredibleInterval | None = None
    trusted: bool = False


def ours(n: Array, x: Array) -> PredictedPeak:
    """Predict as `mysql-headroom fit` does."""
    return peak_of(fit(n, x))


def peak_of(fitted: UslFit) -> PredictedPeak:
    """Return the peak of a fit, with its interval and its trust."""
    return PredictedPeak(fitted.x_max or inf, fitted.x_max_interval, fitted.trust is Trust.TRUSTED)


def white_paper(n: Array, x: Array) -> PredictedPeak:
    """Predict by the parabola through N/(X/X(1)) − 1."""
    return PredictedPeak(fit(n, x, FitMethod.LINEARISED).x_max or inf)


def bounded_least_squares(n: Array, x: Array) -> PredictedPeak:
    """Predict by least squares on throughput, σ, κ ≥ 0, as R's usl does."""
    return PredictedPeak(fit(n, x, FitMethod.LSQ).x_max or inf)


def least_squares(n: Array, x: Array) -> PredictedPeak:
    """Predict by unbounded least squares on throughput from usl4j's start."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.optimize.OptimizeWarning)
        try:
            start = (0.1, 0.01, float(np.max(x / n)))
            sigma, kappa, lam = scipy.optimize.curve_fit(
                _law, n, x, start, method="lm", maxfev=2000
            )[0]
        except (RuntimeError, TypeError):  # no convergence; fewer points than parameters
            return PredictedPeak(inf)
    if not kappa > 0 or not sigma < 1:
        return PredictedPeak(inf)
    return PredictedPeak(float(_law(np.sqrt((1 - sigma) / kappa), sigma, kappa, lam)))


def _law(n: Array, sigma: float, kappa: float, lam: float) -> Array:
    return lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


GRID = 48
SIGMA_SCALE, SIGMA_EDGE = 0.3, 0.05
PSEUDO_POINTS, PSEUDO_ERROR = 4, 0.03


def relative_prior(n: Array, x: Array) -> PredictedPeak:
    """Predict by the mode of a posterior whose prior is relative to the greatest load seen.

    R = vN + A(1−uN)², u = 1/Nmax, v = 1/Xmax, on a grid; ln(Nmax/greatest N) ~ N(ln 2, 1); σ is
    half normal, sd 0.3, with a soft edge, sd 0.05, below 0; four points of 3 % noise besides the
    data's. Trusted where 70 % of the median were seen and the interval spans less than 1.5.
    """
    m, r, one = n / n.max(), (n / n.max()) / (x / x.max()), 1 / n.max()
    ln_n = np.linspace(log(2) - 3.5, log(2) + 3.5, GRID)
    ln_x = np.linspace(-0.3, 3, 2 * GRID)
    u, v = np.exp(-ln_n)[:, None, None], np.exp(-ln_x)[None, :, None]
    bend, fitted = (1 - u * m) ** 2, np.broadcast_to(r, (GRID, 2 * GRID, len(n)))
    for _ in range(3):  # Gauss–Newton in A, on ln R
        z, weight = fitted * (1 + np.log(r / fitted)), bend / fitted**2
        information = np.maximum((weight * bend).sum(-1), 1e-12)
        a = np.maximum((weight * (z - v * m)).sum(-1) / information, 1e-9)
        fitted = np.maximum(v * m + a[..., None] * bend, 1e-9)
    squares = (np.log(r / fitted) ** 2).sum(-1) + PSEUDO_POINTS * PSEUDO_ERROR**2
    sigma = 1 - a / (v[..., 0] + a * (1 - u[..., 0] * one) ** 2)
    off = np.where(sigma > 0, sigma / SIGMA_SCALE, sigma / SIGMA_EDGE)
    log_p = -0.5 * (len(n) + PSEUDO_POINTS - 1) * np.log(squares) - 0.5 * np.log(information)
    log_p -= 0.5 * ((ln_n[:, None] - log(2)) ** 2 + off**2)
    share = np.exp(log_p - log_p.max()).sum(0)
    below = np.cumsum(share) - share / 2
    low, middle, high = np.exp(np.interp([0.05, 0.5, 0.95], below / share.sum(), ln_x)) * x.max()
    mode = float(np.exp(ln_x[int(np.argmax(log_p)) % len(ln_x)]) * x.max())
    trusted = bool(x.max() / middle >= 0.7 and high / low < 1.5)
    return PredictedPeak(mode, CredibleInterval(float(low), float(high)), trusted)
