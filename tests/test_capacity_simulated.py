"""Simulated servers of all kinds: coverage, error and trust, as the benchmark prints them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from capacity_days import explained_well

from models.capacity.assess import assess_capacity
from models.trust import Trust
from testbed.simulated.capacity_trials import Trial, passes_gate, trials
from testbed.simulated.day_scenarios import DaySettings, scenarios, simulate_day
from testbed.simulated.servers import erlang_server, queueing_server


def test_the_simulated_network_obeys_queueing_theory() -> None:
    """One thread: 1/(sleep + demand); many: cores/demand; U = X·D/cores (utilisation law)."""
    server = queueing_server("q", 4, demand=0.001, sleep=0.004)
    assert server.x[1] == pytest.approx(200.0)
    assert server.capacity == pytest.approx(4000, rel=1e-3)
    cpu = server.utilisations["cpu"] / 0.98
    assert cpu == pytest.approx(server.x * 0.001 / 4, rel=1e-6, abs=1e-6)


def test_the_limit_of_many_cores_is_extrapolated() -> None:
    """M/M/16 up to 80 % of its capacity, which is cores over demand."""
    server = erlang_server("e", 16)
    assert server.capacity == 16000
    found = assess_capacity(simulate_day(server, DaySettings(0.8), np.random.default_rng(2)))
    assert found.value == pytest.approx(16000, rel=0.05)
    assert found.limit == "cpu"


@pytest.mark.parametrize("reach", [0.85, 0.9, 0.95])
def test_a_processor_whose_use_is_not_known_is_no_contention(reach: float) -> None:
    """M/M/8 without the host's counters: queues for the processor bend the law."""
    server = erlang_server("e", 8)
    day = simulate_day(server, DaySettings(reach), np.random.default_rng(2))
    found = assess_capacity(replace(day, resources=()))
    assert found.value is None
    assert found.lower is not None
    assert 0.7 * server.capacity < found.lower < server.capacity


SERVERS, MORE_SERVERS = 2, 3  # of each kind and highest load; the more are for `--long`


@cache
def drawn(servers: int) -> list[Trial]:
    """So many servers for each of 31 kinds and four highest loads."""
    return list(trials(servers, seed=3))


@pytest.fixture
def simulated(*, is_long: bool) -> list[Trial]:
    """The trials that all tests here judge; those of `--long` contain the others."""
    return drawn(MORE_SERVERS if is_long else SERVERS)


def share(some: Sequence[Trial], what: Callable[[Trial], bool]) -> float:
    """The share of the trials of which this holds."""
    return float(np.mean([what(t) for t in some]))


def is_trusted(trial: Trial) -> bool:
    """Whether its capacity is trusted."""
    return trial.capacity.trust is Trust.TRUSTED


def test_the_intervals_have_their_nominal_coverage(simulated: list[Trial]) -> None:
    """Of 248 days 85 to 97 %; two standard errors of so many trials, 2 %, are allowed for."""
    assert 0.85 <= share(simulated, lambda t: t.covered) <= 0.99


@pytest.mark.parametrize("name", [scenario.name for scenario in scenarios()])
def test_every_kind_of_server_is_covered_and_explained(name: str, simulated: list[Trial]) -> None:
    """80 % of its intervals: three days of four at least, which 80 % leave four times in five."""
    days = [t for t in simulated if t.scenario == name]
    assert len(days) >= 4 * SERVERS
    assert share(days, lambda t: t.covered) >= 0.75
    for each in days:
        explained_well(each.capacity)


def test_trusted_capacities_are_right_and_frequent(simulated: list[Trial]) -> None:
    """Within 15 %, nine of ten within 12 %; as many as the law alone would trust and be right."""
    off = np.abs([t.error for t in simulated if is_trusted(t)])
    by_law = [(t.law.x_max or 0.0) / t.truth for t in simulated if t.law and passes_gate(t.law)]
    assert len(off) >= sum(abs(ratio - 1) <= 0.15 for ratio in by_law)
    assert len(off) >= 0.2 * len(simulated)
    assert np.max(off) <= 0.15
    assert np.median(off) <= 0.05
    assert np.quantile(off, 0.9) <= 0.12


@pytest.mark.parametrize(("reach", "least", "most"), [(0.3, 0, 0), (0.5, 0, 0), (0.9, 0.8, 1)])
def test_trust_rises_with_the_load(
    reach: float, least: float, most: float, simulated: list[Trial]
) -> None:
    """From half of the capacity none is trusted, near its end nearly all are."""
    assert least <= share([t for t in simulated if t.reach == reach], is_trusted) <= most
