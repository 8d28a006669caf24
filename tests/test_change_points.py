"""One workload, a change of it, or two that take turns."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.pipeline import observations
from agent.window.concurrency import ConcurrencySource
from models.arrays import Array
from models.capacity.change_points import TIME_PER_QUERY, find_regimes
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import Resource
from models.shared_constants import MIN_CURVE_POINTS
from models.usl.law import Usl
from testbed.recorded.peak_predictions import levels_of, saved, seen_below

ZOO = Path(__file__).parent / "fixtures" / "zoo"
LAW = Usl(0.02, 0.0005, 1000.0)


def days(cost: Array, seed: int = 1) -> Observations:
    """A daily curve of a server on which a query costs so many times the usual."""
    count = len(cost)
    rng = np.random.default_rng(seed)
    share = 0.35 - 0.3 * np.cos(np.arange(count) / count * 4 * np.pi) + rng.normal(0, 0.03, count)
    x = np.clip(share, 0.02, 0.8) * float(LAW.x_max or 0)
    n = LAW.concurrency_at_throughput(x) * np.exp(rng.normal(0, 0.03, count))
    u = x / float(LAW.x_max or 1) * 0.7 * np.exp(rng.normal(0, 0.03, count)) + 0.02
    return Observations.of(15.0 * np.arange(count), x / cost, n, resources=[Resource("cpu", u)])


def test_one_workload_is_one_regime() -> None:
    """A daily curve with noise is no change."""
    for seed in range(10):
        found = find_regimes(days(np.ones(400), seed))
        assert found.current.all()
        assert found.change is None
        assert found.clusters is None


@pytest.mark.parametrize("ratio", [0.6, 1.4, 2.5])
def test_a_changed_mix_drops_earlier_intervals(ratio: float) -> None:
    """The change is found within a few intervals, and the ratio of the costs."""
    cost = np.where(np.arange(400) < 220, 1.0, ratio)
    found = find_regimes(days(cost))
    assert found.change is not None
    assert found.change.index == pytest.approx(220, abs=8)
    assert found.change.ratio == pytest.approx(ratio, rel=0.2)
    assert not found.current[: found.change.index].any()
    assert found.current[found.change.index :].all()


def test_the_latest_of_two_changes_counts() -> None:
    """Only intervals after the last one are of the present workload."""
    place = np.arange(600)
    cost = np.select([place < 200, place < 400], [1.0, 1.6], default=0.8)
    found = find_regimes(days(cost))
    assert found.change is not None
    assert found.change.index == pytest.approx(400, abs=10)


def test_a_small_or_short_change_keeps_the_window() -> None:
    """5 % of the cost, or of the time, does not outweigh the older intervals."""
    assert find_regimes(days(np.where(np.arange(400) < 200, 1.0, 1.05))).change is None
    assert find_regimes(days(np.where(np.arange(400) < 380, 1.0, 2.0))).change is None


def test_an_episode_that_ended_is_no_change() -> None:
    """Expensive queries for a ninth of the window, and most of what followed: over, no regime."""
    place = np.arange(400)
    episode = (place >= 330) & (place < 375)
    assert find_regimes(days(np.where(episode, 3.0, 1.0))).change is None
    assert find_regimes(days(np.where(place >= 330, 3.0, 1.0))).change is not None


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("seed", range(8))
def test_going_past_the_peak_is_no_change(seed: int, rounds: int) -> None:
    """A query takes longer there at a throughput that was served faster before."""
    rng = np.random.default_rng(seed)
    n = np.tile(np.repeat(np.linspace(1.0, 100.0, 20), 3), rounds)
    x = LAW.throughput(n) * np.exp(rng.normal(0, 0.04, len(n)))
    connections = Resource("connections", (n + 5) / 150, has_configured_limit=True)
    found = find_regimes(Observations.of(np.arange(len(n)), x, n, resources=[connections]))
    assert found.change is None


def test_night_jobs_are_separated_from_the_traffic() -> None:
    """Of two clusters in turn, the one with fewer queries is left out, and reported."""
    night = (np.arange(480) % 120) < 30
    found = find_regimes(days(np.where(night, 8.0, 1.0)))
    assert found.clusters is not None
    assert np.mean(found.current != ~night) < 0.02
    assert found.clusters.ratio == pytest.approx(8, rel=0.3)
    assert found.clusters.share == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_waiting_is_no_second_workload(seed: int) -> None:
    """Above a load all queue for something: twenty times as long, at the same cost."""
    seen = days(np.ones(400), seed)
    waits = seen.throughput > np.quantile(seen.throughput, 0.7)
    n = np.where(waits, 20.0, 1.0) * seen.throughput / 1000
    found = find_regimes(replace(seen, concurrency=n))
    assert found.clusters is None
    assert found.current.all()


@pytest.mark.parametrize("seed", range(4))
def test_work_of_another_time_and_cost_is_a_workload(seed: int) -> None:
    """In turn, at every load; without a resource, the time alone decides."""
    seen = days(np.ones(400), seed)
    other = np.repeat(np.random.default_rng(seed).permutation(np.tile([0, 0, 1], 10)), 14)[:400]
    n = np.where(other, 20.0, 1.0) * seen.throughput / 1000
    [cpu] = seen.resources
    dear = replace(cpu, utilisation=cpu.utilisation * np.where(other, 1.5, 1.0))
    both = find_regimes(replace(seen, concurrency=n, resources=(dear,)))
    assert both.clusters is not None
    assert both.clusters.share == pytest.approx(1 / 3, abs=0.1)
    assert find_regimes(replace(seen, concurrency=n, resources=())).clusters is not None
    assert find_regimes(replace(seen, concurrency=n)).clusters is None


def test_scaling_throughput_changes_no_regime() -> None:
    """Only ratios matter."""
    seen = days(np.where(np.arange(400) < 220, 1.0, 1.4))
    one, ten = find_regimes(seen), find_regimes(replace(seen, throughput=10 * seen.throughput))
    assert np.array_equal(one.current, ten.current)


@pytest.mark.parametrize("resources", [True, False])
@pytest.mark.parametrize("value", [0.0, 3.0, np.nan])
def test_equal_idle_and_unknown_intervals_are_one_regime(value: float, resources: bool) -> None:
    """There is nothing to find."""
    used = [Resource("cpu", np.full(60, value / 10))] if resources else []
    seen = Observations.of(np.arange(60.0), np.full(60, 4.0), np.full(60, value), resources=used)
    assert find_regimes(seen).current.all()


def test_few_intervals_are_one_regime() -> None:
    """A handful is not enough for a change."""
    assert find_regimes(days(np.ones(400)).select(slice(10))).current.all()


def test_the_time_per_query_alone_shows_a_change() -> None:
    """No resource is needed."""
    seen = replace(days(np.where(np.arange(400) < 220, 1.0, 1.5)), resources=())
    found = find_regimes(seen)
    assert found.change is not None
    assert found.change.quantity == TIME_PER_QUERY


@pytest.mark.parametrize("index", [5, 300])
def test_an_unknown_concurrency_hides_no_change(index: int) -> None:
    """The cost in a resource is still known."""
    seen = days(np.ones(400))
    u = seen.resources[0].utilisation * np.where(np.arange(400) < 220, 1.0, 1.5)
    n = seen.concurrency.copy()
    n[index] = np.nan
    found = find_regimes(replace(seen, concurrency=n, resources=(Resource("cpu", u),)))
    assert found.change is not None
    assert found.change.index == pytest.approx(220, abs=10)


@pytest.mark.parametrize("seed", range(4))
def test_a_neighbour_that_begins_or_ends_is_no_change(seed: int) -> None:
    """Its use of the processor is no cost of a query; a change of the server's own is."""
    seen, after = days(np.ones(400), seed), np.arange(400) >= 220
    [cpu] = seen.resources
    own = cpu.utilisation
    for others in (after, ~after):
        beside = replace(cpu, utilisation=own + 0.2 * others, own=own)
        assert find_regimes(replace(seen, resources=(beside,))).change is None
    dearer = own * np.where(after, 1.4, 1.0)
    found = find_regimes(replace(seen, resources=(replace(cpu, utilisation=dearer, own=dearer),)))
    assert found.change is not None


def test_a_small_change_shows_beside_costs_that_fluctuate_for_minutes() -> None:
    """A quarter more in the last 24 of 60 intervals, in seven of eight servers."""
    found = 0
    for seed in range(60):
        noise = np.random.default_rng(seed).normal(0, 0.03, 60)
        for k in range(1, 60):
            noise[k] += 0.6 * noise[k - 1]
        cost = np.where(np.arange(60) < 36, 1.0, 1.25) * np.exp(noise)
        found += find_regimes(days(cost, seed)).change is not None
    print(f"{found} of 60")
    assert found >= 52


@pytest.mark.parametrize(
    "name", ["mysql-sorts", "mysql-shop-8", "mysql-points-8", "mysql-deletes", "mariadb-joins"]
)
def test_few_moments_of_a_recorded_workload_show_a_change(name: str) -> None:
    """Its queries are the same all the time; one interval more hardly ever makes a change."""
    seen = saved(ZOO / f"{name}.json.gz")
    *_, whole = levels_of(seen)
    window = seen_below(seen, whole)
    known = observations(window, ConcurrencySource.STATEMENT_TIME)
    moments = range(MIN_CURVE_POINTS, len(known) + 1)
    changed = [find_regimes(known.select(slice(k))).change is not None for k in moments]
    print(f"{sum(changed)} of {len(changed)} moments")
    assert np.mean(changed) < 0.05
