"""The checks before and after a law is fitted."""

import numpy as np
import pytest

from models.arrays import Array
from models.capacity.assess import assess_capacity
from models.capacity.goodness_of_fit import (
    Check,
    check_concurrency,
    check_fit,
    error_at_highest_loads,
    merge_noisy,
)
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import Resource
from models.capacity.resource_limits import find_resource_limits
from models.capacity.result import CapacityReason
from models.trust import Trust
from models.usl.law import Usl

LAW = Usl(0.03, 0.0006, 1000.0)


def sampled(top: float, looks: int, count: int = 200) -> Observations:
    """Concurrency up to `top` threads, seen by so many looks at Threads_running each."""
    rng = np.random.default_rng(6)
    n = rng.uniform(1, top, count)
    seen = np.maximum(rng.poisson(n * looks) / looks, 1 / looks)
    return Observations.of(np.arange(count), LAW.throughput(n), seen, n_variance=seen / looks)


def points(count: int = 120) -> tuple[Array, Array, Array, Array]:
    """N, X, weights and variance of a server that follows the law."""
    rng = np.random.default_rng(7)
    n = rng.uniform(1, 30, count)
    x = LAW.throughput(n) * np.exp(rng.normal(0, 0.02, count))
    return n, x, np.ones(count), np.zeros(count)


def test_two_or_three_threads_running_are_refused() -> None:
    """The white paper: such data look almost random."""
    finding = check_concurrency(sampled(3, 15))
    assert finding is not None
    assert finding.check is Check.LOW_CONCURRENCY
    assert finding.refuses


def test_single_samples_of_mostly_noise_are_refused() -> None:
    """One sample an interval at five to seven threads shows nothing of the load."""
    rng = np.random.default_rng(2)
    n = np.maximum(rng.poisson(6, 200), 1.0)
    seen = Observations.of(np.arange(200), np.full(200, 500.0), n, n_variance=n)
    finding = check_concurrency(seen)
    assert finding is not None
    assert finding.check is Check.NOISY


def test_many_threads_sampled_often_are_accepted() -> None:
    """Fifteen samples at up to thirty threads are enough."""
    assert check_concurrency(sampled(30, 15)) is None


def test_low_concurrency_by_littles_law_is_accepted() -> None:
    """Statement time is exact, however little of it there is."""
    n = np.linspace(0.5, 2.5, 50)
    assert check_concurrency(Observations.of(np.arange(50), LAW.throughput(n), n)) is None


def test_statements_that_hardly_meet_show_no_contention() -> None:
    """With one statement at a time the law's contention is not identifiable, however exact N is."""
    n = np.linspace(0.5, 1.5, 50)
    finding = check_concurrency(Observations.of(np.arange(50), LAW.throughput(n), n))
    assert finding is not None
    assert finding.check is Check.LOW_CONCURRENCY


@pytest.mark.parametrize("count", [0, 4])
def test_too_few_points_are_refused(count: int) -> None:
    """The law has three parameters."""
    finding = check_concurrency(sampled(30, 15).select(slice(count)))
    assert finding is not None
    assert finding.check is Check.FEW_POINTS


def test_a_law_that_describes_its_points_passes() -> None:
    """No efficiency above 1, no pattern."""
    assert check_fit(*points(), LAW) is None


def test_efficiency_above_one_is_detected() -> None:
    """The λ is 20 % too small: a fifth of the points exceed the linear bound."""
    finding = check_fit(*points(), Usl(0.0, 0.0, 700.0))
    assert finding is not None
    assert finding.check is Check.SUPERLINEAR
    assert not finding.refuses


def test_a_wrong_shape_leaves_a_residual_pattern() -> None:
    """A server with an abrupt limit at its cores is not a smooth law."""
    n, _, weights, variance = points()
    x = np.minimum(900 * n, 9000) * np.exp(np.random.default_rng(3).normal(0, 0.01, len(n)))
    finding = check_fit(n, x, weights, variance, Usl(0.06, 0.0005, 1000.0))
    assert finding is not None
    assert finding.check is Check.PATTERN
    assert finding.check.sentence


def test_noisy_concurrencies_are_merged_without_loss() -> None:
    """Weights and threads are conserved, and each merged concurrency is known within 5 %."""
    seen = sampled(30, 15)
    n, x, weights, variance, _ = merge_noisy(seen)
    assert weights.sum() == pytest.approx(200)
    assert np.sum(n * weights) == pytest.approx(seen.concurrency.sum())
    assert np.all(np.diff(x) > 0)
    assert np.mean(np.sqrt(variance[:-1]) / n[:-1] <= 0.0501) > 0.95


def test_exact_concurrencies_are_not_merged() -> None:
    """By Little's law every interval stays as it is."""
    n = np.linspace(1, 20, 50)
    seen = Observations.of(np.arange(50), LAW.throughput(n), n)
    assert np.array_equal(merge_noisy(seen)[0], n)


def hyper_threads(reach: float, share: float, seed: int) -> Observations:
    """Half of the threads do half of the work, the others 30 % as much each; full at 650/s.

    Up to 70 % of the capacity, and for a share of the time about `reach` of it.
    """
    rng = np.random.default_rng([8, seed])
    few = rng.random(400) < share
    x = 650 * np.where(few, rng.uniform(0.9 * reach, reach, 400), rng.uniform(0.1, 0.7, 400))
    used = np.where(x < 500, x / 1000, 0.5 + (x - 500) / 300) * np.exp(rng.normal(0, 0.01, 400))
    return Observations.of(np.arange(400), x, x / 100, resources=[Resource("cpu", used, own=used)])


def off_at_highest(seen: Observations) -> float:
    """By how much the only limit misses the highest loads."""
    [limit] = find_resource_limits(seen.throughput, seen.resources, seen.weights)
    return error_at_highest_loads(seen, limit)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("share", [0.06, 0.07, 0.09])
def test_the_highest_loads_may_contradict_a_limit(share: float, seed: int) -> None:
    """A trusted capacity is right; the highest loads contradict the limit of every other one."""
    found = assess_capacity(hyper_threads(0.97, share, seed))
    assert found.value is not None
    is_right = abs(found.value / 650 - 1) < 0.1
    assert (found.trust is Trust.TRUSTED) == is_right
    assert (CapacityReason.MODEL_DOES_NOT_FIT in found.reasons) == (not is_right)
    assert is_right or share < 0.09


def test_a_limit_far_from_the_highest_loads_is_contradicted() -> None:
    """A line through all others is half as high again; it is drawn four times in six."""
    many = [hyper_threads(0.97, 0.06, seed) for seed in range(6)]
    far = [seen for seen in many if (assess_capacity(seen).value or 0.0) > 1.4 * 650]
    assert len(far) >= 4
    assert all(abs(off_at_highest(seen)) > 0.2 for seen in far)


@pytest.mark.parametrize("seed", range(6))
def test_a_limit_that_the_highest_loads_confirm_is_not_contradicted(seed: int) -> None:
    """The first half of the hyper-threads is a straight line, also where it is seldom used."""
    assert abs(off_at_highest(hyper_threads(0.7, 0.06, seed))) < 0.11
    few = hyper_threads(0.97, 0.06, seed).select(slice(30))
    assert off_at_highest(few) == 0.0
