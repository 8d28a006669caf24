"""A long window keeps the spread over load and age, in bounded memory."""

import numpy as np
import pytest

from models.capacity.thinning import thin

DAY = 86_400.0


def week() -> tuple[np.ndarray, np.ndarray]:
    """Intervals of 15 s over a week: mostly idle, one busy hour on the first day."""
    at = np.arange(15.0, 7 * DAY + 1, 15.0)
    x = np.full(len(at), 10.0) + np.arange(len(at)) % 7
    x[1000:1240] = np.linspace(100, 5000, 240)
    return at, x


def test_at_most_the_limit_is_kept() -> None:
    """However long the window."""
    at, x = week()
    assert len(thin(at, x, at[-1]).indices) <= 500
    assert len(thin(at, x, at[-1], limit=40).indices) <= 40


def test_an_old_busy_hour_is_kept_among_thousands_of_idle_intervals() -> None:
    """Rare loads stay: all octaves of the busy hour, its peak included."""
    at, x = week()
    kept = thin(at, x, at[-1])
    assert 1239 in kept.indices
    busy = x[kept.indices][x[kept.indices] > 90]
    assert len(busy) >= 100
    assert np.max(np.diff(np.sort(busy))) < 0.05 * 5000


def test_a_saturation_is_kept_among_hours_of_the_same_throughput() -> None:
    """Ten minutes with four times the statements of the other busy hours; one cell without them."""
    at = np.arange(15.0, DAY + 1, 15.0)
    x, n = np.full(len(at), 1000.0), np.full(len(at), 20.0)
    n[2000:2040] = 80.0
    kept = thin(at, x, at[-1], concurrency=n)
    assert len(kept.indices) <= 500
    assert np.count_nonzero(n[kept.indices] > 70) == 40
    assert np.count_nonzero(n[thin(at, x, at[-1]).indices] > 70) < 10


def test_an_unknown_concurrency_is_one_cell() -> None:
    """As if no more than one statement had run at once."""
    at = np.arange(-600.0, 0.0)
    n = np.where(np.arange(600) % 2, np.nan, 0.5)
    x = np.full(600, 50.0)
    kept = thin(at, x, 0.0, limit=100, concurrency=n)
    assert np.array_equal(kept.indices, thin(at, x, 0.0, limit=100).indices)
    n[-300::2] = 2.0  # two cells
    divided = thin(at, x, 0.0, limit=100, concurrency=n)
    assert np.count_nonzero(n[divided.indices] == 2.0) == 50


def test_the_counts_add_up_to_all_intervals() -> None:
    """The kept intervals represent all."""
    at, x = week()
    assert thin(at, x, at[-1]).counts.sum() == pytest.approx(len(at))


def test_a_short_window_is_kept_whole() -> None:
    """Below the limit nothing is thinned, and each interval stands for itself."""
    at = np.arange(15.0, 3001.0, 15.0)
    kept = thin(at, np.linspace(1, 100, len(at)), 3000.0)
    assert list(kept.indices) == list(range(len(at)))
    assert kept.counts == pytest.approx(np.ones(len(at)))


def test_many_equal_intervals_have_little_weight() -> None:
    """A thousand of one load and age weigh as few, and older ones half as much a day."""
    at = np.arange(15.0, 15.0 * 1001, 15.0)
    assert thin(at, np.full(1000, 50.0), at[-1], half_life=1e12).weights.sum() <= 48
    young, old = (thin([0.0], [5.0], now).weights[0] for now in (0.0, DAY))
    assert old == pytest.approx(young / 2)


def test_there_are_six_cells_per_octave_of_load_and_one_of_age() -> None:
    """Many over one octave weigh as much as six full cells; over two ages as two."""
    octave = 1000.0 * 2.0 ** -np.linspace(0, 1, 600, endpoint=False)
    of_loads = thin(np.zeros(600), octave, 0.0, limit=600, half_life=1e12)
    assert of_loads.weights.sum() == pytest.approx(48)
    at = np.arange(-1800.0, 0.0, 10.0)
    of_ages = thin(at, np.full(len(at), 50.0), 0.0, half_life=1e12)
    assert of_ages.weights.sum() == pytest.approx(16)


def test_the_last_quarter_of_an_hour_is_of_one_age() -> None:
    """Many within it weigh as one full cell, and across its end as two."""
    for begun, cells in ((-890.0, 1), (-1300.0, 2)):
        at = np.linspace(begun, 0.0, 60)
        kept = thin(at, np.full(60, 50.0), 0.0, half_life=1e12)
        assert kept.weights.sum() == pytest.approx(8 * cells)


def test_with_many_cells_each_keeps_one() -> None:
    """Thirty loads, of which the highest are the oldest, and room for forty intervals."""
    lower = 1000.0 * 2.0 ** -((np.arange(1, 30) + 0.5) / 6)
    loads = np.repeat([1000.0, *lower], 10)
    kept = thin(np.arange(-300.0, 0.0), loads, 0.0, limit=40)
    assert set(loads[kept.indices]) == set(loads)


def test_repeated_thinning_is_bounded_and_keeps_the_peak() -> None:
    """Interval by interval for three days, the window stays small and has the peak."""
    rng = np.random.default_rng(5)
    at, x, counts = np.empty(0), np.empty(0), np.empty(0)
    for hour in range(72):
        new = 3600.0 * hour + 15.0 * np.arange(1, 241)
        load = rng.uniform(10, 100, 240) * (30.0 if hour == 3 else 1.0)
        at, x = np.append(at, new), np.append(x, load)
        kept = thin(at, x, float(new[-1]), counts=np.append(counts, np.ones(240)), limit=200)
        at, x, counts = at[kept.indices], x[kept.indices], kept.counts
        assert len(at) <= 200
    assert x.max() > 2800
    assert counts.sum() == pytest.approx(72 * 240)


def test_thinning_is_deterministic() -> None:
    """Nothing is drawn at random."""
    at, x = week()
    assert np.array_equal(thin(at, x, at[-1]).indices, thin(at, x, at[-1]).indices)


def test_unknown_and_idle_intervals_are_handled() -> None:
    """NaN is left out, zeros are kept, no interval is an empty result."""
    kept = thin([1.0, 2.0, 3.0], [np.nan, 0.0, 5.0], 3.0)
    assert list(kept.indices) == [1, 2]
    assert len(thin([], [], 0.0).indices) == 0
    assert len(thin([1.0, 2.0], [0.0, 0.0], 2.0).indices) == 2


def test_a_limit_below_one_is_refused() -> None:
    """A window that keeps nothing is a mistake."""
    with pytest.raises(ValueError, match="limit"):
        thin([1.0], [1.0], 1.0, limit=0)
