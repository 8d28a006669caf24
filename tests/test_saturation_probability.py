"""The probability that a load saturates the server, from the capacity's own distribution."""

from dataclasses import replace

import numpy as np
import pytest
from law_windows import WAVES, intervals, known, seen_at, with_resources

from agent.assessment.snapshot import Snapshot
from agent.export.page import render
from agent.export.snapshot_json import target_object
from agent.what_if.current_state import current_state_of
from models.capacity.distribution import Distribution
from models.capacity.headroom import Headroom
from models.capacity.result import Capacity, CapacityReason
from models.capacity.saturation_probability import (
    GROWTHS,
    saturation_probability,
    saturation_soon,
)
from models.forecast.next_hour import STEP_SECONDS, Rise
from models.shared_constants import TOLERATED_CHANGE
from models.trust import Trust
from models.what_if.uncertainty_draws import draws_of

BELOW = Headroom(0.3, overloaded=False, overload_loss=0.0)
WIDE = Distribution.of_quantiles(500, 1000, 4000)
STEADY = {3: Rise(np.zeros(1)), 12: Rise(np.zeros(1))}
"""The load has not risen at this time of earlier days."""


def capacity(*reasons: CapacityReason, known: Distribution | None = WIDE) -> Capacity:
    """One that is known within a factor of eight, with these reasons against it."""
    shares, trust = {"cpu": 1.0}, Trust.NOT_IDENTIFIABLE
    return Capacity(1000, 500, 4000, "cpu", shares, trust, reasons, 800.0, None, distribution=known)


def served(throughput: float) -> Snapshot:
    """A server on a known law whose processor is full at 6000 queries/s, and its latest load."""
    rows = with_resources(intervals(WAVES), cpu=1 / 6000)
    rows[-1] = rows[-1]._replace(throughput=throughput, resources={"cpu": throughput / 6000})
    return known(rows)


def test_a_distribution_has_its_quantiles() -> None:
    """At most 5 and 95 of a hundred such capacities lie below its bounds, and back."""
    limit = Distribution.of_quantiles(900, 1000, 1300)
    assert limit.at_most(np.array([0.0, 900.0, 1000.0, 1300.0, 1e9])) == pytest.approx(
        [0, 0.05, 0.5, 0.95, 1], abs=1e-3
    )
    assert limit.quantiles([0.05, 0.5, 0.95]) == pytest.approx([900, 1000, 1300], rel=1e-3)
    assert limit.median == pytest.approx(1000, rel=1e-3)


def test_the_probability_is_capped_at_the_distributions_end() -> None:
    """If the distribution ends at 60 %, a far higher load has 60 %, not 100 %."""
    limit = Distribution(np.log([100.0, 200.0]), np.array([0.0, 0.6]))
    assert limit.at_most(np.array([200.0, 1e6])) == pytest.approx([0.6, 0.6])
    assert limit.quantiles([0.9]) == pytest.approx([200.0])


def test_a_wide_interval_still_gives_probabilities() -> None:
    """Of a capacity that is not identifiable, but bounded."""
    found = dict(saturation_probability(capacity(CapacityReason.WIDE_INTERVAL), 1000, BELOW))
    assert tuple(found) == GROWTHS
    assert found[1.0] == pytest.approx(0.5, abs=0.01)
    assert found[1.0] < found[1.1] < found[1.25] < found[1.5] < 0.8


@pytest.mark.parametrize(
    "reason",
    [
        CapacityReason.MODEL_DOES_NOT_FIT,
        CapacityReason.RECENT_COST_DIFFERS,
        CapacityReason.LAW_DOES_NOT_FIT,
        CapacityReason.NO_LIMIT_SEEN,
    ],
)
def test_a_contradicted_model_has_no_probability(reason: CapacityReason) -> None:
    """Where the interval itself is refuted."""
    assert saturation_probability(capacity(reason), 1000, BELOW) == ()
    assert saturation_soon(capacity(reason), 1000, STEADY, BELOW) == ()


def test_unknown_and_refuted_capacities_have_no_probability() -> None:
    """Without a distribution, without headroom, and where the load refutes it."""
    refuted = Headroom(-TOLERATED_CHANGE - 0.01, overloaded=False, overload_loss=0.0)
    for found, now in ((capacity(known=None), BELOW), (capacity(), None), (capacity(), refuted)):
        assert saturation_probability(found, 1000, now) == ()
        assert saturation_soon(found, 1000, STEADY, now) == ()


def test_past_the_peak_the_probability_is_one() -> None:
    """An overloaded server with little throughput is saturated, not idle."""
    past = Headroom(-0.5, overloaded=True, overload_loss=0.6)
    assert set(dict(saturation_probability(capacity(), 400, past)).values()) == {1.0}
    soon = saturation_soon(capacity(), 400, STEADY, past)
    assert soon == ((3 * STEP_SECONDS, 1.0), (12 * STEP_SECONDS, 1.0))


def test_an_assessed_server_agrees_with_its_own_interval() -> None:
    """At the bounds of an assessed capacity the probabilities are 5 and 95 %."""
    found = served(3000.0).assessed.capacity
    assert found is not None
    assert found.distribution is not None
    assert found.lower is not None
    assert found.upper is not None
    reached = found.distribution.at_most(np.array([found.lower, found.upper]))
    assert reached == pytest.approx([0.05, 0.95], abs=0.01)


def test_draws_of_a_capacity_without_an_upper_bound_agree_with_the_probability() -> None:
    """Also there SLAs and what-if questions start from the capacity's own distribution."""
    snapshot, now = served(3000.0), seen_at(with_resources(intervals(WAVES)))
    found = snapshot.assessed.capacity
    assert found is not None
    open_above = Distribution(np.log([2000.0, 4000.0, 5000.0]), np.array([0.0, 0.3, 0.6]))
    unbounded = replace(found, upper=None, distribution=open_above)
    snapshot = replace(snapshot, assessed=replace(snapshot.assessed, capacity=unbounded))
    drawn = draws_of(current_state_of(snapshot, now)).capacity
    likely = snapshot.saturation_probability(now)
    assert [p for _, p in likely] == pytest.approx([0.176, 0.217, 0.272, 0.458], abs=0.001)
    for growth, probability in likely:
        assert np.mean(drawn <= growth * 3000.0) == pytest.approx(probability, abs=0.002)


def test_json_and_page_show_the_probability() -> None:
    """The snapshot has four, the page a sentence; a stale one has neither."""
    snapshot = served(4200.0)
    now = seen_at(with_resources(intervals(WAVES)))
    found = target_object(snapshot, now)["capacity"]["saturation_probability"]
    assert list(found) == ["1", "1.1", "1.25", "1.5"]
    assert found == {f"{g:g}": p for g, p in snapshot.saturation_probability(now)}
    assert list(found.values()) == sorted(found.values())
    assert "probability at this load; at 10 % more: " in render([snapshot], now)
    assert snapshot.saturation_probability(now + 1000) == ()
    down = replace(snapshot, load=None)
    assert target_object(down, now)["capacity"]["saturation_probability"] is None
