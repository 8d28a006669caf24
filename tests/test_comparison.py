"""Two estimates of one quantity: the change's interval, and what is marked."""

from dataclasses import replace

import numpy as np
import pytest

from agent.compare.comparison import Compared, Unit
from agent.compare.period_class_costs import COLUMNS, PART_COUNT, ClassCosts
from agent.export.comparison_rows import row_cells
from models.capacity.resource_and_limit import Resource
from models.capacity.resource_limits import find_resource_limits
from models.estimate_difference import (
    ComparedEstimate,
    EstimatedChange,
    Verdict,
    compare_difference,
    compare_ratio,
)
from models.usl.fit import fit_bayes
from models.usl.law import Usl

TRIALS = 4000


def measured(truth: float, deviation: float, seed: int) -> list[ComparedEstimate]:
    """Estimates of a truth with a known error, and their 90 % intervals."""
    values = truth + deviation * np.random.default_rng(seed).standard_normal(TRIALS)
    margin = 1.645 * deviation
    return [ComparedEstimate(float(v), float(v - margin), float(v + margin)) for v in values]


@pytest.mark.parametrize(("before", "after"), [(10.0, 10.0), (10.0, 12.0), (3.0, 2.5)])
def test_the_changes_interval_has_its_nominal_coverage(before: float, after: float) -> None:
    """For ratios and for differences, with errors of 3 and 6 %."""
    pairs = zip(measured(before, 0.03 * before, 1), measured(after, 0.06 * after, 2), strict=True)
    ratios, differences = 0, 0
    for first, second in pairs:
        one, other = compare_ratio(first, second), compare_difference(first, second)
        assert None not in (one.low, one.high, other.low, other.high)
        ratios += one.low <= after / before <= one.high  # type: ignore[operator]
        differences += other.low <= after - before <= other.high  # type: ignore[operator]
    assert ratios / TRIALS == pytest.approx(0.9, abs=0.02)
    assert differences / TRIALS == pytest.approx(0.9, abs=0.02)


def test_unchanged_quantities_are_marked_once_in_a_hundred_times() -> None:
    """As a 99 % interval allows."""
    pairs = zip(measured(5.0, 0.2, 3), measured(5.0, 0.1, 4), strict=True)
    marked = sum(compare_ratio(*pair).verdict is not Verdict.WITHIN for pair in pairs)
    assert marked / TRIALS == pytest.approx(0.01, abs=0.006)


def test_a_change_needs_a_bound_on_its_own_side_only() -> None:
    """Above an upper bound before is higher; without any bound there is no verdict."""
    below = ComparedEstimate(100.0, 90.0, 110.0)
    assert compare_ratio(below, ComparedEstimate(200.0, 180.0, None)).verdict is Verdict.HIGHER
    assert compare_ratio(
        ComparedEstimate(200.0, None, 210.0), ComparedEstimate(100.0, None, 110.0)
    ).verdict is (Verdict.CANNOT_TELL)
    assert compare_ratio(below, ComparedEstimate(200.0)).verdict is Verdict.CANNOT_TELL
    for change in (compare_ratio, compare_difference):
        assert change(below, ComparedEstimate(None)).verdict is Verdict.CANNOT_TELL
        assert change(ComparedEstimate(None), below).verdict is Verdict.CANNOT_TELL


@pytest.mark.parametrize(("points", "widest"), [(20, 1.2), (200, 1.1)])
def test_the_laws_intervals_cover_its_parameters(points: int, widest: float) -> None:
    """Of few or many noisy points of a known law, σ, κ and λ lie within, nine times in ten."""
    law, trials = Usl(sigma=0.02, kappa=0.0005, lam=500.0), 40
    truth, held = (law.sigma, law.kappa, law.lam), np.zeros(3)
    for seed in range(trials):
        random = np.random.default_rng(seed)
        n = random.uniform(1.0, 16.0, points)
        x = law.throughput(n) * np.exp(0.03 * random.standard_normal(points))
        intervals = fit_bayes(n, x).law_intervals
        assert intervals is not None
        pairs = zip(intervals, truth, strict=True)
        held += [known.low <= true <= known.high for known, true in pairs]
        assert intervals.lam.ratio < widest
    assert held.min() / trials >= 0.85


def test_a_coherency_of_rounding_errors_is_zero() -> None:
    """Of a throughput that never grows σ is nearly 1: κ's bound is 0, and shown like that."""
    n = np.linspace(4, 40, 60)
    fitted = fit_bayes(n, 1000 * np.exp(0.01 * np.random.default_rng(1).standard_normal(60)))
    assert fitted.law_intervals is not None
    assert fitted.law_intervals.kappa.low == 0
    noise = ComparedEstimate(6.7e-13, -2.2e-16, 0.001)
    row = Compared(
        "kappa", Unit.NONE, noise, noise, compare_difference(noise, noise), is_difference=True
    )
    assert row_cells(row)[1:5] == ("0", "0 to 0.001", "0", "0 to 0.001")
    off = replace(row, change=EstimatedChange(Verdict.WITHIN, 1.1e-16, -6.7e-13, 0.001))
    assert row_cells(off)[5:7] == ("+0", "+0 to +0.001")


def test_a_large_change_and_its_bounds_are_factors() -> None:
    """Not +895 % to ×32; a smaller one and its bounds are in percent."""
    known = ComparedEstimate(1.0, 0.5, 2.0)
    row = Compared("capacity", Unit.NONE, known, known, EstimatedChange(Verdict.WITHIN))
    large = replace(row, change=EstimatedChange(Verdict.HIGHER, 15.2, 9.95, 32.2))
    assert row_cells(large)[5:7] == ("×15.2", "×9.95 to ×32.2")
    small = replace(row, change=EstimatedChange(Verdict.WITHIN, 1.5, 0.9, 9.95))
    assert row_cells(small)[5:7] == ("+50.0 %", "-10.0 % to +895.0 %")


def test_a_bound_that_is_not_known_is_no_dash_beside_one_that_is() -> None:
    """As in the other tables."""
    known, open_above = ComparedEstimate(1.0, 0.5, 2.0), ComparedEstimate(None, 271.0, None)
    change = EstimatedChange(Verdict.WITHIN, 0.9, None, 1.25)
    cells = row_cells(Compared("capacity", Unit.NONE, open_above, known, change))
    assert (cells[2], cells[4], cells[6]) == ("271 or more", "0.5 to 2", "+25.0 % or less")


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [(0.002, 0.0005, ("2 ms", "0.5 ms")), (1.5, 0.25, ("1.5 s", "0.25 s"))],
)
def test_times_of_a_row_have_one_unit(before: float, after: float, shown: tuple[str, str]) -> None:
    """That of the longer one."""
    one, other = (ComparedEstimate(value, None, None) for value in (before, after))
    row = Compared("demand:cpu", Unit.SECONDS, one, other, compare_ratio(one, other))
    assert (row_cells(row)[1], row_cells(row)[3]) == shown


def test_a_demands_error_is_no_smaller_than_its_scatter() -> None:
    """With noise the true demand is within 1.645 errors nine times in ten at least."""
    demand, trials, held = 1.5e-4, 60, 0
    for seed in range(trials):
        random = np.random.default_rng(seed)
        x = random.uniform(500.0, 5000.0, 200)
        used = 0.02 + demand * x * (1 + 0.05 * random.standard_normal(200))
        [resource_limit] = find_resource_limits(x, [Resource("cpu", used)])
        assert resource_limit.demand is not None
        assert resource_limit.demand_error is not None
        held += abs(resource_limit.demand - demand) < 1.645 * resource_limit.demand_error
        assert resource_limit.demand_error < 0.03 * resource_limit.demand
    assert held / trials >= 0.9


@pytest.mark.parametrize("parts", range(4, PART_COUNT + 1))
def test_the_interval_of_a_calls_cost_has_its_nominal_coverage(parts: int) -> None:
    """From as many parts of the period as the class was called in; of four there is none."""
    random, held, trials = np.random.default_rng(parts), 0, 2000
    for _ in range(trials):
        sums = np.full((len(COLUMNS), PART_COUNT), np.nan)
        calls = random.uniform(80.0, 120.0, parts)
        sums[0, :parts] = calls
        sums[1, :parts] = 0.01 * calls * (1 + 0.1 * random.standard_normal(parts))
        found = ClassCosts({"a": sums}).cost("a", "statement_time")
        assert found.value is not None
        if parts < 5:
            assert (found.low, found.high) == (None, None)
            continue
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.01 <= found.high
    # sometimes a little more: parts that are alike by chance look like those of a drifting cost
    assert held / trials == pytest.approx(0.91 if parts >= 5 else 0.0, abs=0.02)


def test_a_drifting_cost_is_seldom_marked_as_changed() -> None:
    """Neighbouring parts correlate by 0.6: as if there were a quarter as many."""
    random, trials, marked = np.random.default_rng(5), 2000, 0
    calls = np.full(PART_COUNT, 100.0)
    for _ in range(trials):
        sides = []
        for _ in range(2):
            drift = [random.standard_normal()]
            for step in random.standard_normal(PART_COUNT - 1):
                drift.append(0.6 * drift[-1] + 0.8 * step)
            spent = calls * (1 + 0.1 * np.array(drift))
            costs = ClassCosts({"a": np.stack((calls, spent, spent, 0.0 * spent))})
            sides.append(costs.cost("a", "statement_time"))
        marked += compare_ratio(*sides).verdict is not Verdict.WITHIN
    assert marked / trials < 0.1  # 0.19 if they counted as independent


def test_the_cost_of_a_call_is_not_negative() -> None:
    """A class with a widely scattered cost has a bound of 0, and is compared as one without."""
    sums = np.full((len(COLUMNS), PART_COUNT), np.nan)
    sums[0], sums[1] = 1.0, np.r_[10.0, np.full(PART_COUNT - 1, 0.001)]
    found = ClassCosts({"a": sums}).cost("a", "statement_time")
    assert found.low == 0.0
    assert compare_ratio(found, found).verdict is Verdict.CANNOT_TELL
