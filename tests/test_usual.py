"""What a call usually costs: bursts of waiting do not count, and nothing is lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.attribution.usual import CALLS, LEAST_GROUPS, usual_parts


def test_calls_that_always_cost_the_same_stay_as_they_are() -> None:
    """Whatever their number."""
    count = np.random.default_rng(1).poisson((400, 40, 1), (200, 3)).astype(float)
    parts = count * (1e-4, 2e-3, 0.1)
    assert usual_parts(parts, count) == pytest.approx(parts)


def test_bursts_of_waiting_go_to_the_others() -> None:
    """A class that takes five times as long in every fifth tick, beside a steady one."""
    rng = np.random.default_rng(2)
    count = rng.poisson((300, 200), (300, 2)).astype(float)
    cost = count * (1e-3, 1e-3)
    seen = cost * np.where(rng.random((300, 1)) < 0.2, (5, 1), (1, 1))
    found = usual_parts(seen * cost.sum() / seen.sum(), count).sum(axis=0)
    assert found == pytest.approx(cost.sum(axis=0), rel=0.01)


def test_calls_of_all_sizes_are_not_cut_to_the_small_ones() -> None:
    """One call a tick, of exponential cost: the median call is .7 of the mean, but of many not."""
    rng = np.random.default_rng(3)
    count = np.column_stack((np.ones(3000), np.full(3000, 100.0)))
    parts = np.column_stack((rng.exponential(1.0, 3000), np.full(3000, 1.0)))
    found = usual_parts(parts, count).sum(axis=0)
    assert found == pytest.approx(parts.sum(axis=0), rel=0.05)


def test_too_few_calls_count_by_their_mean() -> None:
    """One in a hundred ticks, each at another cost."""
    count, parts = np.zeros((300, 2)), np.full((300, 2), 0.01)
    count[::100, 0], count[:, 1] = 1, CALLS
    parts[:, 0] = count[:, 0] * np.arange(300)
    assert count[:, 0].sum() < CALLS * LEAST_GROUPS
    assert usual_parts(parts, count) == pytest.approx(parts)


@given(st.integers(0, 2**32 - 1), st.integers(0, 40), st.integers(1, 5))
def test_all_together_stay_what_they_were(seed: int, ticks: int, classes: int) -> None:
    """Also where classes or ticks are empty; a part that was nothing stays nothing."""
    rng = np.random.default_rng(seed)
    there = rng.random((ticks, classes)) < 0.5
    count = np.where(there, rng.poisson(20, there.shape), 0.0)
    parts = np.where(rng.random(classes) < 0.8, count * rng.exponential(1.0, there.shape), 0.0)
    found = usual_parts(parts, count)
    assert (found >= 0).all()
    assert ((found > 0) <= (parts > 0)).all()
    assert found.sum() == pytest.approx(parts.sum())
