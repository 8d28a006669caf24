"""A parabola with coefficients of at least 0, from its normal equations, in plain numbers.

Minimises Σ w·(t − a − b·m − c·m²)² over a, b, c ≥ 0. With Sₖ = Σ w·mᵏ and Tₖ = Σ w·t·mᵏ the
matrix is Hankel, Gᵢⱼ = Sᵢ₊ⱼ. For three unknowns a call of a linear algebra library takes longer
than the arithmetic.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from models.numerics import NEGLIGIBLE

Coefficients = tuple[float, float, float]
ZERO_COEFFICIENTS: Coefficients = (0.0, 0.0, 0.0)


def fit_non_negative(sums: Sequence[float], moments: Sequence[float]) -> Coefficients:
    """Solve for (a, b, c): the unconstrained solution, else the best one with zeros.

    sums has S₀ to S₄, moments T₀ to T₂. All are 0 only where no coefficient above 0 reduces the
    squares.
    """
    free, pivot = _solve_unconstrained(sums, moments)
    usable = min(free) >= 0
    # with a smaller last pivot the solution may be the work of round-off
    if usable and pivot > NEGLIGIBLE * sums[4]:
        return free
    candidates = [
        ZERO_COEFFICIENTS,
        *_solutions_with_zeros(sums, moments),
        *([free] if usable else []),
    ]
    return max(candidates, key=lambda found: _explained_squares(found, sums, moments))


def _solve_unconstrained(
    sums: Sequence[float], moments: Sequence[float]
) -> tuple[Coefficients, float]:
    """Eliminate without pivoting, as a positive definite G allows; return the last pivot too."""
    s0, s1, s2, s3, s4 = sums
    t0, t1, t2 = moments
    l1, l2 = s1 / s0, s2 / s0
    d1, e = s2 - l1 * s1, s3 - l2 * s1
    l3 = e / d1 if d1 else 0.0
    d2 = s4 - l2 * s2 - l3 * e
    if not d1 or not d2:
        return ZERO_COEFFICIENTS, 0.0
    y1 = t1 - l1 * t0
    c = (t2 - l2 * t0 - l3 * y1) / d2
    b = y1 / d1 - l3 * c
    return (t0 / s0 - l1 * b - l2 * c, b, c), d2


def _solutions_with_zeros(
    sums: Sequence[float], moments: Sequence[float]
) -> Iterator[Coefficients]:
    """Yield the solutions with one or two coefficients at 0 whose others are at least 0."""
    for i, j in combinations(range(3), 2):
        p, q, r = sums[2 * i], sums[i + j], sums[2 * j]
        if p > 0 and (d := r - q / p * q):
            second = (moments[j] - q / p * moments[i]) / d
            first = (moments[i] - q * second) / p
            if first >= 0 and second >= 0:
                yield _coefficients({i: first, j: second})
    for i in range(3):
        if moments[i] > 0 and sums[2 * i] > 0:
            yield _coefficients({i: moments[i] / sums[2 * i]})


def _coefficients(values: dict[int, float]) -> Coefficients:
    return values.get(0, 0.0), values.get(1, 0.0), values.get(2, 0.0)


def _explained_squares(
    found: Coefficients, sums: Sequence[float], moments: Sequence[float]
) -> float:
    """Compute the reduction of the sum of squares by coefficients p: 2·p·T − p·G·p."""
    a, b, c = found
    s0, s1, s2, s3, s4 = sums
    t0, t1, t2 = moments
    explained = a * (2 * t0 - (s0 * a + s1 * b + s2 * c))
    explained += b * (2 * t1 - (s1 * a + s2 * b + s3 * c))
    return explained + c * (2 * t2 - (s2 * a + s3 * b + s4 * c))
