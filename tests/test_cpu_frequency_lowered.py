"""Processors whose clock is lowered at low loads look busier than they are: no trust then."""

from dataclasses import replace

import numpy as np
import pytest
from capacity_days import INTERVALS, residing, tide

from models.arrays import Array
from models.capacity.assess import assess_capacity
from models.capacity.cpu_frequency_check import clock_rise
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import Resource
from models.capacity.result import CapacityReason
from models.trust import Trust
from testbed.simulated.servers import erlang_server

SERVER = erlang_server("eight", 8, wait=0.004)


def day(kind: str, reach: float, seed: int) -> Observations:
    """Two waves of the load, up to this share of the capacity, under a governor of that kind."""
    rng = np.random.default_rng([31, seed])
    share = tide(reach, rng)
    clock = governed(kind, share)
    n = residing(SERVER, share) * np.exp(rng.normal(0, 0.02, INTERVALS)) * (0.8 + 0.2 / clock)
    busy = 0.98 * share / np.minimum(clock, 1) * np.exp(rng.normal(0, 0.01, INTERVALS))
    own = np.minimum(busy, 0.98)
    told = clock * np.exp(rng.normal(0, 0.02, INTERVALS))
    cpu = Resource("cpu", own + 0.02, own=own, clock=told)
    at = 15.0 * np.arange(1, INTERVALS + 1)
    return Observations.of(at, share * SERVER.capacity, n, resources=[cpu])


def governed(kind: str, share: Array) -> Array:
    """The clock at these shares of what the processors can do with the fastest."""
    return {
        "held": np.ones_like(share),
        "turbo": 1.4 - 0.3 * share,
        "by use": np.clip(1.25 * share, 0.4, 1),
        "edge": np.clip(1.25 * share, 0.8, 1),
        "jump": np.where(share < 0.32, 0.4, 1.0),
    }[kind]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("kind", "reach"), [("by use", 0.3), ("by use", 0.5), ("edge", 0.6), ("jump", 0.36)]
)
def test_a_clock_that_is_lowered_at_low_loads_takes_trust_away(
    kind: str, reach: float, seed: int
) -> None:
    """Whether it is low still at the highest loads or has just risen."""
    found = assess_capacity(day(kind, reach, seed))
    assert CapacityReason.CLOCK_LOW in found.reasons
    assert found.trust is not Trust.TRUSTED


@pytest.mark.parametrize(("kind", "reach"), [("by use", 0.3), ("edge", 0.6), ("jump", 0.36)])
def test_without_the_clock_rate_such_limits_are_too_low(kind: str, reach: float) -> None:
    """The utilisation alone does not show it, and one of them is even trusted."""
    seen = day(kind, reach, 1)
    blind = replace(seen, resources=(replace(seen.resources[0], clock=None),))
    found = assess_capacity(blind)
    assert found.trust is (Trust.TRUSTED if kind == "jump" else Trust.INDICATIVE)
    assert found.value is not None
    assert found.upper is not None
    assert found.value < found.upper < 0.85 * SERVER.capacity
    assert CapacityReason.CLOCK_LOW not in found.reasons


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("kind", "reach"), [("held", 0.9), ("turbo", 0.9), ("jump", 0.9)])
def test_a_high_clock_at_high_loads_keeps_the_trust(kind: str, reach: float, seed: int) -> None:
    """Kept high, or with a turbo; one that rose far below the highest loads is no reason."""
    found = assess_capacity(day(kind, reach, seed))
    assert CapacityReason.CLOCK_LOW not in found.reasons
    if kind != "jump":
        assert found.trust is Trust.TRUSTED
        assert found.value == pytest.approx(SERVER.capacity, rel=0.12)


def test_only_the_limiting_processors_clock_counts() -> None:
    """A disk has no clock, and where it comes first the processor's does not matter."""
    seen = day("by use", 0.3, 1)
    [cpu] = seen.resources
    little = replace(cpu, utilisation=cpu.utilisation / 4, own=None)
    disk = Resource("disk:sda", np.minimum(seen.throughput / SERVER.capacity * 2.5, 1))
    both = replace(seen, resources=(little, disk))
    assert clock_rise(both, "cpu") > 1.11
    assert clock_rise(both, "disk:sda") == 1.0
    found = assess_capacity(both)
    assert found.limit == "disk:sda"
    assert CapacityReason.CLOCK_LOW not in found.reasons


def test_a_clock_of_few_intervals_does_not_count() -> None:
    """Fewer than six are not enough; from then on the highest of them count."""
    seen = day("by use", 0.5, 1)
    [cpu] = seen.resources
    assert cpu.clock is not None
    for told, low in ((0, False), (5, False), (6, True), (INTERVALS, True)):
        clock = np.where(np.arange(INTERVALS) < told, cpu.clock, np.nan)
        few = replace(seen, resources=(replace(cpu, clock=clock),))
        assert (clock_rise(few, "cpu") > 1.11) is low
