"""Two estimators from the literature: the linearised fit and least squares on throughput."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from models.numerics import NEGLIGIBLE, TINY
from models.usl.law import Array, Usl
from models.usl.point_fit import fit_curve
from models.usl.points_and_residuals import Points

SIGMA_BOUND = 1 - NEGLIGIBLE
"""The greatest σ that a fit returns; beyond it, throughput would fall from the first thread on."""


@dataclass(frozen=True)
class Parabola:
    """y = a·x² + b·x in x = N−1 and y = N/(X/X(1)) − 1 (white paper, equations 6 to 8)."""

    a: float
    b: float
    x_one: float
    """The throughput at N = 1 that y is relative to, queries/s."""
    r_squared: float | None
    """R² of y, relative to 0 as for any line through the origin; None when all y are 0."""

    @property
    def law(self) -> Usl:
        """The law with κ = a and σ = b − a (white paper, equations 3 and 4), within bounds."""
        return bounded_law(self.b - self.a, self.a, self.x_one)


@dataclass(frozen=True)
class StandardErrors:
    """Standard errors of σ, κ and λ, from the Jacobian at the solution; None at a bound."""

    sigma: float | None
    kappa: float | None
    lam: float
    degrees_of_freedom: int

    def limits(self, law: Usl, confidence: float = 0.95) -> dict[str, tuple[float, float] | None]:
        """Compute estimate ± t·error for each parameter, as R's `confint` on `usl` does."""
        from scipy.stats import t

        quantile = float(t.ppf((1 + confidence) / 2, self.degrees_of_freedom))

        def interval(estimate: float, error: float | None) -> tuple[float, float] | None:
            if error is None:
                return None
            return estimate - quantile * error, estimate + quantile * error

        return {
            "sigma": interval(law.sigma, self.sigma),
            "kappa": interval(law.kappa, self.kappa),
            "lambda": interval(law.lam, self.lam),
        }


def bounded_law(sigma: float, kappa: float, lam: float) -> Usl:
    """Build the law with the nearest valid parameters: σ in [0, 1), κ in [0, (1 + √(1−σ))²)."""
    sigma = min(max(sigma, 0.0), SIGMA_BOUND)
    return Usl(sigma, min(max(kappa, 0.0), SIGMA_BOUND * (1 + sqrt(1 - sigma)) ** 2), lam)


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
    a, b = kappa, sigma + kappa
    total = float(np.sum(y**2))
    error = float(np.sum((y - a * x**2 - b * x) ** 2))
    return Parabola(a, b, x_one, 1 - error / total if total > 0 else None)


def least_squares_on_throughput(points: Points) -> tuple[Usl, StandardErrors | None]:
    """Minimise Σ w·(X − X(N))² over 0 ≤ σ < 1, κ ≥ 0, λ > 0, from two starts.

    The parameters are scaled to about 1 (σ, κ·max N and λ/max(X/N)), without which the optimiser
    stops too early. The fits with σ, κ or both at 0 are tried too, and preferred when no worse, so
    that a solution on a bound is exact. Standard errors are those of nonlinear least squares,
    s²·(JᵀJ)⁻¹; None without degrees of freedom or if parameters cannot be distinguished.
    """
    candidates = [
        _optimise(points, start, free)
        for free in ([2], [0, 2], [1, 2], [0, 1, 2])
        for start in _starting_points(points)
    ]
    best = min(cost for _, cost, _ in candidates)
    slack = NEGLIGIBLE * best + np.finfo(float).eps * float(np.sum(points.weights * points.x**2))
    law, cost, free = next(c for c in candidates if c[1] <= best + slack)
    return law, _standard_errors(points, law, cost, free)


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


def _optimise(points: Points, start: Array, free: list[int]) -> tuple[Usl, float, list[int]]:
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
    return law_of(solved.x), 2 * float(solved.cost) * norm**2, free


def gradient(law: Usl, n: Array) -> Array:
    """Compute ∂X/∂(σ, κ, λ) at each n, shape (points, 3): −X·(N−1)/q, −X·N(N−1)/q, X/λ."""
    x = law.throughput(n)
    q = law.lam * law.residence_time(n)
    columns: Array = np.stack([-x * (n - 1) / q, -x * n * (n - 1) / q, x / law.lam], axis=1)
    return columns


def _standard_errors(
    points: Points, law: Usl, cost: float, free: list[int]
) -> StandardErrors | None:
    """Compute s²·(JᵀJ)⁻¹ over the free parameters; None if it is not defined."""
    freedom = len(points) - len(free)
    if freedom < 1:
        return None
    columns = np.sqrt(points.weights)[:, None] * gradient(law, points.n)[:, free]
    norms = np.maximum(np.linalg.norm(columns, axis=0), TINY)
    _, singular, directions = np.linalg.svd(columns / norms, full_matrices=False)
    if singular[-1] < NEGLIGIBLE * singular[0]:  # two columns are linearly dependent
        return None
    variances = np.sum((directions.T / singular) ** 2, axis=1) * cost / freedom / norms**2
    errors: list[float | None] = [None, None, None]
    for index, variance in zip(free, variances, strict=True):
        errors[index] = sqrt(float(variance))
    return StandardErrors(errors[0], errors[1], errors[2] or 0.0, freedom)
