"""What a call usually costs: bursts of waiting do not count, and nothing is lost."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.query_classes.resource_meter import RESOURCES
from models.arrays import Array
from models.attribution.class_interval_table import FOLDS, OTHER, ClassIntervals
from models.attribution.division_methods import (
    MIN_GROUP_CALLS,
    DividedUse,
    equivalent_calls,
    scaled_to_median_cost,
)
from models.attribution.resource_division import attribute
from models.attribution.result import HostUse
from models.attribution.sliding_model import SlidingModel

BURST, MINUTE = 10, 60


def dear_at_times(
    seed: int, part: float, times: float, intervals: int = 300
) -> tuple[ClassIntervals, Array]:
    """Four classes; calls of the first read and cost so many times as much in a part of the time.

    Beside them the CPU of each, s, shape (T, 4). Bursts last for ten seconds, the queue stretches
    all times, and 0.08 of the CPU is unattributed.
    """
    rng = np.random.default_rng(seed)
    count = rng.poisson((60, 100, 80, 40), (intervals, 4)).astype(float)
    burst = np.repeat(rng.random(intervals // BURST) < part, BURST)
    factor = np.column_stack((np.where(burst, times, 1.0), np.ones((intervals, 3))))
    used = count * factor * (1e-3, 1e-3, 1.5e-3, 2e-3) * np.exp(rng.normal(0, 0.03, count.shape))
    queue = 1.1 / (1 - np.minimum(used.sum(axis=1) / 2, 0.8))
    seen = ClassIntervals(
        names=("dear", "b", "c", "d"),
        seconds=np.ones(intervals),
        statement_time=used * queue[:, None],
        count=count,
        sizes=(("rows_examined", 10 * count * factor),),
    )
    return seen, used


def test_a_constant_cost_per_call_is_not_changed() -> None:
    """Whatever the number of calls."""
    count = np.random.default_rng(1).poisson((400, 40, 1), (200, 3)).astype(float)
    parts = count * (1e-4, 2e-3, 0.1)
    assert scaled_to_median_cost(parts, count) == pytest.approx(parts)


@pytest.mark.parametrize("calls", [20, 30])
def test_rounding_changes_no_median(calls: int) -> None:
    """Neither where a group of 30 calls ends within an interval, nor where half of them cost less.

    Calls at their unit costs are never exactly whole numbers.
    """
    rng = np.random.default_rng(4)
    count = np.full((40, 2), float(calls))
    parts = count * (1e-4, 1e-3) * np.exp(rng.normal(0, 0.3, count.shape))
    expected = scaled_to_median_cost(parts, count)
    for _ in range(20):
        rounded = count * (1 + rng.uniform(-1e-15, 1e-15, count.shape))
        assert scaled_to_median_cost(parts, rounded) == pytest.approx(expected, rel=1e-9)


def test_bursts_of_waiting_are_charged_to_the_others() -> None:
    """A class that takes five times as long in every fifth interval, beside a steady one."""
    rng = np.random.default_rng(2)
    count = rng.poisson((300, 200), (300, 2)).astype(float)
    cost = count * (1e-3, 1e-3)
    seen = cost * np.where(rng.random((300, 1)) < 0.2, (5, 1), (1, 1))
    found = scaled_to_median_cost(seen * cost.sum() / seen.sum(), count).sum(axis=0)
    assert found == pytest.approx(cost.sum(axis=0), rel=0.01)


def test_calls_of_all_sizes_keep_their_mean_cost() -> None:
    """One call an interval, of exponential cost: the median is 0.7 of the mean, but of many not."""
    rng = np.random.default_rng(3)
    count = np.column_stack((np.ones(3000), np.full(3000, 100.0)))
    parts = np.column_stack((rng.exponential(1.0, 3000), np.full(3000, 1.0)))
    found = scaled_to_median_cost(parts, count).sum(axis=0)
    assert found == pytest.approx(parts.sum(axis=0), rel=0.05)


def test_few_calls_count_by_their_mean() -> None:
    """One in a hundred intervals, each at another cost."""
    count, parts = np.zeros((300, 2)), np.full((300, 2), 0.01)
    count[::100, 0], count[:, 1] = 1, MIN_GROUP_CALLS
    parts[:, 0] = count[:, 0] * np.arange(300)
    assert count[:, 0].sum() < MIN_GROUP_CALLS * FOLDS
    assert scaled_to_median_cost(parts, count) == pytest.approx(parts)


def test_memory_does_not_depend_on_the_number_of_calls() -> None:
    """10¹² calls an interval, a fifth of them at five times the cost, are divided as few are."""
    rng = np.random.default_rng(5)
    count = rng.poisson((300, 200), (300, 2)).astype(float)
    parts = count * np.where(rng.random((300, 1)) < 0.2, (5e-3, 1e-3), (1e-3, 1e-3))
    found = scaled_to_median_cost(parts, 1e10 * count)
    assert found == pytest.approx(scaled_to_median_cost(parts, count))


@pytest.mark.parametrize(("part", "times"), [(0.2, 10), (0.4, 5), (0.4, 10)])
def test_calls_that_read_and_cost_more_keep_their_cpu(part: float, times: float) -> None:
    """A class that really costs more at times is not cut to its cheap calls, texts or not."""
    texts = tuple(f"SELECT `{name}` FROM `t`" for name in "abcd")
    for seed in range(4):
        intervals, used = dear_at_times(seed, part, times)
        true = used[:, 0].sum() / used.sum()
        for known in (intervals, replace(intervals, texts=texts)):
            found = attribute(known, DividedUse(used.sum(axis=1) * 1.08, is_cpu_seconds=True))
            assert found.classes[0].share == pytest.approx(true, abs=0.05)


def test_the_sliding_model_keeps_their_cpu_too() -> None:
    """Minute by minute, beside a class for all others."""
    for seed in range(3):
        intervals, used = dear_at_times(seed, 0.2, 10, intervals=20 * MINUTE)
        intervals, y = intervals.arranged([*intervals.names, OTHER]), used.sum(axis=1) * 1.08
        model = SlidingModel(RESOURCES[0], MINUTE)
        minutes = [slice(begin, begin + MINUTE) for begin in range(0, len(y), MINUTE)]
        found = sum(
            model.add_block(intervals.at(part), y[part], HostUse()).uses for part in minutes
        )
        shares = np.asarray(found) / np.sum(found)
        assert shares[0] == pytest.approx(used[:, 0].sum() / used.sum(), abs=0.05)


def test_rows_are_counted_in_calls() -> None:
    """Together they are the calls that were made; without a unit cost calls count as they are."""
    count, size = np.array([[3.0, 2.0], [1.0, 4.0]]), np.array([[1.0, 0.0], [7.0, 0.0]])
    assert equivalent_calls(size, count).tolist() == [[0.5, 2.0], [3.5, 4.0]]
    assert equivalent_calls(1e-300 * size, count) == pytest.approx(equivalent_calls(size, count))


@given(st.integers(0, 2**32 - 1), st.integers(0, 40), st.integers(1, 5))
def test_the_sum_over_all_classes_stays_the_same(seed: int, intervals: int, classes: int) -> None:
    """Also where classes or intervals are empty; a part of 0 stays 0."""
    rng = np.random.default_rng(seed)
    there = rng.random((intervals, classes)) < 0.5
    count = np.where(there, rng.poisson(20, there.shape), 0.0)
    parts = np.where(rng.random(classes) < 0.8, count * rng.exponential(1.0, there.shape), 0.0)
    found = scaled_to_median_cost(parts, count)
    assert (found >= 0).all()
    assert ((found > 0) <= (parts > 0)).all()
    assert found.sum() == pytest.approx(parts.sum())
