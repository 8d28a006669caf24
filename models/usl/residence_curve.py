"""The residence time over concurrency, a parabola through the points: by Gauss–Newton on ln R.

The posterior starts from it. In A, B, C of R(N) = A + B·N + C·N² the residence time is linear, and
ln R̂ − ln R is the relative error of the throughput. Each step solves 3×3 normal equations under
A, B, C ≥ 0, so that the law is positive at every load. Tens of microseconds for a thousand points,
numpy only.
"""

from dataclasses import dataclass, replace

import numpy as np

from models.arrays import Array
from models.numerics import NEGLIGIBLE, median
from models.robust_regression import MAD_TO_DEVIATION, REWEIGHTING_STEPS, TOTAL_WEIGHT
from models.shared_constants import CERTAIN_Z, EPISODE_SHARE
from models.usl.parabola_nnls import ZERO_COEFFICIENTS, Coefficients, fit_non_negative
from models.usl.points_and_scatter import Points

RELATIVE_ERROR = 0.02
"""The error of a throughput whose concurrency is exact; the unit of the effective variance."""


@dataclass(frozen=True, eq=False)
class ResidenceCurve:
    """R(N) = A + B·N + C·N² through the points, A, B, C ≥ 0, and the weights it was fitted with.

    The coefficients are for concurrency in units of n_scale and residence time in r_scale.
    """

    coefficients: Array
    weights: Array
    n_scale: float
    r_scale: float

    def residence_time(self, n: Array) -> Array:
        """Compute R(N) in units of r_scale, N in threads, of any shape."""
        m = n / self.n_scale
        a, b, c = self.coefficients
        fitted: Array = a + m * (b + m * c)
        return fitted

    def relative_to_greatest(self, points: Points) -> "ResidenceCurve":
        """Return the curve for N and X relative to their greatest among these points."""
        n, x = float(points.n.max()), float(points.x.max())
        return replace(self, n_scale=self.n_scale / n, r_scale=self.r_scale * x / n)

    def best_concurrency(self, n: Array) -> float:
        """Return the N (threads) of the greatest throughput in the range of n, shape (points,)."""
        a, _, c = self.coefficients
        peak = self.n_scale * float(np.sqrt(a / c)) if c > 0 else np.inf
        return float(np.clip(peak, n.min(), n.max()))

    def sensitivity(self, n: Array) -> Array:
        """Compute dlnX/dN = (A − C·N²)/(N·R(N)), per thread, of any shape.

        It is the change of ln X per thread of error in N.
        """
        a, _, c = self.coefficients
        slope: Array = (a - c * (n / self.n_scale) ** 2) / (n * self.residence_time(n))
        return slope


def fit_curve(points: Points, n_variance: Array | None = None) -> ResidenceCurve:
    """Fit the curve; with n_variance (threads², shape (points,)) by effective variance.

    Effective variance (Orear 1982): a point's weight is 1/(s² + (dlnX/dN)²·var N), which needs
    the curve, so curve and weights are computed in turn.
    """
    curve = _solve(points, _cap_weights(points.weights))
    if n_variance is None:
        return curve
    for _ in range(REWEIGHTING_STEPS):
        from_n = curve.sensitivity(points.n) ** 2 * n_variance
        share = RELATIVE_ERROR**2 / (RELATIVE_ERROR**2 + from_n)
        curve = _solve(points, _cap_weights(points.weights * share))
    return curve


def fit_power(points: Points, sharpness: float, curve: ResidenceCurve) -> ResidenceCurve:
    """Fit a curve to X^s over N^s, each relative to its greatest, with the weights of `curve`."""
    return _solve(points.to_power(sharpness), curve.weights)


def find_outlying_points(points: Points, curve: ResidenceCurve) -> tuple[int, ...]:
    """Find the indices of the points that contradict the curve.

    The residual must be beyond 6 scaled MADs of the weighted residuals, or of 2 % if that is more.
    """
    fitted = curve.residence_time(points.n) * curve.r_scale
    errors = np.log(points.n / points.x / fitted)
    errors = np.abs(errors - median(errors))
    scale = np.sqrt(curve.weights / curve.weights.max())
    spread = max(MAD_TO_DEVIATION * median(errors * scale), RELATIVE_ERROR)
    beyond = errors * scale > CERTAIN_Z * spread
    indices = tuple(int(i) for i in np.flatnonzero(beyond))
    return indices if len(indices) <= EPISODE_SHARE * len(points) else ()


def _cap_weights(weights: Array) -> Array:
    capped: Array = weights * min(1.0, TOTAL_WEIGHT / float(weights.sum()))
    return capped


def _solve(points: Points, weights: Array) -> ResidenceCurve:
    """Minimise Σ w·(ln R − ln R̂)²: weights 1/R² first, then Gauss–Newton on the logarithm.

    Where residence times differ so much that the equations cannot be solved, the result is the last
    curve that is positive at every point; the first is the constant of the mean logarithm.
    """
    n_scale, times = float(points.n.max()), points.n / points.x
    r_scale = float(times.sum()) / len(times)
    powers, r = powers_of(points.n / n_scale), times / r_scale
    regressors, product = powers[:3], weights / r
    w, previous = product / r, ZERO_COEFFICIENTS
    found: Coefficients = (float(np.exp(weights @ np.log(r) / weights.sum())), 0.0, 0.0)
    for _ in range(REWEIGHTING_STEPS):
        solved = fit_non_negative((powers @ w).tolist(), (regressors @ product).tolist())
        fitted = np.array(solved) @ regressors
        if not fitted.all():
            break
        found = solved
        if _has_converged(previous, found):
            break
        previous = found
        relative = weights / fitted
        w, product = relative / fitted, relative * (1 + np.log(r / fitted))
    return ResidenceCurve(np.array(found), weights, n_scale, r_scale)


def powers_of(m: Array) -> Array:
    """Compute mᵏ, k = 0..4, shape (5, points)."""
    powers = np.ones((5, len(m)))
    powers[1] = m
    np.multiply(m, m, out=powers[2])
    np.multiply(powers[1:3], powers[2], out=powers[3:])
    return powers


def _has_converged(previous: Coefficients, found: Coefficients) -> bool:
    """Return whether the step changed every coefficient by a negligible part of the greatest."""
    change = max(abs(x - y) for x, y in zip(previous, found, strict=True))
    return change < NEGLIGIBLE * max(found)
