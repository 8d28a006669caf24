"""What looks like a limit and is none: bursts, steps of the load, odd intervals, many channels."""

from dataclasses import replace

import numpy as np
import pytest
from capacity_days import INTERVALS, SECONDS, observed, residing, tide

from models.arrays import Array
from models.capacity.assess import assess_capacity
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import LimitReason, Resource
from models.capacity.resource_limits import find_resource_limits
from models.capacity.result import CapacityReason
from models.trust import Trust
from testbed.simulated.day_scenarios import DaySettings, simulate_day
from testbed.simulated.servers import erlang_server


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("wait", [0.0, 0.004])
def test_bursts_within_an_interval_are_no_contention(seed: int, wait: float) -> None:
    """Load that varies by 20 % from second to second, up to 60 % of four processors."""
    rng = np.random.default_rng([3, seed])
    server = erlang_server("four", 4, demand=0.0005, wait=wait)
    offered = np.repeat(tide(0.6, rng), SECONDS)
    offered = np.minimum(offered * np.exp(rng.normal(0, 0.2, len(offered)) - 0.02), 0.99)
    n = residing(server, offered).reshape(-1, SECONDS).mean(axis=1)
    share = offered.reshape(-1, SECONDS).mean(axis=1)
    found = assess_capacity(observed(server, share, n, rng))
    assert found.value is not None
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < server.capacity < found.upper * 1.05
    assert found.trust is not Trust.TRUSTED


@pytest.mark.parametrize("levels", [(0.2, 0.4, 0.6, 0.8), (0.8, 0.6, 0.4, 0.2), (0.2, 0.7)])
@pytest.mark.parametrize("each", [10, 60])
def test_steps_of_the_load_are_no_change_of_the_mix(levels: tuple[float, ...], each: int) -> None:
    """Residence times vary by 2 % in the same way at every level."""
    server = erlang_server("eight", 8, wait=0.004)
    for seed in range(4):
        rng = np.random.default_rng([9, seed])
        share = np.repeat(levels, each) * np.exp(rng.normal(0, 0.005, each * len(levels)))
        n = residing(server, share) * np.exp(rng.normal(0, 0.02, len(share)))
        found = assess_capacity(observed(server, share, n, rng))
        assert found.regimes is not None
        assert found.regimes.change is None
        assert found.value == pytest.approx(server.capacity, rel=0.08)


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_an_always_busy_pool_is_not_trusted(noise: float) -> None:
    """Sixteen at once while queries get cheaper: a vertical line has an untrusted result."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = np.repeat([300.0, 900.0], [48, 12])
        n = 16 * (1 + rng.normal(0, 1, 60) * noise)
        cpu = Resource("cpu", x / 900 * 0.6)
        found = assess_capacity(Observations.of(15.0 * np.arange(60), x, n, resources=[cpu]))
        assert found.trust is not Trust.TRUSTED


@pytest.mark.parametrize("cores", [1, 2, 4, 8])
@pytest.mark.parametrize(("more_x", "more_n"), [(1.1, 1.0), (1.0, 1.3), (1.0, 2.0)])
def test_one_deviating_interval_at_a_high_load_moves_little(
    cores: int, more_x: float, more_n: float
) -> None:
    """Too close to the others to be left out, it moves a trusted capacity by less than 5 %."""
    for seed in range(4):
        server = erlang_server("few", cores, wait=0.0)
        seen = simulate_day(server, DaySettings(0.9), np.random.default_rng([1, seed]))
        before = assess_capacity(seen)
        assert before.trust is Trust.TRUSTED
        top = int(np.argsort(seen.throughput)[-5])
        x, n = seen.throughput.copy(), seen.concurrency.copy()
        x[top], n[top] = x[top] * more_x, n[top] * more_n
        after = assess_capacity(replace(seen, throughput=x, concurrency=n))
        assert after.value == pytest.approx(before.value, rel=0.05)


@pytest.mark.parametrize("channels", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("reach", [0.15, 0.3, 0.5, 0.7])
def test_a_disk_of_many_channels_is_busy_long_before_it_is_full(
    channels: int, reach: float
) -> None:
    """Busy for 1 − (1 − ρ)^m of the time: no trusted limit lies below its true one."""
    rng = np.random.default_rng([7, channels])
    rho = tide(reach, rng)
    busy = (1 - (1 - rho) ** channels) * np.exp(rng.normal(0, 0.01, len(rho)))
    disk = Resource("disk:nvme0n1", np.clip(busy, 0, 1), is_busy_time=True)
    [found] = find_resource_limits(20000 * rho, [disk])
    if 1 - (1 - reach) ** channels > 0.98:  # busy all the time, and the throughput still grows
        assert LimitReason.NOT_A_LIMIT in found.reasons
        assert found.x_max is None
        return
    assert found.x_max_interval is not None
    assert found.x_max_interval.low < 20000 * 1.02
    assert found.x_max_interval.high > 20000 * 0.9
    assert (found.trust is Trust.TRUSTED) == (reach >= 0.5)
    assert found.trust is not Trust.TRUSTED or found.x_max == pytest.approx(20000, rel=0.12)
    assert (LimitReason.SEVERAL_AT_ONCE in found.reasons) == (channels > 1 or reach < 0.5)


def test_busy_time_taken_for_utilisation_is_wrong() -> None:
    """A disk of eight channels taken for a plain utilisation: less than half, trusted."""
    rng = np.random.default_rng([7, 8])
    rho = tide(0.3, rng)
    busy = np.clip((1 - (1 - rho) ** 8) * np.exp(rng.normal(0, 0.01, len(rho))), 0, 1)
    [deceived] = find_resource_limits(20000 * rho, [Resource("disk:nvme0n1", busy)])
    assert deceived.trust is Trust.TRUSTED
    assert deceived.x_max is not None
    assert deceived.x_max < 0.5 * 20000


def test_an_always_busy_disk_may_have_capacity_left() -> None:
    """At a constant load, busy all the time: one channel would be full, eight a third used."""
    x = 5000 * np.exp(np.random.default_rng(1).normal(0, 0.05, 100))
    always = np.full(100, 0.985)
    measured, unknown = find_resource_limits(
        x, [Resource("one", always), Resource("disk:sda", always, is_busy_time=True)]
    )
    assert measured.x_max == pytest.approx(5000, rel=0.05)
    assert unknown.x_max is None
    assert unknown.reasons == (LimitReason.SEVERAL_AT_ONCE,)


@pytest.mark.parametrize("cost", [0.5, 0.75, 2.0])
def test_a_deploy_removes_trust_before_it_is_a_regime(cost: float) -> None:
    """Queries cost more in the last ten of 480 intervals: too few to be another regime."""
    server = erlang_server("eight", 8, wait=0.004)
    for seed in range(4):
        rng = np.random.default_rng([5, seed])
        share = tide(0.8, rng)
        share[-10:] = 0.3
        per_query = np.where(np.arange(INTERVALS) < INTERVALS - 10, 1.0, cost)
        n = residing(server, share * per_query) * np.exp(rng.normal(0, 0.02, INTERVALS))
        seen = observed(server, share * per_query, n, rng)
        after = assess_capacity(replace(seen, throughput=share * server.capacity))
        assert CapacityReason.RECENT_COST_DIFFERS in after.reasons
        assert after.trust is not Trust.TRUSTED
        before = assess_capacity(observed(server, share, residing(server, share), rng))
        assert before.trust is Trust.TRUSTED


def anything(rng: np.random.Generator, count: int) -> Array:
    """A column of a broken window: constants, gaps, endless ranges, all but nothing, two values."""
    kinds = (
        lambda: rng.uniform(0, 1, count),
        lambda: np.full(count, rng.choice([0, 1e-300, 1e-9, 0.3, 1, 5, 1e9, 1e200])),
        lambda: 10 ** rng.uniform(-12, 12, count),
        lambda: np.where(rng.random(count) < 0.5, np.nan, rng.uniform(0, 5, count)),
        lambda: np.where(rng.random(count) < 0.95, 0, rng.uniform(0, 9, count)),
        lambda: rng.choice([np.inf, -1, 1, 2], count),
        lambda: 1000 + rng.normal(0, 1e-9, count),
        lambda: np.arange(count) % 2 * 1.0,
    )
    return np.asarray(kinds[rng.integers(0, len(kinds))](), dtype=np.float64)


@pytest.mark.parametrize("seed", range(4))
def test_every_window_gives_consistent_numbers(seed: int) -> None:
    """Bounds in their order, finite and above 0; shares that sum to 1."""
    rng = np.random.default_rng(seed)
    for _ in range(150):
        count = int(rng.choice([1, 2, 3, 5, 6, 12, 19, 20, 31, 60, 200]))
        used = [
            Resource(f"r{i}", anything(rng, count), own=anything(rng, count) if i else None)
            for i in range(rng.integers(0, 3))
        ]
        columns = (15.0 * np.arange(count), anything(rng, count), anything(rng, count))
        with np.errstate(over="ignore", invalid="ignore"):
            found = assess_capacity(Observations.of(*columns, resources=used))
        told = [v for v in (found.lower, found.value, found.upper) if v is not None]
        assert np.isfinite(told).all()
        assert told == sorted(told)
        assert not found.shares or sum(found.shares.values()) == pytest.approx(1)


def test_statements_that_wait_elsewhere_fill_no_innodb() -> None:
    """Half of a statement's time is sleep: the setting's limit seems half as far as it is.

    Measured: eight sessions that sleep, beside innodb_thread_concurrency = 4, got 1.9 times as much
    done as four at once can. `correct_refuted_limit` tells it then; until then it must wake nobody.
    """
    rng = np.random.default_rng(5)
    x = np.tile(np.linspace(20, 180, 30), 4) * np.exp(rng.normal(0, 0.01, 120))
    n = x * 0.02 * np.exp(rng.normal(0, 0.01, len(x)))
    at = 15.0 * np.arange(1, len(x) + 1)
    for counts_waits in (False, True):
        inside = Resource(
            "innodb_threads", n / 4, has_configured_limit=True, counts_waits=counts_waits
        )
        found = assess_capacity(Observations.of(at, x, n, resources=[inside]))
        assert found.value == pytest.approx(200, rel=0.1)
        assert (found.trust is Trust.TRUSTED) is not counts_waits
        assert (CapacityReason.WAITS_COUNTED in found.reasons) is counts_waits
