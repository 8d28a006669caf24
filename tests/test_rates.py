"""Counters to rates: never a negative, never a giant one, and nothing that is not known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import rates

EDGES = [0.0, 10.0, 20.0, 30.0]
AT = np.arange(-1.0, 33.0)


def test_a_steady_counter_has_its_rate_whatever_the_phase() -> None:
    """Edges between samples are interpolated: 7 per second is 70 in each ten seconds."""
    rise = rates.increases(EDGES, AT + 0.37, 7 * (AT + 0.37), max_gap=2)
    assert rise == pytest.approx([70, 70, 70])


def test_the_increases_of_intervals_add_up() -> None:
    """No query is lost or counted twice at an edge, however uneven the samples."""
    random = np.random.default_rng(1)
    at = np.sort(random.uniform(-2, 33, 80))
    value = np.cumsum(random.poisson(20, 80))
    rise = rates.increases(EDGES, at, value, max_gap=10)
    assert rise.sum() == pytest.approx(float(np.diff(np.interp([0.0, 30.0], at, value))[0]))


@given(
    st.lists(st.floats(0, 60), min_size=1, max_size=12, unique=True),
    st.lists(st.sampled_from([0.0, 0.1, 7.0, 1e9, -5.0, np.nan]), min_size=12, max_size=12),
    st.lists(st.integers(0, 60), min_size=2, max_size=2, unique=True),
)
def test_increase_equals_increases(at: list[float], steps: list[float], edges: list[int]) -> None:
    """Whatever is missing, falls or is far apart."""
    at, (start, end) = sorted(at), sorted(edges)
    value = np.cumsum(steps[: len(at)]).tolist()
    long = rates.increases([start, end], at, value, max_gap=20)[0]
    short = rates.increase(start, end, at, value, max_gap=20)
    assert short == long or (np.isnan(short) and np.isnan(long))


def test_a_counter_reset_makes_only_its_interval_unknown() -> None:
    """A reset inside the second interval leaves the others unchanged."""
    value = np.where(AT < 14, 1000 + 5 * AT, 5 * (AT - 14))
    assert rates.increases(EDGES, AT, value, max_gap=2) == pytest.approx(
        [50, np.nan, 50], nan_ok=True
    )


def test_a_restart_hidden_by_a_higher_counter_is_found_by_the_epoch() -> None:
    """A counter above its old value again is no burst."""
    value = np.where(AT < 14, 10 + AT, 1_000_000 + AT)
    uptime = np.where(AT < 14, 500 + AT, AT - 13)
    epoch = rates.epochs(AT, np.floor(uptime))
    assert epoch.tolist() == [0.0] * 15 + [1.0] * 19
    rise = rates.increases(EDGES, AT, value, max_gap=2, epoch=epoch)
    assert rise == pytest.approx([10, np.nan, 10], nan_ok=True)


def test_a_restart_is_found_even_if_the_uptime_is_higher() -> None:
    """After a long outage the start time is later, though the uptime is no smaller."""
    assert rates.epochs([0, 1, 100], [10, 11, 60]).tolist() == [0, 0, 1]


def test_rounded_uptimes_are_no_restart() -> None:
    """Whole seconds and uneven reading never look like a restart."""
    at = np.arange(0, 60, 0.3) + np.random.default_rng(2).uniform(0, 0.2, 200)
    assert rates.epochs(at, np.floor(at + 0.5)).max() == 0


def test_an_interval_with_a_gap_has_no_rate() -> None:
    """If the gap is longer than allowed."""
    keep = (AT < 12) | (AT > 18)
    rise = rates.increases(EDGES, AT[keep], 5 * AT[keep], max_gap=3)
    assert rise == pytest.approx([50, np.nan, 50], nan_ok=True)


@given(
    st.lists(st.sampled_from([0.0, 1.0, 7.0, -30.0]), min_size=34, max_size=34),
    st.sets(st.integers(0, 33), max_size=20),
    st.sampled_from([2.0, 5.0]),
)
def test_a_missing_value_is_like_a_missing_sample(
    steps: list[float], missing: set[int], max_gap: float
) -> None:
    """No reset hides beside it, and no interval is lost where its neighbours are near."""
    value = 1000 + np.cumsum(steps)
    there = np.array([k not in missing for k in range(len(AT))])
    value[~there] = np.nan
    epoch = np.where(AT < 17, 0.0, 1.0)
    found = rates.increases(EDGES, AT, value, max_gap=max_gap, epoch=epoch)
    expected = rates.increases(EDGES, AT[there], value[there], max_gap=max_gap, epoch=epoch[there])
    np.testing.assert_array_equal(found, expected)
    short = rates.increase(0.0, 10.0, AT.tolist(), value.tolist(), max_gap=max_gap)
    np.testing.assert_array_equal(short, found[0])


def test_a_reset_beside_a_missing_value_is_detected() -> None:
    """The counter began again between the samples around it."""
    at, value = np.arange(0, 30, 5.0), [100, 150, np.nan, 10, 60, 110]
    assert np.isnan(rates.increases([0, 25], at, value, max_gap=16)).all()
    assert np.isnan(rates.increase(0, 25, at.tolist(), value, max_gap=16))


def test_nothing_is_extrapolated_beyond_the_samples() -> None:
    """Before the first and after the last one nothing is known."""
    rise = rates.increases([-10, 0, 10, 20, 40], AT, AT, max_gap=2)
    assert rise == pytest.approx([np.nan, 10, 10, np.nan], nan_ok=True)


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_samples_give_no_rate(count: int) -> None:
    """Neither none nor a single one."""
    assert np.isnan(rates.increases(EDGES, AT[:count], AT[:count], max_gap=2)).all()
    assert rates.epochs(AT[:count], AT[:count]).tolist() == [0.0] * count


@given(
    st.lists(st.tuples(st.floats(0.01, 20), st.floats(-1e12, 1e12)), min_size=0, max_size=40),
    st.floats(0.1, 30),
)
def test_no_readings_give_a_negative_or_impossible_increase(
    steps: list[tuple[float, float]], max_gap: float
) -> None:
    """Whatever a counter does, an increase lies between 0 and what was really counted."""
    at = np.cumsum([step for step, _ in steps])
    value = np.array([reading for _, reading in steps])
    rise = rates.increases(EDGES, at, value, max_gap=max_gap)
    told = rise[np.isfinite(rise)]
    seen = np.diff(value).clip(min=0).sum() if value.size else 0.0
    assert (told >= 0).all()
    assert (told <= seen * (1 + 1e-9) + 1e-6).all()


def test_a_gauge_is_averaged_over_the_samples_within() -> None:
    """The mean of the interval's own samples, their number, and NaN where there are none."""
    mean, count = rates.averages([0, 2, 4, 6], [0, 1, 2, 5.5], [1, 3, 8, 2])
    assert mean.tolist() == [2, 8, 2]
    assert count.tolist() == [2, 1, 1]
    mean, count = rates.averages([0, 1, 2], [1.5], [4])
    assert (np.isnan(mean[0]), mean[1], count.tolist()) == (True, 4, [0, 1])


def test_concurrency_is_statement_seconds_per_second() -> None:
    """Three statement seconds in each second are a concurrency of three."""
    assert rates.concurrency_by_littles_law([30, 0], [10, 10]).tolist() == [3, 0]
