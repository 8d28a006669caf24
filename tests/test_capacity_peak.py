"""Where contention's peak is believed to be, beside a limit."""

from dataclasses import replace

import numpy as np
import pytest
from capacity_days import numbers

from models.arrays import Array
from models.capacity.assess import assess_capacity
from models.capacity.contention_peak import NearestLimit, find_peak
from models.capacity.goodness_of_fit import MergedPoints
from models.capacity.headroom import headroom_of
from models.capacity.observations import Observations
from models.capacity.observed_peak import saturated_throughput
from models.capacity.resource_and_limit import Resource
from models.shared_constants import QUERY_VARIATION
from models.trust import Trust
from models.usl.law import Usl
from testbed.simulated.day_scenarios import DaySettings, simulate_day
from testbed.simulated.servers import erlang_server

NO_POINTS = MergedPoints(*(np.empty(0) for _ in MergedPoints._fields))


def test_without_points_the_peak_has_its_prior() -> None:
    """It is somewhere about the limit, above the observed throughput."""
    peak = find_peak(NO_POINTS, NearestLimit(1000.0, None), 600.0)
    below, lowest, highest = peak.survival(np.log(np.array([590.0, 800.0, 1400.0])))
    assert below == pytest.approx(1.0, abs=0.01)
    assert lowest > 0.5 > highest


@pytest.mark.parametrize("cores", [1, 2, 4, 8])
@pytest.mark.parametrize("reach", [0.7, 0.9])
def test_a_queue_at_few_processors_is_no_contention(cores: int, reach: float) -> None:
    """Only processor time: the interval holds the throughput where they are full."""
    for seed in range(5):
        server = erlang_server("few", cores, wait=0.0)
        found = assess_capacity(
            simulate_day(server, DaySettings(reach), np.random.default_rng(seed))
        )
        low, value, high = numbers(found)
        assert low <= 1.02 * server.capacity
        assert high >= 0.98 * server.capacity
        assert value == pytest.approx(server.capacity, rel=0.1)


def test_queues_at_a_shared_processor_are_no_lock() -> None:
    """Others vary its utilisation at the same throughput, and the residence times follow."""
    rng = np.random.default_rng(5)
    x = 20000 * rng.uniform(0.1, 0.65, 60)
    busy = np.clip(x / 20000 * np.exp(rng.normal(0, 0.15, 60)), 0, 0.95)
    n = x * 0.0013 + 2 * busy * busy / (1 - busy)
    resource_limit, at_the_limit = NearestLimit(19500.0, 26.0), np.log(np.array([20000.0]))
    points = MergedPoints(n, x, np.ones(60), np.zeros(60), busy)
    [free] = find_peak(points, resource_limit, 12400.0).survival(at_the_limit)
    [mistaken] = find_peak(points._replace(busy=x / 20000), resource_limit, 12400.0).survival(
        at_the_limit
    )
    assert free > 0.8
    assert mistaken < free - 0.1


def test_a_queue_at_the_processor_is_not_contention_elsewhere() -> None:
    """Residence time triples because the one processor is busy: it is the limit, within 10 %."""
    server = erlang_server("one", 1, wait=0.003, waking=0.5)
    found = assess_capacity(simulate_day(server, DaySettings(0.75), np.random.default_rng(5)))
    assert found.limit == "cpu"
    assert found.shares["cpu"] > 0.65
    assert found.value == pytest.approx(server.capacity, rel=0.1)


def test_statements_waiting_elsewhere_bound_the_processors_queue() -> None:
    """20 of 40 wait for one of two processors; else the time in which all are busy counts."""
    counted = Resource("cpu", np.array([0.9]), processors=np.array([2.0]), waiting=np.array([20.0]))
    for resource, connections, expected in (
        (counted, np.nan, 40 - 0.9 * 2 - 20),
        (replace(counted, waiting=None), 42.0, 40 - 0.9 * 2 - 0.9 * 40),
        (replace(counted, waiting=None), np.nan, 40 - 0.9 * 2 - 0.9 * 38),
        (replace(counted, waiting=None, utilisation=np.array([0.5])), 42.0, 40 - 0.5 * 2 - 20),
    ):
        seen = Observations.of([1.0], 500.0, 40.0, resources=[resource], connections=connections)
        [elsewhere] = seen.waiting_elsewhere(seen.resources[0])
        assert elsewhere == pytest.approx(expected)


def noisy(n: Array, x: Array, limit: float, seed: int) -> MergedPoints:
    """These points with 2 % of noise, beside a processor that is full at `limit` (queries/s)."""
    rng = np.random.default_rng(seed)
    n, x = (column * np.exp(rng.normal(0, 0.02, len(column))) for column in (n, x))
    return MergedPoints(n, x, np.ones(len(n)), np.zeros(len(n)), np.clip(x / limit, 0, 0.98))


@pytest.mark.parametrize("seed", range(5))
def test_waiting_statements_with_falling_throughput_are_no_certain_peak(seed: int) -> None:
    """At half of the limit a lock holds them for 24 intervals: perhaps the peak, perhaps not."""
    x = np.concatenate([np.linspace(0.1, 0.5, 200), np.linspace(0.13, 0.2, 24)]) * 1000
    n = np.concatenate([np.linspace(0.1, 0.5, 200) * 90, np.linspace(170, 400, 24)])
    found = find_peak(noisy(n, x, 1000.0, seed), NearestLimit(1000.0, 90.0), 480.0)
    [above] = found.survival(np.log(np.array([700.0])))
    assert 0.05 < above < 0.3


@pytest.mark.parametrize("seed", range(5))
def test_a_peak_that_was_passed_is_certain(seed: int) -> None:
    """With loads around it observed, the points beyond change nothing."""
    law = Usl(sigma=0.02, kappa=0.0006, lam=100.0)
    n = np.concatenate([np.linspace(1, 60, 150), np.linspace(90, 150, 24)])
    points = noisy(n, law.throughput(n), 3000.0, seed)
    x_max = float(law.x_max or 0)
    found = find_peak(points, NearestLimit(3000.0, 30.0), x_max)
    below, above = found.survival(np.log(np.array([0.93, 1.15]) * x_max))
    assert below > 0.95
    assert above < 0.05


@pytest.mark.parametrize("seed", range(5))
def test_noise_at_the_peak_does_not_refute_the_law(seed: int) -> None:
    """A server that stays at its peak is above the mean there half of the time."""
    law, rng = Usl(sigma=0.05, kappa=0.01, lam=25.0), np.random.default_rng(seed)
    n = np.concatenate([rng.uniform(1, 18, 40), rng.uniform(9, 11, 60)])
    x = law.throughput(n) * np.exp(rng.normal(0, 0.02, len(n)))
    found = assess_capacity(Observations.of(np.arange(float(len(n))), x, n))
    assert found.trust is Trust.TRUSTED
    assert found.value == pytest.approx(law.x_max, rel=0.03)


@pytest.mark.parametrize("most", [0.85, 0.93])
@pytest.mark.parametrize("loss", [0.0, 0.08])
def test_a_load_that_jumps_past_the_peak_measures_it_too(most: float, loss: float) -> None:
    """Without loads around it: a processor at most nearly full, then one with a long queue."""
    rng = np.random.default_rng(3)
    server = erlang_server("one", 1, wait=0.003)
    x = server.capacity * np.append(rng.uniform(0.2, most, 60), np.full(4, (1 - loss)))
    n, used = server.at(x)
    n[60:] = 120.0
    u = np.append(used["cpu"][:60] / 0.98, np.ones(4))
    noise = rng.normal(1, 0.01, len(x))
    seen = Observations.of(
        np.arange(float(len(x))), x * noise, n, resources=[Resource("cpu", u, own=u)]
    )
    before, after = (assess_capacity(seen.select(slice(0, end))) for end in (62, 63))
    assert before.value is not None
    assert after.value == pytest.approx(server.capacity, rel=0.05)
    assert after.limit == "cpu"
    known = headroom_of(after, float(x[-1]), 120.0, 1.0)
    assert known is not None
    assert known.overloaded
    assert known.ratio < 0
    calm = headroom_of(after, 0.5 * server.capacity, float(n[0]), 0.5)
    assert calm is not None
    assert calm.ratio > 0.4


@pytest.mark.parametrize("index", [0, 30])
def test_an_unknown_utilisation_hides_no_queue_at_the_limit(index: int) -> None:
    """With one reading of sixty missing, the queue at the limit is recognised."""
    x = np.linspace(1000.0, 12400.0, 60)
    busy = x / 12600
    n = x * (0.0003 + 0.00008 * busy / (1 - busy))
    resource_limit = NearestLimit(12600.0, 3.0)
    at_the_limit = np.log(np.array([12600.0]))
    points = MergedPoints(n, x, np.ones(60), np.zeros(60), busy)
    known = busy.copy()
    known[index] = np.nan
    [whole] = find_peak(points, resource_limit, 12400.0).survival(at_the_limit)
    [gap] = find_peak(points._replace(busy=known), resource_limit, 12400.0).survival(at_the_limit)
    [none] = find_peak(points._replace(busy=np.full(60, np.nan)), resource_limit, 12400.0).survival(
        at_the_limit
    )
    assert none < min(whole, gap) - 0.03
    assert gap > whole - 0.005


@pytest.mark.parametrize(
    ("got", "connections", "bound"),
    [(900.0, 40.0, 900.0), (900.0, np.nan, np.inf), (900.0, 80.0, np.inf), (600.0, 40.0, np.inf)],
)
def test_the_throughput_of_all_connections_counts_unless_statements_piled_up(
    got: float, connections: float, bound: float
) -> None:
    """36 statements at once, where ten are enough for the capacity of 1,000/s."""
    n, x = np.repeat([2.0, 5.0, 36.0], 8), np.repeat([200.0, 500.0, got], 8)
    seen = Observations.of(np.arange(24.0), x, n, connections=connections)
    found = saturated_throughput(seen, 1000.0)
    assert found == pytest.approx(bound * np.exp(-1.645 * QUERY_VARIATION), rel=1e-4)
    assert saturated_throughput(seen.select(slice(21)), 1000.0) == np.inf
