"""Writes of the log that more and more commits share: what a query costs falls, and it is seen."""

import numpy as np
import pytest
from woken_servers import committing_server

from models.capacity.assess import assess_capacity
from models.capacity.resource_and_limit import Resource
from models.capacity.resource_limits import find_resource_limits
from models.capacity.shared_cost import SharedCost
from models.trust import Trust

SEEDS = range(6)
UPDATES = (100e-6, 100e-6, 300e-6)
"""Seconds: of a statement, of a write of the log on the processor, and until it is on disk. As a
MySQL 9.7 was seen to take for inserts with sync_binlog = 1."""


@pytest.mark.parametrize("upto", [0.5, 0.7, 0.9])
def test_shared_log_writes_are_extrapolated_from_low_loads(upto: float) -> None:
    """The interval holds the capacity, and no trusted one is off by more than 15 %."""
    off = []
    for seed in SEEDS:
        seen, truth = committing_server(*UPDATES, upto, seed=seed, is_measured=True)
        found = assess_capacity(seen)
        assert found.value is not None
        assert found.lower is not None
        assert found.upper is not None
        assert found.lower < 1.05 * truth
        assert truth < 1.05 * found.upper
        off.append(abs(found.value / truth - 1))
        assert found.trust is not Trust.TRUSTED or off[-1] < 0.15
    assert np.median(off) < 0.12


def test_log_writes_without_commits_do_not_count() -> None:
    """A server of reads writes its log once a second: the limit is as without a count."""
    x = np.linspace(100.0, 900.0, 60)
    u = 0.001 * x * (1 + 0.01 * np.sin(np.arange(60)))
    plain = Resource("server_cpu", u, own=u)
    counted = Resource("server_cpu", u, own=u, log_writes=np.ones(60)).with_shared_costs(x, x)
    found = [find_resource_limits(x, [resource])[0].x_max for resource in (plain, counted)]
    assert found[1] == pytest.approx(found[0], rel=0.005)


def test_the_spared_share_is_that_of_the_commits_beyond_the_first() -> None:
    """Two writes for each commit at low loads, and one for five of them at the end."""
    x = np.array([100.0, 110.0, 200.0, 300.0, 400.0, 500.0, 1000.0])
    writes = np.array([200.0, 220.0, 400.0, 540.0, 500.0, 400.0, 200.0])
    found = SharedCost.of(x, writes)
    assert found is not None
    assert found.per_query == pytest.approx(1.9, abs=0.11)
    assert found.saved[-1] == pytest.approx(1 - 0.2 / found.per_query)
    assert np.all(np.diff(found.saved) >= 0)


def test_background_log_writes_are_no_cost_of_queries() -> None:
    """A few queries beside fifty writes a second, at night: the cost is that by day."""
    x, writes = np.linspace(300.0, 1000.0, 20), np.full(20, 300.0)
    idle = np.full(10, 1.0)
    found = SharedCost.of(np.concatenate((idle, x)), np.concatenate((50 * idle, writes)))
    alone = SharedCost.of(x, writes)
    assert found is not None
    assert alone is not None
    assert found.per_query == pytest.approx(alone.per_query)


def test_the_share_is_smoothed_along_a_curve_of_the_load() -> None:
    """A curve that bends twice is kept as it is, and noise around it is not."""
    t = np.linspace(0.0, 1.0, 200)
    curve = 0.1 + 0.4 * (3 * t**2 - 2 * t**3)
    noise = np.random.default_rng(8).normal(0, 0.05, 200)
    for saved, off in ((curve, 1e-9), (curve + noise, 0.03)):
        found = SharedCost(saved, 1.0).smoothed(t, np.zeros(200), np.ones(200))
        assert np.abs(found.saved - curve).max() < off
