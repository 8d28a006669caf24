"""The learned model: what the total's movement says about each class."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_classes import simulate

from agent.csv_input.class_file import read_classes
from models.arrays import Array, Mask
from models.attribution import prior_mixture_fit
from models.attribution.block_model import fit_intervals
from models.attribution.call_and_row_costs import (
    fit_unit_costs,
    interval_weights,
    robust_weights,
)
from models.attribution.class_cost_fit import ClassPriors, MixtureProblem
from models.attribution.class_interval_table import ClassIntervals
from models.attribution.cost_model import CostModel
from models.attribution.division_methods import DividedUse
from models.attribution.empirical_bayes import fit_class_unit_costs
from models.attribution.nnls import minimise_non_negative
from models.attribution.prior_mixture_fit import fit_mixture
from models.attribution.result import PredictionError
from models.attribution.sufficient_statistics import Moments
from testbed.data_file_paths import data


def one_column(x: Array) -> ClassIntervals:
    """Intervals of a second, of which only the statement time is known."""
    names = tuple(f"q{k}" for k in range(x.shape[1]))
    return ClassIntervals(names, np.ones(len(x)), x)


def moments_of(x: Array, y: Array) -> Moments:
    """Moments with the usual weights and intervals of 1 s."""
    return Moments.of(x, np.ones(len(y)), y, interval_weights(y))


@pytest.mark.parametrize("seed", range(20))
def test_the_non_negative_minimum_equals_scipys(seed: int) -> None:
    """Scipy.optimize.nnls on the same problem, with collinear and scaled columns too."""
    from scipy.optimize import nnls

    rng = np.random.default_rng(seed)
    a = rng.normal(size=(60, 30)) * 10 ** rng.uniform(-4, 4, 30)
    a[:, 3] = a[:, 4] * (1 + 1e-3 * rng.normal(size=60))
    y = a @ np.maximum(rng.normal(size=30), 0) + rng.normal(size=60)
    found = minimise_non_negative(a.T @ a, a.T @ y)
    expected, _ = nnls(a, y)
    assert (found >= 0).all()
    assert np.linalg.norm(a @ found - y) == pytest.approx(np.linalg.norm(a @ expected - y))


def test_a_warm_start_does_not_change_the_minimum() -> None:
    """It saves exchanges, not accuracy."""
    rng = np.random.default_rng(1)
    a, y = rng.normal(size=(50, 20)), rng.normal(size=50)
    plain = minimise_non_negative(a.T @ a, a.T @ y)
    for start in (np.zeros(20), np.ones(20), plain):
        assert minimise_non_negative(a.T @ a, a.T @ y, start) == pytest.approx(plain)


def test_moments_of_blocks_add_up() -> None:
    """So a sliding window is a sum of minutes, and nothing is subtracted."""
    s = simulate(intervals=120)
    x, w = s.truth, interval_weights(s.y)
    blocks = [
        Moments.of(x[b], s.intervals.seconds[b], s.y[b], w[b])
        for b in (slice(0, 50), slice(50, 60), slice(60, 120))
    ]
    together = blocks[0] + blocks[1] + blocks[2]
    whole = Moments.of(x, s.intervals.seconds, s.y, w)
    assert together.gram == pytest.approx(whole.gram)
    assert together.projection == pytest.approx(whole.projection)
    assert together.intervals == 120
    assert together.square == pytest.approx(whole.square)


def test_the_residual_of_moments_equals_that_of_samples() -> None:
    """Σ w(y − ŷ)², from the sums alone."""
    rng = np.random.default_rng(2)
    x, y = rng.uniform(size=(40, 3)), rng.uniform(1, 2, 40)
    w, c = interval_weights(y), np.array([0.5, 0.2, 0.1, 0.9])
    residual = y - np.column_stack((x, np.ones(40))) @ c
    found = Moments.of(x, np.ones(40), y, w).residual_square(c)
    assert found == pytest.approx(float(w @ residual**2))


def test_common_unit_costs_are_found() -> None:
    """20 µs a call, 1 µs a row, 0.1 CPU of no class."""
    s = simulate(intervals=400)
    assert s.intervals.count is not None
    rows = dict(s.intervals.sizes)["rows_examined"].sum(axis=1)
    y = 20e-6 * s.intervals.count.sum(axis=1) + 1e-6 * rows + 0.1
    unit_costs = fit_unit_costs(s.intervals, y)
    assert unit_costs.per_call == pytest.approx(20e-6, rel=1e-3)
    assert dict(unit_costs.sizes)["rows_examined"] == pytest.approx(1e-6, rel=1e-3)
    assert unit_costs.per_second == pytest.approx(0.1, rel=1e-3)


def test_unit_costs_need_counts() -> None:
    """A ValueError, not a guess."""
    with pytest.raises(ValueError, match="counts"):
        fit_unit_costs(one_column(np.ones((3, 2))), np.ones(3))


@pytest.mark.parametrize("options", [{}, {"busy": 0.75}, {"busy": 0.2}, {"common": 0.75}])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_waiting_classes_are_found_without_texts(options: dict[str, Any], seed: int) -> None:
    """SLEEP has most of the time and next to no CPU; the hash computes without rows."""
    s = simulate(seed, **options)
    model = fit_intervals(s.without_texts, DividedUse(s.y)).model
    computing = dict(zip(model.names, model.mixture.computing, strict=True))
    totals = dict(zip(model.names, model.mixture.totals, strict=True))
    assert s.intervals.statement_time[:, -1].sum() > 0.2 * s.intervals.statement_time.sum()
    assert computing["sleep"] < 0.02
    assert computing["hash"] > 0.5
    assert totals["sleep"] < 0.01 * s.y.sum()


def test_unexplained_use_is_base() -> None:
    """0.8 CPU of no class, half of the total, is divided over none."""
    s = simulate(base=0.8)
    model = fit_intervals(s.without_texts, DividedUse(s.y)).model
    assert model.mixture.base / s.y.sum() == pytest.approx(0.8 * 300 / s.y.sum(), abs=0.05)


def test_two_standard_errors_cover_the_truth_nine_times_in_ten() -> None:
    """Here costs differ by 0.12 from class to class, on real servers by up to 0.32."""
    inside = []
    for seed in range(12):
        s = simulate(seed, intervals=240)
        mixture = fit_intervals(s.without_texts, DividedUse(s.y)).model.mixture
        inside += list(np.abs(mixture.totals - s.truth.sum(axis=0)) / mixture.stderr)
    assert 0.9 <= np.mean(np.array(inside) < 2) <= 1.0
    assert 0.5 <= np.mean(np.array(inside) < 1) <= 0.99


def test_the_second_half_is_predicted_from_the_first() -> None:
    """Within 4 % a second, where intervals have 2 % of noise and calls 20 %."""
    s = simulate(intervals=400)
    first, second = slice(200), slice(200, 400)
    known = s.without_texts.at(first)
    model = fit_intervals(known, DividedUse(s.y[first])).model
    quality = PredictionError.of(s.y[second], model.predict(s.without_texts.at(second)))
    assert quality.mape is not None
    assert quality.mape < 0.04


@pytest.mark.parametrize(("name", "most"), [("A_moderate", 0.06), ("D_light", 0.05)])
def test_the_second_half_of_a_recording_is_predicted(name: str, most: float) -> None:
    """MySQL 9.7, 1 s intervals: at most 6 % on a moderate load, 5 % on a light one."""
    from agent.csv_input.host_file import join_host_file, read_host

    classes = read_classes(str(data(f"mysql97/{name}.csv.gz")))
    recorded = join_host_file(classes, read_host(str(data(f"mysql97/{name}_host.csv.gz"))))
    assert recorded.y is not None
    half = len(recorded.y) // 2
    known = recorded.intervals.at(slice(half))
    model = fit_intervals(known, DividedUse(recorded.y[:half])).model
    predicted = model.predict(recorded.intervals.at(slice(half, None)))
    mape = PredictionError.of(recorded.y[half:], predicted).mape
    assert mape is not None
    assert mape <= most


def test_the_published_second_file_is_predicted_better_than_by_wlr() -> None:
    """One column per class: MAPE at most 2.8 %, R² at least 0.975; WLR has 5.9 % and 0.91."""
    train, test = (read_classes(str(data(f"wlr/{name}.csv"))) for name in ("001", "002"))
    assert train.y is not None
    assert test.y is not None
    model = fit_intervals(train.intervals, DividedUse(train.y, time_like=False)).model
    quality = PredictionError.of(test.y, model.predict(test.intervals))
    assert quality.mape is not None
    assert quality.r_squared is not None
    assert quality.mape <= 0.028
    assert quality.r_squared >= 0.975


def test_equal_unit_costs_are_shrunk_together() -> None:
    """Noise does not separate 30 equal classes: all unit costs end near 2."""
    rng = np.random.default_rng(3)
    x = rng.gamma(1, 1, (60, 30))
    y = 2 * x.sum(axis=1) * np.exp(rng.normal(0, 0.05, 60))
    mixture = fit_class_unit_costs(moments_of(x, y))
    unit_costs = mixture.totals / x.sum(axis=0)
    assert np.abs(unit_costs - 2).max() < 0.5
    assert mixture.level == pytest.approx(2, rel=0.1)


def test_different_unit_costs_are_not_shrunk() -> None:
    """The strength of the prior comes from the data."""
    rng = np.random.default_rng(4)
    x, unit_cost = rng.gamma(1, 1, (400, 10)), np.array([0, 0, 1, 1, 2, 3, 5, 8, 13, 21.0])
    y = (x @ unit_cost + 3) * np.exp(rng.normal(0, 0.01, 400))
    mixture = fit_class_unit_costs(moments_of(x, y))
    assert mixture.totals / x.sum(axis=0) == pytest.approx(unit_cost, abs=0.15)
    assert mixture.base == pytest.approx(3 * 400, rel=0.1)


def odd_intervals() -> dict[str, ClassIntervals]:
    """Intervals that say too little."""
    s = simulate(intervals=40)
    rng = np.random.default_rng(6)
    one = s.without_texts.arranged(["point"])
    zeros = np.zeros((5, 3))
    twin = s.without_texts.arranged(["point", "point2", "sleep"])
    assert twin.count is not None
    twin.count[:, 1] = twin.count[:, 0]
    twin.statement_time[:, 1] = twin.statement_time[:, 0]
    return {
        "one class": one,
        "one interval": s.without_texts.at(slice(1)),
        "more classes than intervals": s.without_texts.at(slice(4)),
        "collinear": twin,
        "idle": ClassIntervals(("a", "b", "c"), np.ones(5), zeros, zeros),
        "no time": ClassIntervals(
            ("a", "b"), np.ones(9), np.zeros((9, 2)), rng.poisson(9, (9, 2)).astype(np.float64)
        ),
        "one column": one_column(rng.uniform(size=(3, 7))),
        "one column, twins": one_column(np.ones((6, 2))),
        "one column, idle": one_column(zeros),
    }


@pytest.mark.parametrize("name", odd_intervals())
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_intervals_with_little_information_give_a_finite_fit(name: str, y: float) -> None:
    """Never NaN, never below 0, never much more than the total."""
    intervals = odd_intervals()[name]
    series = np.full(len(intervals), y)
    model = fit_intervals(intervals, DividedUse(series)).model
    mixture = model.mixture
    for values in (mixture.totals, mixture.stderr, mixture.computing, model.predict(intervals)):
        assert np.isfinite(values).all()
        assert (values >= 0).all()
    assert mixture.totals.sum() + mixture.base <= 1.5 * series.sum()


def test_indistinguishable_classes_get_the_same() -> None:
    """Two that always run together, each with a large standard error."""
    twin = odd_intervals()["collinear"]
    assert twin.count is not None
    y = twin.count[:, 0] * 100e-6 + 0.01
    mixture = fit_intervals(twin, DividedUse(y)).model.mixture
    assert mixture.totals[0] == pytest.approx(mixture.totals[1])
    assert mixture.stderr[0] > 0.05 * mixture.totals[0]


@settings(max_examples=25)
@given(st.integers(0, 1000), st.sampled_from([2.0**-20, 0.25, 2.0**30]))
def test_the_unit_of_the_resource_does_not_matter(seed: int, unit: float) -> None:
    """Bytes instead of gigabytes: the same shares, to the last digits in powers of two."""
    s = simulate(seed, intervals=60)
    plain = fit_intervals(s.without_texts, DividedUse(s.y)).model.mixture
    other = fit_intervals(s.without_texts, DividedUse(unit * s.y)).model.mixture
    whole = unit * float(s.y.sum())
    assert other.totals == pytest.approx(unit * plain.totals, rel=1e-9, abs=1e-12 * whole)
    assert other.base == pytest.approx(unit * plain.base, rel=1e-9, abs=1e-12 * whole)


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(2, 40))
def test_no_class_has_negative_use(seed: int, intervals: int) -> None:
    """With random totals unrelated to the classes."""
    s = simulate(seed, intervals=intervals)
    y = np.random.default_rng(seed).gamma(0.5, 1, intervals)
    mixture = fit_intervals(s.without_texts, DividedUse(y)).model.mixture
    assert (mixture.totals >= 0).all()
    assert mixture.base >= 0
    assert np.isfinite(mixture.variances).all()


def test_time_is_left_out_where_use_does_not_follow_it() -> None:
    """Bytes written do not follow time: a class that inserts writes, however short it runs."""
    s = simulate(intervals=300)
    assert s.intervals.count is not None
    y = 16384 * s.intervals.count[:, 2] + 1000.0
    mixture = fit_intervals(s.without_texts, DividedUse(y, time_like=False)).model.mixture
    assert mixture.totals[2] > 0.8 * y.sum()


def test_an_outlying_interval_counts_less() -> None:
    """A backup of three intervals does not move all unit costs."""
    s = simulate(intervals=200)
    y = s.y.copy()
    y[50:53] += 5 * s.y.mean()
    model = fit_intervals(s.without_texts, DividedUse(y)).model
    weights = robust_weights(y, model.predict(s.without_texts))
    assert weights[50:53].max() < 0.2 * np.median(weights)
    plain = fit_intervals(s.without_texts, DividedUse(s.y)).model
    assert model.mixture.level == pytest.approx(plain.mixture.level or 0, rel=0.15)


def test_a_prediction_allows_new_and_missing_classes() -> None:
    """A class never seen adds nothing, one that is gone uses nothing."""
    s = simulate(intervals=100)
    model = fit_intervals(s.without_texts, DividedUse(s.y)).model
    assert isinstance(model, CostModel)
    more = s.without_texts.arranged([*s.intervals.names, "new"])
    assert model.predict(more) == pytest.approx(model.predict(s.without_texts))
    fewer = s.without_texts.arranged([name for name in s.intervals.names if name != "scan"])
    assert (model.predict(fewer) <= model.predict(s.without_texts)).all()


def test_one_interval_is_divided_by_the_priors_alone() -> None:
    """Unit costs and time are all there is, and the sum is the total."""
    x = np.array([[1.0, 3.0]])
    mixture = fit_mixture(moments_of(x, np.array([8.0])), ClassPriors(x[0], x[0]))
    assert mixture.totals.sum() + mixture.base == pytest.approx(8, rel=0.05)
    assert mixture.totals[1] / mixture.totals[0] == pytest.approx(3, rel=0.05)


def test_a_class_at_its_bound_is_as_uncertain_as_without_it() -> None:
    """That it cannot have used more than its time does not measure what it used."""
    rng = np.random.default_rng(1)
    x = rng.gamma(4.0, size=(200, 2))
    y = (x @ [1.0, 2.0] + 1.0) * np.exp(rng.normal(0, 0.05, 200))
    used = x.sum(axis=0) * [1.0, 2.0]
    free = fit_mixture(moments_of(x, y), ClassPriors(used, used))
    most = free.totals * [2.0, 0.95]
    bounded = fit_mixture(moments_of(x, y), ClassPriors(used, used, max_use=most))
    assert bounded.totals[1] == pytest.approx(most[1])
    assert bounded.stderr == pytest.approx(free.stderr, rel=0.1)


def test_a_class_that_most_likely_computes_gets_its_part_by_time() -> None:
    """A report of few rows, most of the CPU: that it waits is improbable, but would be precise."""
    report, short = np.array([3.1, 5.0, 5.0, 5.0, 1.4]), np.array([0.3, 0.4, 0.3, 0.3, 0.3])
    x, used = np.column_stack((1e-5 * report, short)), 0.97 * report.sum()
    work = np.array([report.sum(), short.sum()])
    priors = ClassPriors(x.sum(axis=0), work, max_use=10 * work, min_computing_level=0.36)
    mixture = fit_mixture(moments_of(x, 0.97 * report + 1.2 * short), priors)
    assert 0.9 <= mixture.computing[0] < 0.99
    assert mixture.totals[0] == pytest.approx(used, rel=0.05)
    assert mixture.base < 0.05 * used


@pytest.mark.parametrize("evidence", [0.0, -1.0, -2.2])
@pytest.mark.parametrize("ratio", [20.0, 30.0, 50.0])
@pytest.mark.parametrize("computes", [True, False])
def test_the_error_of_a_doubtful_class_has_both_answers(
    ratio: float, evidence: float, computes: bool
) -> None:
    """A small class of many times the time that its rows explain, in noise that hides it."""
    rng = np.random.default_rng(3)
    large, small = rng.gamma(4.0, size=40), rng.gamma(20.0, size=40) / 20
    x, cost = np.column_stack((large, small / ratio)), 1.0 if computes else 1 / ratio
    y = (large + cost * small + 0.4) * np.exp(rng.normal(0, 0.2, 40))
    work, waits = np.array([large.sum(), small.sum()]), np.array([0.0, evidence])
    mixture = fit_mixture(moments_of(x, y), ClassPriors(x.sum(axis=0), work, wait_evidence=waits))
    assert abs(mixture.totals[1] - cost * small.sum()) < 2 * mixture.stderr[1]


def test_each_hypothesis_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one is also a neighbour of the last."""
    tried = list[tuple[MixtureProblem, prior_mixture_fit._Hypothesis]]()
    settle = prior_mixture_fit._fit_hypotheses

    def noted(
        problem: MixtureProblem, masks: Sequence[Mask], noise: float
    ) -> list[prior_mixture_fit._Hypothesis]:
        found = settle(problem, masks, noise)
        tried.extend((problem, one) for one in found)
        return found

    monkeypatch.setattr(prior_mixture_fit, "_fit_hypotheses", noted)
    simulated = simulate(intervals=120)
    intervals = simulated.without_texts
    fit_intervals(intervals, DividedUse(simulated.y))
    problem = tried[-1][0]
    tried.clear()
    selection = prior_mixture_fit.select_waiting(problem)
    best, *rest = (found for _, found in tried)
    path, beside = [best], list[prior_mixture_fit._Hypothesis]()
    while rest:
        many = len(list(prior_mixture_fit._neighbours(problem, path[-1])))
        beside, rest = rest[:many], rest[many:]
        if rest:
            path.append(max(beside, key=lambda one: one.evidence))
    known = {one.waits.tobytes() for one in path}
    assert len(path) > 1
    assert known & {one.waits.tobytes() for one in beside}
    each = path + [one for one in beside if one.waits.tobytes() not in known]
    weights = np.exp([min(one.evidence - path[-1].evidence, 0.0) for one in each])
    waiting = weights @ np.array([one.waits for one in each]) / weights.sum()
    assert selection.computing == pytest.approx(1 - waiting, abs=1e-12)
