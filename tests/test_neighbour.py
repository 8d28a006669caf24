"""A real server beside a neighbour that keeps a processor busy: `bench/neighbour.py`'s recordings.

At full load the scheduler divides the processors between both, so that the server gets more of them
than the neighbour leaves idle now, but between control groups of equal weight hardly more. Which of
the two holds is not known before.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.pipeline import observations
from agent.window.concurrency import ConcurrencySource
from models.capacity.assess import assess_capacity
from models.capacity.distribution import Distribution
from models.capacity.estimate import Estimate
from models.capacity.observations import Observations
from models.capacity.present_use_by_others import lower_bound_at_present, remaining_share_at_present
from models.capacity.resource_and_limit import Resource
from models.capacity.resource_limits import find_resource_limits
from models.trust import Trust
from testbed.recorded.peak_predictions import saved, seen_below
from testbed.simulated.server_months import server_month

FIXTURES = Path(__file__).parent / "fixtures"
RECORDED = FIXTURES / "neighbour"
OTHERS = FIXTURES / "neighbour-others"
BESIDE = 1
RUNS = sorted(path.name for path in RECORDED.iterdir())


@pytest.mark.parametrize("run", RUNS)
def test_the_interval_beside_a_neighbour_holds_the_clients_throughput(run: str) -> None:
    """In four of five rounds; nothing is trusted, neither beside it nor before or after."""
    seen, held = saved(RECORDED / run), []
    for one in seen["rounds"]:
        found = assess_capacity(
            observations(seen_below(seen, one), ConcurrencySource.STATEMENT_TIME)
        )
        assert found.trust is not Trust.TRUSTED
        if one["part"] == BESIDE:
            assert found.lower is not None
            assert found.lower > 0.4 * one["truth"]
            held.append(found.lower < one["truth"] < (found.upper or np.inf))
    assert len(held) == 5
    assert sum(held) >= 4


@pytest.mark.parametrize(("run", "above"), [("mariadb", 1.0), ("services", 1.2)])
def test_beside_one_that_keeps_what_it_takes_nothing_is_trusted(run: str, above: float) -> None:
    """And the interval begins at about what the clients got, in all rounds but the last.

    It begins higher where the server had just served more than the clients got in three seconds.
    """
    seen = saved(OTHERS / f"{run}.json.gz")
    beside = [one for one in seen["rounds"] if one["part"] == BESIDE]
    assert len(beside) == 5
    for one in beside[:4]:
        found = assess_capacity(
            observations(seen_below(seen, one), ConcurrencySource.STATEMENT_TIME)
        )
        assert found.trust is not Trust.TRUSTED
        assert found.lower is not None
        assert 0.4 * one["truth"] < found.lower < above * one["truth"]


BEGINS = 0.2
"""Of the processors: a simulated neighbour begins to use them."""


@pytest.mark.parametrize("seed", [6000, 6001, 6002])
def test_a_new_neighbour_widens_the_interval(seed: int) -> None:
    """Four minutes after it began: from what it leaves to the capacity before."""
    known = server_month("neighbours", seed)
    begins = np.flatnonzero(np.diff(known.monthly_load.others) > BEGINS) + 1
    assert len(begins) >= 3
    for begun in begins.tolist():
        before, found = (assess_capacity(known.day_until(begun + after)) for after in (-1, 4))
        left = float(known.room[begun + 3]) * known.server.capacity
        assert found.lower is not None
        assert 0.6 * left < found.lower < 1.02 * left < 0.9 * (found.upper or 0.0)
        assert found.upper == pytest.approx(before.upper, rel=0.05)
        assert found.value is not None
        assert found.value == pytest.approx(before.value, rel=0.05)
        assert found.trust is not Trust.TRUSTED


def test_a_neighbour_at_high_loads_is_not_taken_for_query_work() -> None:
    """Some minutes after it ended the capacity is within 12 % again: it was 43 % too low."""
    known, end = server_month("neighbours", 9100), 36040
    assert np.ptp(known.monthly_load.others[end - 20 : end]) > 2 * BEGINS
    found, truth = assess_capacity(known.day_until(end)), known.server.capacity
    assert found.value == pytest.approx(truth, rel=0.12)
    assert found.distribution is not None
    assert found.distribution.at_most(0.8 * truth) < 0.5


def test_the_lower_bound_allows_for_what_others_use() -> None:
    """The median stays; the 5 % quantile is 0.6 times what it was, within 2 %."""
    capacity = Distribution.of_quantiles(900.0, 1000.0, 1150.0)
    lowered = capacity.lowered(0.6)
    assert lowered.quantiles([0.5, 0.95]) == pytest.approx([1000.0, 1150.0], rel=1e-3)
    assert lowered.quantiles([0.05])[0] == pytest.approx(0.6 * 900.0, rel=0.02)
    assert np.all(np.diff(lowered.quantiles(np.linspace(0.01, 0.99, 99))) > 0)
    assert capacity.lowered(1.0).quantiles([0.05])[0] == pytest.approx(900.0, rel=1e-3)


def test_a_constant_neighbour_does_not_lower_the_capacity() -> None:
    """Also with its use unknown for a while; nor does one on a resource that is far from full."""
    x = np.linspace(100.0, 400.0, 60)
    own, steady = 0.001 * x, np.full(60, 0.4)
    unknown = np.where(np.arange(60) < 40, np.nan, own)
    begun = np.where(np.arange(60) < 57, 0.0, 0.4)
    kept = np.arange(60)
    assert remaining_share_at_present(Resource("cpu", own + steady, own=own), x, kept) == 1.0
    assert remaining_share_at_present(Resource("cpu", own + steady, own=unknown), x, kept) == 1.0
    late = np.where(np.arange(60) >= 57, np.nan, own)
    cpu = Resource("cpu", own + begun, own=late)
    assert remaining_share_at_present(cpu, x, kept) == 1.0
    cpu = Resource("cpu", own + begun, own=own)
    assert remaining_share_at_present(cpu, x, kept) == pytest.approx(0.6, abs=0.02)
    seen = Observations.of(np.arange(60.0), x, 1.0, resources=[cpu])
    (limit,) = find_resource_limits(seen.throughput, seen.resources)
    assert limit.x_max is not None
    assert lower_bound_at_present([limit], seen, kept) == pytest.approx(
        0.61 * limit.x_max, rel=0.01
    )
    far = Estimate(200.0, 190.0, 210.0, {}, 180.0, Distribution.of_quantiles(190.0, 200.0, 210.0))
    assert far.lowered(lower_bound_at_present([limit], seen, kept)) == far
    assert far.lowered(120.0).lower < 125.0


@pytest.mark.parametrize("seed", range(8))
def test_beside_a_neighbour_that_fills_the_processor_nothing_is_trusted(seed: int) -> None:
    """The clients' use per query is not seen there: at most the least that others use for one."""
    n = 1 + 11 * (1 - np.cos(np.linspace(0, 12 * np.pi, 240))) / 2
    left = np.exp(np.random.default_rng(seed).normal(0, 0.3, 240))
    x = left * 100 * n / (1 + 0.05 * (n - 1) + 0.01 * n * (n - 1))
    own = 0.0005 * x
    beside = Resource("cpu", np.ones(240), own=own, processors=np.full(240, 2.0))
    seen = Observations.of(np.arange(240.0), x, n, resources=[beside])
    assert np.mean(seen.disturbed_by_others) > 0.7
    assert assess_capacity(seen).trust is not Trust.TRUSTED
    alone = replace(beside, utilisation=0.0012 * x / left, own=0.001 * x / left)
    seen = Observations.of(np.arange(240.0), x / left, n, resources=[alone])
    assert not seen.disturbed_by_others.any()
