"""One unit cost per class by eigenvalues: the same equations as written out whole."""

import numpy as np
import pytest

from models.arrays import Array
from models.attribution.call_and_row_costs import interval_weights
from models.attribution.class_cost_solver import Spectrum, UnitCostEquations, UnitCostProblem
from models.attribution.empirical_bayes import fit_class_unit_costs, fit_unit_costs_by_interval
from models.attribution.nnls import minimise_non_negative
from models.attribution.sufficient_statistics import Moments
from models.numerics import NEGLIGIBLE

SHAPES = [(40, 7), (60, 60), (25, 70)]


def problem(intervals: int, classes: int) -> tuple[UnitCostProblem, Array]:
    """Sums of random intervals, of which classes cost less than nothing; their matrix, Δt too."""
    rng = np.random.default_rng(intervals)
    rows = rng.gamma(1, 1 / classes, (intervals, classes))
    length = np.full(intervals, 0.1)
    unit_cost = np.where(np.arange(classes) % 3, rng.gamma(2, 1, classes), -0.2)
    y = (rows @ unit_cost + 0.05) * np.exp(rng.normal(0, 0.02, intervals))
    both = np.column_stack((rows, length))
    found = UnitCostProblem(
        spectrum=Spectrum.of_rows(rows),
        border=length @ rows,
        corner=float(length @ length),
        projection=both.T @ y,
        square=float(y @ y),
        intervals=intervals,
        base_spread=None,
    )
    return found, both.T @ both


def written_out(equations: UnitCostEquations, gram: Array) -> Array:
    """The matrix M of a class's unit cost, the base and the common one, entry by entry."""
    k, precision = len(gram) - 1, equations.precision
    matrix = np.zeros((k + 2, k + 2))
    matrix[: k + 1, : k + 1] = gram / equations.noise
    matrix[range(k), range(k)] += precision
    matrix[:k, k + 1] = matrix[k + 1, :k] = -precision
    matrix[k, k] += NEGLIGIBLE
    matrix[k + 1, k + 1] = k * precision * (1 + NEGLIGIBLE) + NEGLIGIBLE
    return matrix


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tau", [0.1, 1.0, 5.0])
def test_the_eigenvalue_form_equals_the_full_equations(shape: tuple[int, int], tau: float) -> None:
    """Minimum, variances, determinant and products, with unknowns held at 0, T < K too."""
    found, gram = problem(*shape)
    equations = found.equations(tau, 0.001)
    matrix = written_out(equations, gram)
    least = equations.non_negative_minimum(np.ones(len(matrix))).solution
    assert least == pytest.approx(minimise_non_negative(matrix, equations.vector), abs=1e-8)
    assert (least == 0).any() or tau < 1
    assert equations.product(least) == pytest.approx(matrix @ least, rel=1e-9, abs=1e-9)
    all_free = np.ones(len(matrix), dtype=np.bool_)
    without_base, without_mean = all_free.copy(), all_free.copy()
    without_base[-2:], without_mean[-2:] = (False, True), (True, False)
    for free in (least > 0, all_free, without_base, without_mean, without_base & without_mean):
        inner = matrix[np.ix_(free, free)]
        solved = equations.restricted_to(free)
        assert solved.variances()[free] == pytest.approx(np.diag(np.linalg.inv(inner)), rel=1e-6)
        assert not solved.variances()[~free].any()
        assert solved.log_determinant() == pytest.approx(np.linalg.slogdet(inner)[1], rel=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_and_their_sums_give_the_same_fit(shape: tuple[int, int]) -> None:
    """Also with a class that did nothing, and with more classes than intervals."""
    rng = np.random.default_rng(5)
    x = rng.gamma(1, 1, shape)
    x[:, 2] = 0
    y = (x @ rng.normal(2, 0.2, shape[1]) + 3) * np.exp(rng.normal(0, 0.05, shape[0]))
    seconds, weights = np.ones(shape[0]), interval_weights(y)
    by_sums = fit_class_unit_costs(Moments.of(x, seconds, y, weights))
    by_intervals = fit_unit_costs_by_interval(x, seconds, y, weights)
    assert by_intervals.totals == pytest.approx(by_sums.totals, rel=1e-6)
    assert by_intervals.stderr == pytest.approx(by_sums.stderr, rel=1e-6)
    assert by_intervals.base == pytest.approx(by_sums.base, rel=1e-6, abs=1e-6 * y.sum())
    assert by_intervals.totals[2] == by_intervals.stderr[2] == 0
