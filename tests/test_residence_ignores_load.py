"""Queries that take longer by day, for another reason than the load, are no contention."""

from dataclasses import replace

import numpy as np
import pytest
from capacity_days import INTERVALS, observed, residing

from models.arrays import Array
from models.capacity.assess import assess_capacity
from models.capacity.observations import Observations
from models.capacity.residence_ignores_load import ignores_load
from models.trust import Trust
from testbed.simulated.servers import Server, erlang_server, law_server

SERVER = erlang_server("eight", 8, wait=0.004)
HOURS = 0.5 - 0.5 * np.cos(np.linspace(0, 2 * np.pi, INTERVALS))


def load(reach: float, rng: np.random.Generator) -> Array:
    """Shares of the capacity: one wave, with ups and downs of some intervals."""
    bursts = np.zeros(INTERVALS)
    for i in range(1, INTERVALS):
        bursts[i] = 0.9 * bursts[i - 1] + rng.normal(0, 0.05)
    return np.asarray(0.1 + (reach - 0.1) * np.clip(HOURS + bursts, 0, 1))


def day(server: Server, reach: float, seed: int, longer: float = 0.0) -> Observations:
    """A day on which every query waits up to `longer` seconds more, the later in the day."""
    rng = np.random.default_rng([21, seed])
    share = load(reach, rng)
    n = residing(server, share) + share * server.capacity * longer * HOURS**2
    return observed(server, share, n * np.exp(rng.normal(0, 0.02, INTERVALS)), rng)


def check_processor_is_the_limit(seen: Observations, reach: float) -> None:
    """The interval holds its capacity, which is trusted near it and not far below."""
    found = assess_capacity(seen)
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < SERVER.capacity < found.upper
    assert found.value == pytest.approx(SERVER.capacity, rel=0.15)
    assert (found.trust is Trust.TRUSTED) == (reach == 0.9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("reach", [0.5, 0.7, 0.9])
def test_long_statements_by_day_are_no_contention(reach: float, seed: int) -> None:
    """They take three times as long at the busiest hour; the processor is still the limit."""
    seen = day(SERVER, reach, seed, longer=0.01)
    assert ignores_load(seen.concurrency, seen.throughput)
    check_processor_is_the_limit(seen, reach)


def sampled(seen: Observations, samples: int, seed: int) -> Observations:
    """The same day with concurrency as the average of so many looks at Threads_running."""
    rng = np.random.default_rng([23, seed])
    n = rng.poisson(seen.concurrency * samples) / samples
    return replace(seen, concurrency=n, n_variance=np.maximum(n, 1 / samples) / samples)


@pytest.mark.parametrize("samples", [4, 15, 60])
@pytest.mark.parametrize("reach", [0.5, 0.7, 0.9])
def test_long_statements_are_no_contention_where_concurrency_is_sampled(
    reach: float, samples: int
) -> None:
    """The processor is the limit, and far below it nothing is trusted."""
    for seed in range(4):
        seen = sampled(day(SERVER, reach, seed, longer=0.01), samples, seed)
        check_processor_is_the_limit(seen, reach)


@pytest.mark.parametrize("samples", [4, 15, 60])
@pytest.mark.parametrize("reach", [0.5, 0.7, 0.9])
def test_sampled_contention_follows_the_load_at_once(reach: float, samples: int) -> None:
    """Few looks, and chance in each interval, make residence times noisy: no other cause."""
    for seed in range(4):
        longer = np.exp(np.random.default_rng([24, seed]).normal(0, 0.2, INTERVALS))
        for sigma, kappa in ((0.02, 0.0005), (0.05, 0.0002)):
            seen = sampled(day(law_server("law", sigma, kappa), reach, seed), samples, seed)
            known = seen.select(seen.loaded)
            n, x = known.concurrency, known.throughput
            assert not ignores_load(n, x, sampled=True)
            assert not ignores_load(n * longer[: len(n)], x, sampled=True)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("reach", [0.5, 0.7, 0.9])
def test_contention_follows_the_load_at_once(reach: float, seed: int) -> None:
    """By the law, alone and with so much chance in each interval that it hides the bursts."""
    seen = day(law_server("law", 0.02, 0.0005), reach, seed)
    n, x = seen.concurrency, seen.throughput
    assert not ignores_load(n, x)
    rng = np.random.default_rng([22, seed])
    for chance in (0.05, 0.2):
        longer = np.exp(rng.normal(0, chance, INTERVALS))
        assert not ignores_load(n * longer, x)
        assert not ignores_load(n, x / longer)


def test_equal_times_few_intervals_and_chance_show_nothing() -> None:
    """Where residence times do not rise, and where N is not alike in successive intervals."""
    steady = day(SERVER, 0.5, 1)
    assert not ignores_load(steady.concurrency, steady.throughput)
    risen = day(SERVER, 0.7, 1, longer=0.01)
    few = risen.select(slice(120, 196))
    assert not ignores_load(few.concurrency, few.throughput)
    hardly_risen = day(SERVER, 0.5, 1, longer=0.0005)
    assert not ignores_load(hardly_risen.concurrency, hardly_risen.throughput)
    alternating: Array = np.where(np.arange(INTERVALS) % 2, 150.0, 100.0)
    assert not ignores_load(alternating, risen.throughput)
