"""A server at its end, though no resource is full: more statements serve no more."""

from dataclasses import replace

import numpy as np
import pytest
from capacity_days import INTERVALS, SECONDS

from models.arrays import Array
from models.capacity.assess import assess_capacity
from models.capacity.observations import Observations
from models.capacity.plateau import find_plateau
from models.capacity.resource_and_limit import Resource
from models.capacity.result import USL, CapacityReason
from models.trust import Trust
from testbed.simulated.day_scenarios import DaySettings, simulate_day
from testbed.simulated.server_months import PER_DAY, server_month
from testbed.simulated.servers import erlang_server

END, KNEE = 5000.0, 40.0


def served(n: Array) -> Array:
    """Throughput of a closed loop with a lock: straight, then flat at END."""
    return np.asarray(END * n / (KNEE**6 + n**6) ** (1 / 6))


def day(most: float, seed: int, full_at: float = 1.4 * END, noise: float = 0.01) -> Observations:
    """Three waves of up to so many statements at once; the processor is full at full_at."""
    rng = np.random.default_rng([61, seed])
    wave = 0.5 - 0.5 * np.cos(np.linspace(0, 6 * np.pi, INTERVALS))
    n = 1 + (most - 1) * np.clip(wave + rng.normal(0, 0.03, INTERVALS), 0, 1)
    x = served(n) * np.exp(rng.normal(0, noise, INTERVALS))
    own = np.minimum(0.97 * served(n) / full_at * np.exp(rng.normal(0, 0.01, INTERVALS)), 0.98)
    cpu = Resource("cpu", own + 0.02, own=own)
    n = n * np.exp(rng.normal(0, 0.02, INTERVALS))
    at = SECONDS * np.arange(1, INTERVALS + 1)
    return Observations.of(at, x, n, resources=[cpu])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most", [90.0, 200.0])
def test_a_plateau_is_the_capacity(most: float, seed: int) -> None:
    """The processor's limit lies two fifths above; the reason is that something else limits."""
    seen = day(most, seed)
    assert find_plateau(seen) == pytest.approx(END, rel=0.02)
    found = assess_capacity(seen)
    assert found.value == pytest.approx(END, rel=0.05)
    assert found.limit == USL
    assert CapacityReason.THROUGHPUT_PLATEAU in found.reasons
    assert found.trust is not Trust.TRUSTED


@pytest.mark.parametrize("seed", range(4))
def test_growing_throughput_is_no_plateau(seed: int) -> None:
    """Up to the knee, and at low loads; nor do occasional pile-ups make one."""
    assert find_plateau(day(35.0, seed)) is None
    assert find_plateau(day(12.0, seed)) is None
    seen = day(35.0, seed)
    n = seen.concurrency.copy()
    n[np.random.default_rng(seed).choice(INTERVALS, INTERVALS // 20, replace=False)] *= 4
    piled = Observations.of(seen.at, seen.throughput, n, resources=seen.resources)
    assert find_plateau(piled) is None
    assert CapacityReason.THROUGHPUT_PLATEAU not in assess_capacity(piled).reasons


def test_a_full_resource_along_the_plateau_is_the_limit() -> None:
    """Nothing else holds the throughput."""
    found = assess_capacity(day(120.0, 1, full_at=0.98 * END))
    assert CapacityReason.THROUGHPUT_PLATEAU not in found.reasons
    assert found.value == pytest.approx(END, rel=0.06)
    assert found.limit == "cpu"


def test_uncertain_concurrency_shows_no_plateau() -> None:
    """Few samples of Threads_running vary by themselves as much."""
    seen = day(200.0, 2)
    noisy = Observations.of(
        seen.at,
        seen.throughput,
        seen.concurrency,
        n_variance=(0.3 * seen.concurrency) ** 2,
        resources=seen.resources,
    )
    assert find_plateau(noisy) is None


@pytest.mark.parametrize("cores", [1, 2, 8])
@pytest.mark.parametrize("noise", [0.1, 0.2, 0.3])
def test_scattered_residence_times_make_no_plateau(cores: int, noise: float) -> None:
    """Up to 45 % of the processors' limit statements take longer at times: others delay them."""
    server = erlang_server("open", cores, wait=0.0005)
    for seed in range(8):
        seen = simulate_day(
            server, DaySettings(0.45, noise=noise), np.random.default_rng([62, seed])
        )
        assert find_plateau(seen) is None, seed


@pytest.mark.parametrize("seed", range(4))
def test_a_plateau_is_found_where_residence_times_scatter(seed: int) -> None:
    """Concurrency is far more than a scatter of a tenth explains."""
    seen = day(200.0, seed)
    scatter = np.exp(np.random.default_rng([63, seed]).normal(0, 0.1, INTERVALS))
    scattered = Observations.of(
        seen.at, seen.throughput, seen.concurrency * scatter, resources=seen.resources
    )
    assert find_plateau(scattered) == pytest.approx(END, rel=0.02)


def test_a_serial_limit_needs_more_than_one_statement() -> None:
    """On a real server at two thirds of its capacity: 0.7 to 2.4 at once, the same throughput."""
    rng = np.random.default_rng(64)
    x = np.concatenate((np.linspace(200, 900, 60), rng.uniform(960, 1000, 40)))
    n = np.concatenate((0.0007 * x[:60] * np.exp(rng.normal(0, 0.05, 60)), np.full(40, 0.7)))
    n[-15:] = np.linspace(1.5, 2.4, 15)
    at = SECONDS * np.arange(1, 101)
    assert find_plateau(Observations.of(at, x, n)) is None
    assert find_plateau(Observations.of(at, x, 2 * n)) == pytest.approx(980, rel=0.02)


def test_statements_waiting_for_a_processor_make_no_plateau() -> None:
    """Their queue has a limit of its own, and is for no lock."""
    seen = day(200.0, 3)
    queue = np.maximum(seen.concurrency - 0.9 * KNEE, 0.0)
    cpu = replace(seen.resource("cpu"), waiting=queue)
    assert find_plateau(seen) == pytest.approx(END, rel=0.02)
    assert find_plateau(replace(seen, resources=(cpu,))) is None


def test_other_programs_make_no_plateau() -> None:
    """They take two fifths of the processors for hours: more at once at half of the capacity."""
    known = server_month("neighbours", 8002)
    until = int(20.83 * PER_DAY)
    seen = known.day_until(until)
    assert 0.02 < float(np.mean(seen.beside_other_programs)) < 0.05
    assert not any(resource.filled_by_others.any() for resource in seen.resources)
    assert find_plateau(seen) is None
    found = assess_capacity(seen)
    truth = float(known.room[until]) * known.server.capacity
    assert found.value == pytest.approx(truth, rel=0.05)
    assert CapacityReason.THROUGHPUT_PLATEAU not in found.reasons


def test_statements_on_all_connections_show_the_end_though_few_intervals_have_them() -> None:
    """In 13 minutes of a day more was asked for than a lock lets through: the CPU allows 38 % more.

    Throughput was 5 % higher in these, and there were four times as many statements.
    """
    known = server_month("growth", 9002)
    until = int(21.79 * PER_DAY)
    found = assess_capacity(known.day_until(until))
    truth = known.server.capacity
    assert found.value == pytest.approx(truth, rel=0.03)
    assert found.limit == USL
    assert min(r.x_max for r in found.resource_limits if r.x_max is not None) > 1.3 * truth


def test_a_saturation_of_the_day_before_is_remembered() -> None:
    """Ten minutes of it, 21 hours ago: the hours before and after had the same throughput."""
    known = server_month("growth", 9002)
    found = assess_capacity(known.day_until(int(22.683 * PER_DAY)))
    truth = known.server.capacity
    assert found.value == pytest.approx(truth, rel=0.03)
    assert found.lower is not None
    assert found.lower < truth
    assert CapacityReason.THROUGHPUT_PLATEAU in found.reasons


def test_a_constant_load_shows_no_plateau() -> None:
    """Intervals of one throughput do not show how much residence times vary below it."""
    rng = np.random.default_rng(65)
    x, n = rng.uniform(970, 1000, 60), 5 * np.exp(rng.normal(0, 0.3, 60))
    assert find_plateau(Observations.of(SECONDS * np.arange(1, 61), x, n)) is None


def test_a_plateau_is_the_capacity_though_the_law_fits() -> None:
    """A lock that is held the longer, the more wait: through its flat end the law peaks above."""
    known = server_month("launch", 7002)
    until = int(22.9 * PER_DAY)
    found = assess_capacity(known.day_until(until))
    truth = float(known.room[until]) * known.server.capacity
    assert found.usl is not None
    assert found.usl.trust is Trust.TRUSTED
    assert found.usl.x_max is not None
    assert found.usl.x_max > 1.05 * truth
    assert found.value == pytest.approx(truth, rel=0.03)
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < truth < found.upper


def test_a_busy_resource_is_the_limit_though_an_interval_is_unknown() -> None:
    """The processor is nearly full along the plateau: without one of its readings too."""
    seen = day(200.0, 1, full_at=1.05 * END)
    assert find_plateau(seen, "cpu") is None
    u = seen.resource("cpu").utilisation.copy()
    u[np.argmax(seen.concurrency)] = np.nan
    gap = replace(seen, resources=(replace(seen.resource("cpu"), utilisation=u),))
    assert find_plateau(gap, "cpu") is None


def test_a_busy_processor_without_a_queue_is_not_the_limit() -> None:
    """Nearly all statements wait for locks while it is 93 % used: more of them serve no more."""
    seen = day(200.0, 1, full_at=1.04 * END)
    cpu = seen.resource("cpu")
    counted = replace(seen, resources=(replace(cpu, waiting=np.minimum(seen.concurrency, 4.0)),))
    assert float(np.max(cpu.utilisation)) > 0.9
    assert find_plateau(counted, "cpu") == pytest.approx(END, rel=0.02)
    found = assess_capacity(counted)
    assert found.value == pytest.approx(END, rel=0.05)
    assert CapacityReason.THROUGHPUT_PLATEAU in found.reasons
