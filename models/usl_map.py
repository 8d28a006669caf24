"""The point fit that the posterior starts from: log residuals, by Gauss–Newton.

In A, B, C of R(N) = A + B·N + C·N² the residence time is linear, and ln R̂ − ln R is the relative
error of the throughput. Each step solves 3×3 normal equations under A, B, C ≥ 0, so that the law
is positive at every load. Tens to hundreds of microseconds, numpy only.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from models.usl import Array
from models.usl_points import Points

STEPS = 6
SETTLED = 1e-6
"""Relative to the greatest coefficient: a step that changes none by more is the last."""
HANKEL = np.add.outer(np.arange(3), np.arange(3))
"""Which power of N each product of two regressors is."""
REWEIGHTINGS = 5
RELATIVE_ERROR = 0.02
"""What a throughput is off by when its concurrency is exact; the unit of the effective variance."""
TOTAL_WEIGHT = 60.0
"""However many samples, they are correlated: together they never weigh more than these."""
OUTLIER_MADS = 6.0
OUTLIER_ERROR = 0.1
"""A point is an outlier when its log residual is beyond both: so many MADs, and so much."""
OUTLIER_SHARE = 0.1
"""When more points than this share look like outliers, it is the law that fails: none is one."""
OUTLIER_POINTS = 10
"""With fewer points nobody can tell an outlier from the rest."""
SUBSETS = [list(subset) for size in (2, 1) for subset in combinations(range(3), size)]


@dataclass(frozen=True, eq=False)
class Curve:
    """R(N) = A + B·N + C·N² through the points, A, B, C ≥ 0, and the weights it was fitted with.

    The curve's concurrency is in units of n_scale, its residence time of r_scale.
    """

    coefficients: Array
    weights: Array
    n_scale: float
    r_scale: float

    def residence_time(self, n: Array) -> Array:
        """Compute R(N), in units of r_scale, of a concurrency in threads."""
        m = n / self.n_scale
        a, b, c = self.coefficients
        fitted: Array = a + m * (b + m * c)
        return fitted

    def sensitivity(self, n: Array) -> Array:
        """Compute dlnX/dN = (A − C·N²)/(N·R(N)), per thread: an error of N seen in ln X."""
        a, _, c = self.coefficients
        slope: Array = (a - c * (n / self.n_scale) ** 2) / (n * self.residence_time(n))
        return slope


def fit_curve(points: Points, n_variance: Array | None = None) -> Curve:
    """Fit the curve; with n_variance (threads², shape (points,)) by effective variance.

    Effective variance (Orear 1982): a point's weight is 1/(s² + (dlnX/dN)²·var N), which needs
    the curve, so curve and weights take turns.
    """
    curve = _solve(points, _capped(points.weights))
    if n_variance is None:
        return curve
    for _ in range(REWEIGHTINGS):
        from_n = curve.sensitivity(points.n) ** 2 * n_variance
        share = RELATIVE_ERROR**2 / (RELATIVE_ERROR**2 + from_n)
        curve = _solve(points, _capped(points.weights * share))
    return curve


def fit_power(points: Points, sharpness: float, curve: Curve) -> Curve:
    """Fit the curve to X^s of N^s, each relative to its greatest, with that curve's weights."""
    return _solve(points.to_power(sharpness), curve.weights)


def find_outliers(points: Points, curve: Curve) -> tuple[int, ...]:
    """Find the points that no law through the others explains, by index.

    The residual must be beyond 6 scaled MADs of the weighted residuals and beyond 10 %.
    """
    if len(points) < OUTLIER_POINTS:
        return ()
    fitted = curve.residence_time(points.n) * curve.r_scale
    errors = np.log(points.n / points.x / fitted)
    errors = np.abs(errors - np.median(errors))
    scale = np.sqrt(curve.weights / curve.weights.max())
    spread = 1.4826 * float(np.median(errors * scale))
    beyond = (errors * scale > OUTLIER_MADS * spread) & (errors * scale > OUTLIER_ERROR)
    indices = tuple(int(i) for i in np.flatnonzero(beyond))
    return indices if len(indices) <= OUTLIER_SHARE * len(points) else ()


def _capped(weights: Array) -> Array:
    capped: Array = weights * min(1.0, TOTAL_WEIGHT / float(weights.sum()))
    return capped


def _solve(points: Points, weights: Array) -> Curve:
    """Minimise Σ w·(ln R − ln R̂)²: weights 1/R² first, then Gauss–Newton on the logarithm."""
    n_scale, times = float(points.n.max()), points.n / points.x
    r_scale = float(np.median(times))
    m, r = points.n / n_scale, times / r_scale
    powers = m ** np.arange(5)[:, None]
    regressors, target, w = powers[:3], r, weights / r**2
    before = np.zeros(3)
    for _ in range(STEPS):
        sums, moments = powers @ w, regressors @ (w * target)
        coefficients = _non_negative(sums[HANKEL], moments)
        if np.abs(coefficients - before).max() < SETTLED * coefficients.max():
            break
        before, fitted = coefficients, coefficients @ regressors
        target, w = fitted * (1 + np.log(r / fitted)), weights / fitted**2
    return Curve(coefficients, weights, n_scale, r_scale)


def _non_negative(gram: Array, moments: Array) -> Array:
    """Minimise t·G·t − 2·m·t over t ≥ 0: the free solution, else the best of the active sets."""
    free = _solved(gram, moments)
    if free is not None:
        return free
    found = [t for s in SUBSETS if (t := _subset(gram, moments, s)) is not None]
    return max(found, key=lambda t: float(moments @ t))


def _subset(gram: Array, moments: Array, subset: list[int]) -> Array | None:
    """Solve for the coefficients of the subset, the others 0; None unless all are ≥ 0."""
    solved = _solved(gram[np.ix_(subset, subset)], moments[subset])
    if solved is None:
        return None
    coefficients = np.zeros(3)
    coefficients[subset] = solved
    return coefficients


def _solved(gram: Array, moments: Array) -> Array | None:
    """Solve G·t = m; None unless all are ≥ 0."""
    try:
        solved = np.asarray(np.linalg.solve(gram, moments), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    return solved if (solved >= 0).all() else None
