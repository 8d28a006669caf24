"""What was served was possible: bursts above a predicted capacity refute it."""

from dataclasses import replace

import numpy as np
import pytest
from capacity_days import observed, residing, tide

from models.arrays import Array
from models.capacity.assess import assess_capacity
from models.capacity.highest_throughput_likelihood import (
    cost_variation,
    likelihood,
)
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import Resource
from models.shared_constants import (
    FALSE_SIGN_PROBABILITY,
    QUERY_VARIATION,
)
from models.trust import Trust
from testbed.simulated.servers import erlang_server, law_server

SERVER = erlang_server("eight", 8, wait=0.004)


def served(x: Array, noise: float = 0.01) -> Observations:
    """Intervals of these throughputs, each query costing about a thousandth of the processor."""
    rng = np.random.default_rng(4)
    u = x / 1000 * np.exp(rng.normal(0, noise, len(x)))
    at = 15.0 * np.arange(1, len(x) + 1)
    return Observations.of(at, x, x / 100, resources=[Resource("cpu", u)])


def test_capacities_above_the_observed_throughput_are_equally_likely() -> None:
    """Below it, the less likely the more intervals are above; one alone may be chance."""
    steady = np.full(200, 300.0)
    p = likelihood(np.log([300.0, 400.0, 900.0]), served(steady), "cpu")
    assert p == pytest.approx(1.0, abs=0.05)
    for bursts in (1, 2, 3):
        x = np.append(steady, np.full(bursts, 600.0))
        far_below, far_above = likelihood(np.log([400.0, 700.0]), served(x), "cpu")
        assert far_below == pytest.approx(FALSE_SIGN_PROBABILITY**bursts, rel=0.1)
        assert far_above == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("seed", range(8))
def test_a_full_server_keeps_its_capacity_likely(seed: int) -> None:
    """The highest of many that vary by chance lie above the capacity, which stays likely."""
    x = 500 * np.exp(np.random.default_rng(seed).normal(0, 0.03, 300))
    p = likelihood(np.log([450.0, 500.0, 550.0]), served(x), "cpu")
    assert p[1] > 0.4
    assert p[0] < 0.1 * p[1]


def test_varying_costs_make_it_less_certain() -> None:
    """A burst of cheap queries is possible where costs vary, and hardly where they do not."""
    x = np.append(np.linspace(100, 500, 200), [620.0, 630.0, 640.0])
    sure, unsure = served(x), served(x, noise=0.2)
    assert cost_variation(sure, "cpu") == QUERY_VARIATION
    assert cost_variation(unsure, "cpu") == pytest.approx(0.2, rel=0.3)
    below = np.log([520.0])
    assert likelihood(below, sure, "cpu")[0] < 0.2 * likelihood(below, unsure, "cpu")[0]
    blind = replace(sure, resources=(Resource("cpu", np.full(len(x), np.nan)),))
    assert cost_variation(blind, "cpu") == 0.11


@pytest.mark.parametrize("seed", range(6))
def test_queries_that_waited_for_a_while_do_not_hide_what_was_served(seed: int) -> None:
    """Half of the high loads waited for something else, so that the law peaks right there.

    The others were served without delay, at loads that such a peak would forbid.
    """
    rng = np.random.default_rng([31, seed])
    share = tide(0.62, rng)
    n = residing(SERVER, share) * np.exp(rng.normal(0, 0.02, len(share)))
    slow = (share > 0.4) & (np.arange(len(share)) < len(share) // 2)
    n = np.where(slow, n * (1 + 2 * (share - 0.4)), n)
    burst = rng.choice(np.flatnonzero(share > 0.5), 4, replace=False)
    share[burst], n[burst] = 0.85, residing(SERVER, np.array(0.85))
    seen = observed(SERVER, share, n, rng)
    found = assess_capacity(seen)
    assert found.trust is not Trust.TRUSTED
    assert found.upper is not None
    assert found.upper > 0.85 * SERVER.capacity


def test_a_steep_law_is_not_taken_for_a_burst() -> None:
    """A server measured up to its peak keeps its capacity."""
    server = law_server("law", 0.02, 0.0005)
    rng = np.random.default_rng(3)
    share = tide(0.97, rng)
    found = assess_capacity(observed(server, share, residing(server, share), rng))
    assert found.value == pytest.approx(server.capacity, rel=0.05)
