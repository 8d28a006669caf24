"""Weighted linear regression: the published numbers, and each of its special cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.csv_input.class_file import read_classes
from models.arrays import Array
from models.attribution.result import PredictionError
from models.attribution.weighted_linear_regression import (
    Line,
    Wlr,
    divide_in_proportion,
    fit_line,
    fit_wlr,
)
from testbed.data_file_paths import data


def column(*values: float) -> Array:
    """One class, shape (T, 1)."""
    return np.array(values)[:, None]


@pytest.mark.parametrize(
    ("file", "mape", "r_squared", "slope"),
    [("wlr/001.csv", 0.0588, 0.962, 0.9735), ("wlr/002.csv", 0.0588, 0.9147, 1.0325)],
)
def test_the_published_results_are_reproduced(
    file: str, mape: float, r_squared: float, slope: float
) -> None:
    """Trained on 001: MAPE 5.9 % on both, R² 0.96 and 0.91, slopes printed as 0.97 and 1 (%.2g)."""
    train, test = read_classes(str(data("wlr/001.csv"))), read_classes(str(data(file)))
    assert train.y is not None
    assert test.y is not None
    fitted = fit_wlr(train.intervals.statement_time, train.y)
    x = test.intervals.arranged(train.intervals.names).statement_time
    quality = PredictionError.of(test.y, fitted.predict(x))
    assert quality.mape == pytest.approx(mape, abs=0.0002)
    assert quality.r_squared == pytest.approx(r_squared, abs=0.0005)
    assert quality.slope == pytest.approx(slope, abs=0.0005)


def test_each_sample_is_divided_in_proportion() -> None:
    """z_k = x_k·y/Σx."""
    z, used = divide_in_proportion([[1, 3], [2, 0]], [8, 5])
    assert z.tolist() == [[2, 6], [5, 0]]
    assert used.tolist() == [True, True]


def test_samples_without_y_or_without_x_are_skipped() -> None:
    """Y = 0 or Σx = 0 charges no class and trains no line."""
    fitted = fit_wlr(column(1, 2, 3, 0, 4), [2, 4, 6, 9, 0])
    assert fitted.lines[0].samples == 3
    assert fitted.lines[0].slope == pytest.approx(2)
    assert fitted.totals.tolist() == [12]


def test_a_class_absent_from_a_sample_is_ignored_there() -> None:
    """Only samples with x > 0 count, and an absent class has no start-up cost in a prediction."""
    fitted = fit_wlr([[1, 0], [1, 2], [1, 0], [1, 4]], [1, 3, 1, 5])
    assert [line.samples for line in fitted.lines] == [4, 2]
    line = Line(2, 5, None, None, None, None, 3)
    assert Wlr((line,), np.zeros(1)).predict(column(0, 1)).tolist() == [0, 7]


def test_a_class_never_seen_predicts_nothing() -> None:
    """No samples, no line."""
    fitted = fit_wlr([[1, 0], [2, 0]], [1, 2])
    assert fitted.lines[1] == Line(None, 0, None, None, None, None, 0)
    assert fitted.predict([[0, 7]]).tolist() == [0]


def test_one_sample_is_a_line_through_the_origin() -> None:
    """Slope z/x, no intercept, no errors."""
    line = fit_line(np.array([4.0]), np.array([2.0]))
    assert line == Line(0.5, 0, None, None, None, None, 1)


def test_two_samples_are_a_line_through_both() -> None:
    """Exact, and therefore without errors."""
    line = fit_line(np.array([1.0, 3.0]), np.array([3.0, 7.0]))
    assert line.slope == pytest.approx(2)
    assert line.intercept == pytest.approx(1)
    assert (line.slope_stderr, line.intercept_stderr, line.samples) == (None, None, 2)


def test_samples_of_one_x_are_a_line_through_the_origin() -> None:
    """The published formula divides by zero there; the ratio of the means is what can be said."""
    line = fit_line(np.array([2.0, 2.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    assert (line.slope, line.intercept, line.r_squared) == (1, 0, None)


def test_lines_without_a_positive_slope_are_not_used() -> None:
    """A class that runs longer should use more: such a line predicts nothing."""
    for z in ([3.0, 2.0, 1.0], [2.0, 2.0, 2.0]):
        line = fit_line(np.array([1.0, 2.0, 3.0]), np.array(z))
        assert not line.is_usable
        assert Wlr((line,), np.zeros(1)).predict(column(5)).tolist() == [0]


def test_a_negative_intercept_counts_as_zero_and_a_positive_one_is_kept() -> None:
    """The line keeps its own; a prediction does not subtract."""
    x = np.array([1.0, 2.0, 3.0])
    below, above = fit_line(x, 2 * x - 1), fit_line(x, 2 * x + 1)
    assert below.intercept == pytest.approx(-1)
    assert Wlr((below,), np.zeros(1)).predict(column(2)) == pytest.approx([4])
    assert Wlr((above,), np.zeros(1)).predict(column(2)) == pytest.approx([5])


def test_lines_agree_with_scipy() -> None:
    """Slope, intercept, R² and both standard errors of a textbook regression."""
    from scipy.stats import linregress

    rng = np.random.default_rng(5)
    x = rng.uniform(1, 9, 40)
    z = 3 * x + 2 + rng.normal(0, 0.5, 40)
    line, oracle = fit_line(x, z), linregress(x, z)
    assert line.slope == pytest.approx(oracle.slope)
    assert line.intercept == pytest.approx(oracle.intercept)
    assert line.r_squared == pytest.approx(oracle.rvalue**2)
    assert line.slope_stderr == pytest.approx(oracle.stderr)
    assert line.intercept_stderr == pytest.approx(oracle.intercept_stderr)


def test_a_line_far_from_the_origin_loses_no_digits() -> None:
    """Sums of squares that cancel would give noise here."""
    x = 1e9 + np.arange(10.0)
    line = fit_line(x, 0.25 * x)
    assert line.slope == pytest.approx(0.25, rel=1e-6)


def test_waiting_classes_are_charged_by_their_time() -> None:
    """The method's own limit: a class that sleeps is charged like one that computes."""
    fitted = fit_wlr([[1.0, 9.0]] * 5, [1.0] * 5)
    assert fitted.totals == pytest.approx([0.5, 4.5])


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[1.0]], [1.0, 2.0], "shape"),
        ([1.0], [1.0], "shape"),
        ([[-1.0]], [1.0], "negative"),
        ([[1.0]], [-1.0], "negative"),
        ([[np.nan]], [1.0], "finite"),
        ([[1.0]], [np.inf], "finite"),
    ],
)
def test_invalid_arrays_are_refused(x: list[object], y: list[float], message: str) -> None:
    """A ValueError with the reason."""
    with pytest.raises(ValueError, match=message):
        fit_wlr(np.array(x, dtype=float), y)


amounts = st.floats(0, 1e9).map(lambda value: 0.0 if value < 1e-9 else value)


@given(
    st.integers(1, 5).flatmap(
        lambda k: st.lists(
            st.tuples(st.lists(amounts, min_size=k, max_size=k), amounts), min_size=1, max_size=12
        )
    ),
    st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_parts_add_up_and_follow_the_units(
    samples: list[tuple[list[float], float]], unit: float
) -> None:
    """Σz = y wherever something runs; y in other units gives z in other units; no NaN."""
    x, y = np.array([row for row, _ in samples]), np.array([value for _, value in samples])
    z, used = divide_in_proportion(x, y)
    assert (z >= 0).all()
    assert z.sum(axis=1) == pytest.approx(np.where(used, y, 0.0))
    assert divide_in_proportion(x, unit * y)[0] == pytest.approx(unit * z)
    assert np.isfinite(fit_wlr(x, y).predict(x)).all()
