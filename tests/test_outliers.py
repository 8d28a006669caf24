"""Intervals that the workload does not explain are left out, with a reason, and never many."""

from dataclasses import replace

import numpy as np
import pytest

from models.arrays import Array
from models.capacity.observations import Observations
from models.capacity.outliers import OutlierReason, find_outliers
from models.capacity.resource_and_limit import Resource
from models.usl.law import Usl

LAW = Usl(0.02, 0.0005, 1000.0)


def day(count: int = 300, noise: float = 0.02) -> Observations:
    """A day of a server that follows the law, up to 80 % of its peak."""
    rng = np.random.default_rng(9)
    x = rng.uniform(0.1, 0.8, count) * float(LAW.x_max or 0)
    n = LAW.concurrency_at_throughput(x) * np.exp(rng.normal(0, noise, count))
    u = x / float(LAW.x_max or 1) * 0.6 * np.exp(rng.normal(0, noise, count))
    return Observations.of(15.0 * np.arange(count), x, n, resources=[Resource("disk", u)])


def changed(
    seen: Observations, which: slice, *, n: float = 1, x: float = 1, u: float = 1
) -> Observations:
    """Multiply concurrency, throughput or utilisation of some intervals."""
    factor = np.ones(len(seen))

    def scale(column: Array, by: float) -> Array:
        factors = factor.copy()
        factors[which] = by
        return column * factors

    disk = seen.resources[0]
    return replace(
        seen,
        concurrency=scale(seen.concurrency, n),
        throughput=scale(seen.throughput, x),
        resources=(replace(disk, utilisation=scale(disk.utilisation, u)),),
    )


def test_a_clean_day_has_no_outliers() -> None:
    """Noise alone removes no interval."""
    assert find_outliers(day()).removed == ()


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ({"n": 4.0}, OutlierReason.PILE_UP),
        ({"u": 3.0}, OutlierReason.FOREIGN_WORK),
        ({"x": 8.0}, OutlierReason.GLITCH),
        ({"n": 0.2}, OutlierReason.GLITCH),
    ],
)
def test_each_disturbance_is_removed_with_its_reason(
    trouble: dict[str, float], reason: OutlierReason
) -> None:
    """Ten disturbed intervals of 300 go, all with the reason, and no other."""
    found = find_outliers(changed(day(), slice(40, 50), **trouble))
    assert {outlier.index for outlier in found.removed} == set(range(40, 50))
    assert {outlier.reason for outlier in found.removed} == {reason}
    assert not found.too_many
    assert np.count_nonzero(~found.kept) == 10
    assert reason.sentence


def test_waiting_connections_are_no_other_work() -> None:
    """In a pile-up they are held ten times as long: queries took longer, nothing else was busy."""
    piled = changed(day(), slice(40, 50), n=4.0)
    held = np.where(np.arange(len(piled)) // 10 == 4, 10.0, 1.0) * piled.concurrency / 400
    found = find_outliers(
        replace(piled, resources=(Resource("connections", held, has_configured_limit=True),))
    )
    assert {outlier.index for outlier in found.removed} == set(range(40, 50))
    assert {outlier.reason for outlier in found.removed} == {OutlierReason.PILE_UP}


def test_more_than_a_tenth_is_never_removed() -> None:
    """Then the model is wrong, which the result reports, and every interval stays."""
    found = find_outliers(changed(day(), slice(0, 36), n=5.0))
    assert found.removed == ()
    assert found.kept.all()
    assert found.too_many


def test_a_server_near_its_peak_has_no_outliers() -> None:
    """Long queries at high load follow the law."""
    rng = np.random.default_rng(3)
    n = rng.uniform(1, 70, 400)
    x = LAW.throughput(n) * np.exp(rng.normal(0, 0.02, 400))
    assert len(find_outliers(Observations.of(15.0 * np.arange(400), x, n)).removed) <= 4


def test_noise_of_sampled_concurrency_is_no_pile_up() -> None:
    """Fifteen samples of Threads_running vary by a root of N, which is allowed for."""
    rng = np.random.default_rng(8)
    seen = day()
    sampled = rng.poisson(seen.concurrency * 15) / 15
    noisy = replace(seen, concurrency=sampled, n_variance=np.maximum(sampled, 1 / 15) / 15)
    assert len(find_outliers(noisy).removed) <= 2


def test_the_ratio_is_relative_to_the_neighbours() -> None:
    """Four times the threads: four times the neighbours' time per query."""
    found = find_outliers(changed(day(), slice(7, 8), n=4.0))
    assert found.removed[0].ratio == pytest.approx(4.0, rel=0.2)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_few_intervals_have_no_outliers(count: int) -> None:
    """A handful is not enough to tell."""
    assert find_outliers(day(20).select(slice(count))).kept.sum() == count


def test_equal_idle_and_unknown_intervals_do_no_harm() -> None:
    """All the same, all idle, all unknown: nothing is removed, nothing fails."""
    same = Observations.of(np.arange(50.0), np.full(50, 5.0), np.full(50, 2.0))
    unknown = Observations.of(np.arange(50.0), np.full(50, 5.0), np.full(50, np.nan))
    for seen in (same, unknown):
        assert find_outliers(seen).removed == ()
