"""The parabola of coefficients of at least 0, against scipy's non-negative least squares."""

import numpy as np
import pytest
import scipy

from models.arrays import Array
from models.usl.parabola_nnls import ZERO_COEFFICIENTS, fit_non_negative

DRAWS = 3000


def squares(found: Array, m: Array, target: Array, w: Array) -> float:
    """The weighted sum of squares about a parabola."""
    return float(np.sum(w * (target - np.polynomial.polynomial.polyval(m, found)) ** 2))


@pytest.mark.parametrize("levels", [1, 2, 3, 40])
def test_the_parabola_is_the_least_squares_minimum(levels: int) -> None:
    """Whichever coefficients are 0, and where too few levels leave them open."""
    rng = np.random.default_rng(levels)
    ended: set[tuple[bool, ...]] = set()
    for _ in range(DRAWS):
        m = rng.choice(rng.uniform(0.05, 1, levels), max(levels, 5))
        truth = rng.normal(0, 1, 3) * rng.integers(0, 2, 3)
        target = np.polynomial.polynomial.polyval(m, truth) + rng.normal(0, 0.1, len(m))
        w = rng.uniform(0.2, 2, len(m))
        powers = m ** np.arange(5)[:, None]
        found = fit_non_negative((powers @ w).tolist(), (powers[:3] @ (w * target)).tolist())
        root = np.sqrt(w)
        best, _ = scipy.optimize.nnls((powers[:3] * root).T, target * root)
        assert min(found) >= 0
        assert squares(np.array(found), m, target, w) <= squares(best, m, target, w) + 1e-9
        ended.add(tuple(c > 0 for c in found))
    assert levels < 3 or len(ended) == 8, ended


def test_negative_targets_give_zero_coefficients() -> None:
    """Targets below 0 are met best by 0."""
    assert fit_non_negative([3.0, 2.0, 1.5, 1.2, 1.0], [-1.0, -0.5, -0.2]) == ZERO_COEFFICIENTS


def test_underflowing_sums_are_no_error() -> None:
    """Loads over fifty decades: a vanished sum explains nothing."""
    assert fit_non_negative([1.0, 0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0]) == (1.0, 0.0, 0.0)
    assert min(fit_non_negative([1.0, 1e-200, 0.0, 0.0, 0.0], [1.0, 1e-200, 1e-300])) >= 0
