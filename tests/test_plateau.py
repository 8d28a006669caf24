"""A server at its end, though no resource is full: more statements serve no more."""

import numpy as np
import pytest
from capacity_days import INTERVALS, SECONDS

from agent.pipeline import observations
from agent.window.concurrency import Source
from agent.window.interval_buffer import IntervalBuffer
from models.capacity.assess import assess_capacity
from models.capacity.observations import Observations
from models.capacity.plateau import find_plateau
from models.capacity.resource_limit import Resource
from models.capacity.result import USL, CapacityReason
from models.trust import Trust
from models.usl.law import Array
from testbed.simulated.months import DAY, MINUTE, PER_DAY, month

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
def test_a_plateau_is_the_capacity_and_no_limit_beyond_it(most: float, seed: int) -> None:
    """The processor's limit lies two fifths above; it is told that something else ends it."""
    seen = day(most, seed)
    assert find_plateau(seen) == pytest.approx(END, rel=0.02)
    found = assess_capacity(seen)
    assert found.value == pytest.approx(END, rel=0.05)
    assert found.limit == USL
    assert CapacityReason.THROUGHPUT_PLATEAU in found.reasons
    assert found.trust is not Trust.TRUSTED


@pytest.mark.parametrize("seed", range(4))
def test_where_throughput_still_grows_no_end_was_met(seed: int) -> None:
    """Up to the knee, and at low loads; nor do statements that pile up now and then make one."""
    assert find_plateau(day(35.0, seed)) is None
    assert find_plateau(day(12.0, seed)) is None
    seen = day(35.0, seed)
    n = seen.concurrency.copy()
    n[np.random.default_rng(seed).choice(INTERVALS, INTERVALS // 20, replace=False)] *= 4
    piled = Observations.of(seen.at, seen.throughput, n, resources=seen.resources)
    assert find_plateau(piled) is None
    assert CapacityReason.THROUGHPUT_PLATEAU not in assess_capacity(piled).reasons


def test_a_full_resource_says_itself_where_it_ends() -> None:
    """The processor is full along the plateau: it is the limit, and nothing else holds it up."""
    found = assess_capacity(day(120.0, 1, full_at=0.98 * END))
    assert CapacityReason.THROUGHPUT_PLATEAU not in found.reasons
    assert found.value == pytest.approx(END, rel=0.06)
    assert found.limit == "cpu"


def test_concurrency_that_is_hardly_known_tells_no_plateau() -> None:
    """Few looks at Threads_running vary by themselves as much."""
    seen = day(200.0, 2)
    noisy = Observations.of(
        seen.at,
        seen.throughput,
        seen.concurrency,
        n_variance=(0.3 * seen.concurrency) ** 2,
        resources=seen.resources,
    )
    assert find_plateau(noisy) is None


def test_an_end_that_was_passed_is_the_capacity_though_the_law_fits() -> None:
    """A lock that is held the longer, the more wait: through its flat end the law peaks above."""
    known = month("launch", 7002)
    until = int(22.9 * PER_DAY)
    history = IntervalBuffer(MINUTE, DAY, 1.0)
    history.extend(known.intervals(until - PER_DAY, until), MINUTE * until)
    found = assess_capacity(observations(history.window(MINUTE * until), Source.STATEMENT_TIME))
    truth = float(known.room[until]) * known.server.capacity
    assert found.usl is not None
    assert found.usl.trust is Trust.TRUSTED
    assert found.usl.x_max is not None
    assert found.usl.x_max > 1.05 * truth
    assert found.value == pytest.approx(truth, rel=0.03)
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < truth < found.upper
