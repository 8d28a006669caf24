"""Two estimators from the literature: the linearised fit and least squares on throughput."""

from dataclasses import dataclass

import numpy as np

from models.arrays import Array
from models.numerics import NEGLIGIBLE, TINY
from models.usl.law import SIGMA_BOUND, Usl, bounded_law
from models.usl.points_and_scatter import Points
from models.usl.residence_curve import fit_curve


@dataclass(frozen=True)
class Parabola:
    """y = a·x² + b·x in x = N−1 and y = N/(X/X(1)) − 1 (white paper, equations 6 to 8)."""

    a: float
    b: float
    x_one: float
    """The throughput at N = 1 that y is relative to, queries/s."""

    @property
    def law(self) -> Usl:
        """The law with κ = a and σ = b − a (white paper, equations 3 and 4), within bounds."""
        return bounded_law(self.b - self.a, self.a, self.x_one)


def linearise(points: Points) -> Parabola:
    """Fit the white paper's parabola through the origin, a ≥ 0 and b ≥ a so that σ, κ ≥ 0.

    X(1) is the mean throughput of the points at N = 1. Without one, it is that of the law fitted
    to the logarithms: a straight line down from the lowest point would give an X(1) that is too
    low, and efficiencies above 1 (white paper, figure 7).
    """
    ones = points.x[points.n == 1]
    x_one = float(ones.mean()) if len(ones) else _fitted_x_one(points)
    x, y = points.n - 1, points.n * x_one / points.x - 1
    sigma, kappa = _fit_two_non_negative(np.stack([x, x * points.n]), y, points.weights)
    return Parabola(kappa, sigma + kappa, x_one)


def least_squares_on_throughput(points: Points) -> Usl:
    """Minimise Σ w·(X − X(N))² over 0 ≤ σ < 1, κ ≥ 0, λ > 0, from two starts.

    The parameters are scaled to about 1 (σ, κ·max N and λ/max(X/N)), without which the optimiser
    stops too early. The fits with σ, κ or both at 0 are tried too, and preferred when no worse, so
    that a solution on a bound is exact.
    """
    candidates = [
        _optimise(points, start, free)
        for free in ([2], [0, 2], [1, 2], [0, 1, 2])
        for start in _starting_points(points)
    ]
    best = min(cost for _, cost in candidates)
    slack = NEGLIGIBLE * best + np.finfo(float).eps * float(np.sum(points.weights * points.x**2))
    return next(law for law, cost in candidates if cost <= best + slack)


def _fitted_x_one(points: Points) -> float:
    """Compute X(1), queries/s, by the law fitted to the logarithms."""
    curve = fit_curve(points)
    return 1 / float(curve.residence_time(np.array([1.0]))[0] * curve.r_scale)


def _fit_two_non_negative(rows: Array, y: Array, weights: Array) -> tuple[float, float]:
    """Minimise Σ w·(y − p·rows)² over two parameters p ≥ 0."""
    scales = np.maximum(np.abs(rows).max(axis=1), TINY)
    scaled = rows / scales[:, None]
    gram, moments = (scaled * weights) @ scaled.T, (scaled * weights) @ y
    best = np.linalg.lstsq(gram, moments, rcond=None)[0]
    if (best < 0).any():
        alone = np.maximum(moments, 0) / np.maximum(np.diag(gram), TINY)
        keep = int(np.argmax(moments * alone))
        best = np.where(np.arange(2) == keep, alone, 0)
    sigma, kappa = best / scales
    return float(sigma), float(kappa)


def _starting_points(points: Points) -> list[Array]:
    """Return two scaled starts (σ, κ·max N, λ/scale): fit to the logarithms, rough guess."""
    curve, n = fit_curve(points), float(points.n.max())
    a, b, c = curve.coefficients / np.array([1, curve.n_scale, curve.n_scale**2])
    lam = 1 / (a + b + c)
    fitted = np.array([(b + c) * lam, c * lam * n, lam / curve.r_scale / _lam_scale(points)])
    inside = np.array([SIGMA_BOUND, _scaled_kappa_bound(n), np.inf]) * (1 - 1e-6)
    guess = np.array([0.1, 0.1 / n, 1.0])
    return [np.clip(start, np.minimum(1e-6, inside / 2), inside) for start in (fitted, guess)]


def _scaled_kappa_bound(n: float) -> float:
    """Return the bound of κ·max N."""
    return n * (SIGMA_BOUND if n > 1 else 4 * SIGMA_BOUND)


def _lam_scale(points: Points) -> float:
    """Return max X/N, in units of which λ is fitted."""
    return float(np.max(points.x / points.n))


def _optimise(points: Points, start: Array, free: list[int]) -> tuple[Usl, float]:
    """Run scipy's bounded least squares over the free parameters, the others at 0."""
    from scipy.optimize import least_squares

    scale = np.array([1.0, 1 / float(points.n.max()), _lam_scale(points)])
    roots, norm = np.sqrt(points.weights), float(points.x.max())

    def law_of(p: Array) -> Usl:
        values = np.zeros(3)
        values[free] = p
        return bounded_law(*(float(v) for v in values * scale))

    def residuals(p: Array) -> Array:
        errors: Array = roots * (points.x - law_of(p).throughput(points.n)) / norm
        return errors

    def jacobian(p: Array) -> Array:
        scaled: Array = -roots[:, None] * gradient(law_of(p), points.n) * scale / norm
        return scaled[:, free]

    upper = np.array([SIGMA_BOUND, _scaled_kappa_bound(float(points.n.max())), np.inf])[free]
    solved = least_squares(
        residuals,
        start[free],
        jac=jacobian,
        bounds=(np.array([0, 0, NEGLIGIBLE])[free], upper),
        x_scale="jac",
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
        max_nfev=500,
    )
    return law_of(solved.x), 2 * float(solved.cost) * norm**2


def gradient(law: Usl, n: Array) -> Array:
    """Compute ∂X/∂(σ, κ, λ) at each n, shape (points, 3): −X·(N−1)/q, −X·N(N−1)/q, X/λ."""
    x = law.throughput(n)
    q = law.lam * law.residence_time(n)
    columns: Array = np.stack([-x * (n - 1) / q, -x * n * (n - 1) / q, x / law.lam], axis=1)
    return columns
