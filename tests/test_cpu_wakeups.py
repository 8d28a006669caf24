"""How often a processor goes idle tells whether queries will get cheaper as more overlap."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from woken_servers import PROCESSORS, server_of_many_processors, woken_server

from collectors.cpu_idle_entries import MAX_CPUS, IdleEntries
from models.capacity.assess import assess_capacity
from models.capacity.demand_extrapolation import CEILING
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import Resource
from models.capacity.result import CapacityReason
from models.capacity.shared_cost import SharedCost
from models.trust import Trust

SEEDS = range(5)
SHORT = (32e-6, 25e-6)
LONG = (1e-3, 30e-6)


@pytest.mark.parametrize("upto", [0.5, 0.72])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_busy_processor_that_goes_idle_between_queries_is_not_full(
    upto: float, seed: int
) -> None:
    """Evenly sent short queries use all of a processor's time at half of its capacity."""
    demand, waking = SHORT
    capacity = assess_capacity(woken_server(demand, waking, upto, evenly=True, seed=seed))
    assert capacity.lower is not None
    assert capacity.upper is not None
    assert capacity.lower < 1 / demand < capacity.upper
    assert capacity.trust is not Trust.TRUSTED
    assert CapacityReason.DEMAND_FALLS in capacity.reasons


@pytest.mark.parametrize("seed", SEEDS)
def test_the_capacity_is_known_near_it(seed: int) -> None:
    """At nine tenths of it all processor time has been used for long, and the result is right."""
    demand, waking = SHORT
    capacity = assess_capacity(woken_server(demand, waking, 0.9, evenly=True, seed=seed))
    assert capacity.value is not None
    assert capacity.value * demand == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("upto", [0.5, 0.6, 0.72])
def test_without_idle_entries_the_interval_is_wide_and_untrusted(upto: float) -> None:
    """The demand of short queries may fall without a sign."""
    demand, waking = SHORT
    found = [
        assess_capacity(woken_server(demand, waking, upto, evenly=True, seed=s, is_measured=False))
        for s in SEEDS
    ]
    assert all(c.trust is not Trust.TRUSTED for c in found)
    held = [(c.lower or 0.0) * demand < 1 < 1.05 * (c.upper or np.inf) * demand for c in found]
    assert np.mean(held) >= 0.6


def test_statement_cpu_includes_no_wakeups() -> None:
    """Where the server counts CPU for statements alone, it stays as it is: trust may come."""
    demand = SHORT[0]
    seen = woken_server(demand, 0.0, 0.9, evenly=False, is_measured=False)
    [own] = seen.resources
    of_statements = replace(own, is_of_statements=True, short_query_concurrency=None)
    some, none = (assess_capacity(replace(seen, resources=(one,))) for one in (own, of_statements))
    assert (some.upper or np.inf) > 1.1 * (none.upper or np.inf)


@pytest.mark.parametrize("evenly", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_waking_is_a_small_part_of_long_queries(*, evenly: bool, seed: int) -> None:
    """With a millisecond of CPU per query it matters little, and trust comes."""
    demand, waking = LONG
    capacity = assess_capacity(woken_server(demand, waking, 0.9, evenly=evenly, seed=seed))
    assert capacity.value is not None
    assert capacity.value * demand == pytest.approx(1.0, abs=0.08)
    assert capacity.trust is Trust.TRUSTED


def test_a_demand_that_may_fall_is_not_trusted_at_low_loads() -> None:
    """At 60 % of a capacity whose queries get a third cheaper."""
    demand, waking = SHORT
    early = assess_capacity(woken_server(demand, waking, 0.75, evenly=False))
    late = assess_capacity(woken_server(demand, waking, 0.97, evenly=False))
    assert CapacityReason.DEMAND_FALLS in early.reasons
    assert early.trust is not Trust.TRUSTED
    assert CapacityReason.DEMAND_FALLS not in late.reasons


@pytest.mark.parametrize("is_measured", [True, False])
@pytest.mark.parametrize("upto", [0.5, 0.7, 0.8, 0.9])
def test_many_processors_pay_for_waking_until_all_are_busy(
    *, upto: float, is_measured: bool
) -> None:
    """The interval holds the truth, measured or not."""
    demand, waking = 150e-6, 25e-6
    truth = CEILING[0] * PROCESSORS / demand
    found = [
        assess_capacity(
            server_of_many_processors(demand, waking, upto, seed=seed, is_measured=is_measured)
        )
        for seed in SEEDS
    ]
    held = [(c.lower or np.inf) < truth < (c.upper or np.inf) for c in found]
    assert np.mean(held) >= (1.0 if is_measured else 0.8)


def test_the_busy_share_is_that_of_random_arrivals() -> None:
    """X·(1 − U) idle entries a second: a share U finds it busy, from the lowest load on."""
    x = np.linspace(100.0, 1000.0, 50)
    u = x / 1000.0
    wakeups = SharedCost.of(x, x * (1 - u))
    assert wakeups is not None
    assert wakeups.per_query == pytest.approx(0.75, abs=0.1)
    assert wakeups.saved[-1] == pytest.approx(1.0)
    assert np.all(np.diff(wakeups.saved) >= 0)


@pytest.mark.parametrize("upto", [0.5, 0.72])
def test_other_programs_that_keep_processors_from_idling_hide_what_waking_costs(
    upto: float,
) -> None:
    """Hardly any idle entry is counted beside them, as if no query paid for one."""
    demand, waking = SHORT
    for seed in SEEDS:
        seen = woken_server(demand, waking, upto, evenly=True, seed=seed)
        [own] = seen.resources
        rare = np.full(len(seen), 20.0)
        counted = replace(own, idle_entries=rare, wakeups=None)
        host = Resource(
            "cpu",
            np.ones(len(seen)),
            own=own.utilisation / 2,
            idle_entries=rare,
            processors=np.full(len(seen), 2.0),
        )
        both = Observations.of(
            seen.at, seen.throughput, seen.concurrency, resources=[counted, host]
        )
        assert all(resource.wakeups is None for resource in both.resources)
        found = assess_capacity(both)
        assert found.trust is not Trust.TRUSTED
        assert (found.lower or 0.0) * demand < 1 < 1.05 * (found.upper or np.inf) * demand


def test_too_few_idle_entries_give_no_measure() -> None:
    """Fewer than six known intervals, none, or a processor that never goes idle."""
    x = np.linspace(100.0, 1000.0, 10)
    assert SharedCost.of(x, np.full(10, np.nan)) is None
    assert SharedCost.of(x, np.where(np.arange(10) < 5, x, np.nan)) is None
    assert SharedCost.of(x, np.zeros(10)) is None


def test_a_resource_is_full_only_where_queries_find_it_busy() -> None:
    """All of its time is used in each interval, and in the first half it went idle each time."""
    x = np.full(20, 500.0)
    entries = np.where(np.arange(20) < 10, 500.0, 5.0)
    processor = Resource("cpu", np.ones(20), idle_entries=entries).with_shared_costs(x, x)
    assert processor.full.tolist() == [False] * 10 + [True] * 10
    assert Resource("cpu", np.ones(20)).full.all()


def test_without_idle_entries_short_queries_fill_a_processor_only_if_they_queue() -> None:
    """One at once may take all of its time, as each wakes it; longer ones fill it alone."""
    x, n = np.array([20_000.0, 20_000.0, 20_000.0, 500.0]), np.array([1.4, 5.0, np.nan, 1.0])
    one = Resource("cpu", np.ones(4), own=np.ones(4), processors=np.ones(4))
    assert one.with_shared_costs(x, n).full.tolist() == [False, True, True, True]


def sysfs(root: Path, cpu: int, **states: int) -> None:
    """Write the counters of a processor as the kernel shows them."""
    for index, (name, usage) in enumerate(states.items()):
        state = root / f"cpu{cpu}" / "cpuidle" / f"state{index}"
        state.mkdir(parents=True)
        (state / "name").write_text(f"{name}\n")
        (state / "usage").write_text(f"{usage}\n")


def test_polling_is_no_idle_entry(tmp_path: Path) -> None:
    """All states but POLL count, as the mean of the processors."""
    sysfs(tmp_path, 0, POLL=1000, C1=10, C6=20)
    sysfs(tmp_path, 1, POLL=1000, C1=30, C6=40)
    assert IdleEntries([0, 1], tmp_path).per_processor() == 50.0
    assert IdleEntries([1], tmp_path).per_processor() == 70.0


def test_a_large_machine_is_sampled(tmp_path: Path) -> None:
    """Of 64 processors eight are read, evenly spread."""
    for cpu in range(64):
        sysfs(tmp_path, cpu, C1=cpu)
    assert IdleEntries(range(64), tmp_path).per_processor() == np.mean(range(0, 64, 64 // MAX_CPUS))


def test_without_a_cpuidle_driver_the_count_is_unknown(tmp_path: Path) -> None:
    """No cpuidle directory, or a processor that went offline: None."""
    assert IdleEntries([0], tmp_path).per_processor() is None
    assert IdleEntries([], tmp_path).per_processor() is None
    sysfs(tmp_path, 0, C1=1)
    known = IdleEntries([0], tmp_path)
    (tmp_path / "cpu0/cpuidle/state0/usage").unlink()
    assert known.per_processor() is None


def test_the_other_processors_are_read_after_one_was_taken_offline(tmp_path: Path) -> None:
    """Where its directory goes with it, as in a virtual machine that gets smaller."""
    sysfs(tmp_path, 0, C1=10)
    sysfs(tmp_path, 1, C1=30)
    known = IdleEntries([0, 1], tmp_path)
    assert known.per_processor() == 20.0
    shutil.rmtree(tmp_path / "cpu1" / "cpuidle")
    assert known.per_processor() is None
    assert known.per_processor() == 10.0


def test_idle_entries_of_this_machine_are_read() -> None:
    """For the processors that this process may use, if the kernel has them; they never fall."""
    known = IdleEntries(os.sched_getaffinity(0))
    first, second = known.per_processor(), known.per_processor()
    states = list(Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpuidle/state1/usage"))
    assert (first is not None) == bool(states)
    assert (second or 0.0) >= (first or 0.0)
