"""The capacity: the lower of limits and contention's peak, with an interval, a limit and trust."""

from dataclasses import replace

import numpy as np
import pytest
from capacity_days import day, explained_well, numbers, without_concurrency

from models.capacity.assess import assess_capacity
from models.capacity.goodness_of_fit import Check
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import LimitReason, Resource
from models.capacity.result import USL, CapacityReason
from models.trust import Trust
from models.usl.law import Usl
from testbed.simulated.day_scenarios import DaySettings, simulate_day
from testbed.simulated.servers import queueing_server

LAW = Usl(0.02, 0.0005, 1000.0)


def test_a_processor_limit_below_the_laws_peak_is_the_limit() -> None:
    """The processor is full at 60 % of the law's peak: it is the limit, within 3 %."""
    truth, seen = day(DaySettings(0.8), full_at=0.6)
    found = assess_capacity(seen)
    assert found.trust is Trust.TRUSTED
    assert found.limit == "cpu"
    assert found.value == pytest.approx(truth, rel=0.03)
    low, _, high = numbers(found)
    assert low < truth < high


def test_contention_before_any_full_resource_is_the_limit() -> None:
    """The processor would last for twice as much: the law is the limit, within 6 %."""
    truth, seen = day(DaySettings(0.9), full_at=2.0)
    found = assess_capacity(seen)
    assert found.trust is Trust.TRUSTED
    assert found.limit == USL
    assert found.value == pytest.approx(truth, rel=0.06)


def test_far_below_the_capacity_there_is_an_untrusted_interval() -> None:
    """Below a third of the capacity contention may still come, which the lower bound has."""
    truth, seen = day(DaySettings(0.3), full_at=0.8)
    found = assess_capacity(seen)
    assert found.trust is not Trust.TRUSTED
    assert CapacityReason.LOAD_TOO_LOW in found.reasons
    low, value, high = numbers(found)
    assert low < 0.8 * value
    assert low < truth < high
    assert found.settling_throughput is not None
    assert found.x_seen < found.settling_throughput < value


def test_reaching_the_settling_load_makes_the_capacity_trusted() -> None:
    """A day up to the requested load is trusted, and right."""
    truth, seen = day(DaySettings(0.4), full_at=0.8)
    asked = assess_capacity(seen).settling_throughput
    assert asked is not None
    _, more = day(DaySettings(asked / truth), full_at=0.8)
    found = assess_capacity(more)
    assert found.trust is Trust.TRUSTED
    assert found.value == pytest.approx(truth, rel=0.05)


def test_without_concurrency_the_resource_limits_count() -> None:
    """Near the limit, a capacity without any law; the reason says what is missing."""
    truth, seen = day(DaySettings(0.9), full_at=0.6)
    found = assess_capacity(without_concurrency(seen))
    assert found.value == pytest.approx(truth, rel=0.05)
    assert found.usl is None
    assert CapacityReason.CONCURRENCY_UNKNOWN in found.reasons


def test_two_threads_running_refuse_the_law_and_not_the_limit() -> None:
    """The white paper's almost random data: no law, a limit with an interval."""
    server = queueing_server("small", 2, sleep=0.0005)
    seen = simulate_day(server, DaySettings(0.7, samples=15), np.random.default_rng(3))
    found = assess_capacity(seen)
    assert found.usl is None
    assert found.usl_finding is not None
    assert found.usl_finding.check is Check.LOW_CONCURRENCY
    assert found.value == pytest.approx(server.capacity, rel=0.1)


def test_without_limits_a_trusted_law_is_the_capacity() -> None:
    """Measured beyond its peak it is trusted by itself: within 3 %, without any resource."""
    rng = np.random.default_rng(4)
    n = 1 + 40 * (1 - np.cos(np.arange(200) / 8))
    x = LAW.throughput(n) * np.exp(rng.normal(0, 0.02, len(n)))
    found = assess_capacity(Observations.of(15.0 * np.arange(len(n)), x, n))
    assert found.usl is not None
    assert found.usl.trust is found.trust is Trust.TRUSTED
    assert (found.value, found.limit) == (found.usl.x_max, USL)
    assert found.value == pytest.approx(LAW.x_max, rel=0.03)
    assert found.reasons == (CapacityReason.NO_RESOURCE_LIMIT,)


def test_without_limits_an_uncertain_law_is_indicative() -> None:
    """Below its peak only the law predicts the capacity, with its uncertainty."""
    truth, seen = day(DaySettings(0.98))
    found = assess_capacity(replace(seen, resources=()))
    assert found.usl is not None
    assert found.usl.trust is found.trust is Trust.INDICATIVE
    assert (found.value, found.limit) == (found.usl.x_max, USL)
    assert {CapacityReason.NO_RESOURCE_LIMIT, CapacityReason.LAW_UNCERTAIN} <= set(found.reasons)
    assert found.value == pytest.approx(truth, rel=0.15)


def test_without_limits_and_far_below_there_is_a_lower_bound_only() -> None:
    """At least this much, without a value that could be mistaken for the capacity."""
    truth, seen = day(DaySettings(0.2))
    found = assess_capacity(replace(seen, resources=()))
    assert found.value is None
    assert found.upper is None
    assert found.limit is None
    assert found.trust is Trust.NOT_IDENTIFIABLE
    assert found.lower is not None
    assert 0 < found.lower < truth
    assert CapacityReason.NO_LIMIT_SEEN in found.reasons


def test_a_processor_that_became_faster_is_a_limit_where_it_would_be_full() -> None:
    """At last it serves more, 88 % used, than its limit by the costs before: the limit is at X/U.

    So few intervals are not recognised as a change of the cost.
    """
    rng = np.random.default_rng(3)
    x = np.append(rng.uniform(100, 850, 140), rng.uniform(1100, 1200, 9))
    used = np.append(x[:140] / 1000, 0.88 * x[140:] / 1150) * rng.normal(1, 0.01, 149)
    cpu = Resource("cpu", used, own=used)
    found = assess_capacity(Observations.of(15.0 * np.arange(149), x, x / 400, resources=[cpu]))
    [limit] = found.resource_limits
    assert limit.x_max == pytest.approx(0.975 * 1150 / 0.88, rel=0.05)
    assert limit.reasons[0] is LimitReason.ALREADY_FULL


def test_a_limit_that_was_exceeded_does_not_count() -> None:
    """Others filled the processor while the throughput rose on: no limit, and no bound."""
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.uniform(200, 700, 25), rng.uniform(1200, 1500, 35)])
    own = np.where(x < 800, 0.02 + x * 0.0003, x * 0.00025)
    others = np.where(x < 800, 0.1 + x * 0.0007, 1 - own)
    order = rng.permutation(60)
    cpu = Resource("cpu", np.clip(own + others, 0, 1)[order], own=own[order])
    n = x / 400 * rng.normal(1, 0.05, 60)
    found = assess_capacity(
        Observations.of(15.0 * np.arange(60), x[order], n[order], resources=[cpu])
    )
    assert found.resource_limits[0].x_max is None
    assert found.resource_limits[0].reasons == (LimitReason.NOT_A_LIMIT,)
    assert "cpu" not in found.shares
    assert found.lower is not None
    assert found.lower >= found.x_seen


@pytest.mark.parametrize("faster", [1.04, 1.07, 1.1])
def test_a_full_processor_that_becomes_faster_stays_the_limit(faster: float) -> None:
    """Its clock rises while it is full: the limit is what is served then, not the next resource."""
    rng = np.random.default_rng(3)
    rising, at_end = np.linspace(200, 980, 60), np.full(12, 1000 * faster)
    x = np.concatenate([rising, at_end]) * np.exp(rng.normal(0, 0.01, 72))
    used = np.concatenate([rising / 1000 * np.exp(rng.normal(0, 0.01, 60)), np.full(12, 0.995)])
    n = np.concatenate([rising / 1000 / (1.05 - rising / 1000), np.full(12, 32.0)])
    host = np.minimum(0.1 + 0.4 * x / 1000, 1.0)
    both = [Resource("server_cpu", np.minimum(used, 1.0)), Resource("cpu", host)]
    found = assess_capacity(Observations.of(2.0 * np.arange(1, 73), x, n, resources=both))
    assert found.limit in ("server_cpu", USL)
    assert found.value == pytest.approx(1000 * faster, rel=0.05)


@pytest.mark.parametrize("most", [100, 150, 250])
def test_beyond_the_peak_the_processor_is_still_the_limit(most: float) -> None:
    """The peak is at 40 threads: from there on throughput falls, and the processor stays full."""
    law, rng = Usl(0.03, 0.97 / 40**2, 1000.0), np.random.default_rng(1)
    peak = float(law.x_max or 0)
    n = 1 + (most - 1) * (0.5 - 0.5 * np.cos(np.arange(300) / 20))
    n = n * np.exp(rng.normal(0, 0.02, 300))
    x = law.throughput(n) * np.exp(rng.normal(0, 0.02, 300))
    used = np.where(n < 40, np.minimum(x / peak, 1), 1.0) * 0.99 * np.exp(rng.normal(0, 0.004, 300))
    own = np.minimum(used, 1)
    cpu = Resource("cpu", own, own=own)
    found = assess_capacity(Observations.of(15.0 * np.arange(300), x, n, resources=[cpu]))
    assert found.limit == "cpu"
    assert found.shares["cpu"] > 0.7
    assert found.value == pytest.approx(peak, rel=0.04)


@pytest.mark.parametrize("spread", [0.05, 0.2, 0.4])
def test_no_trusted_capacity_is_below_the_observed_throughput(spread: float) -> None:
    """A server whose speed varies by periods: the reason says why it is not trusted."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = 1 + 5 * (1.1 - np.cos(np.arange(160) / 2.7)) * rng.uniform(0.3, 0.8, 160)
        slow = np.repeat(np.exp(rng.normal(0, spread, 20)), 8)
        found = assess_capacity(Observations.of(2.0 * np.arange(160), LAW.throughput(n) * slow, n))
        assert found.lower is not None
        assert found.lower >= found.x_seen
        assert found.trust is not Trust.TRUSTED
        explained_well(found)


def test_a_distant_setting_does_not_move_the_prior_of_the_peak() -> None:
    """Connections of which a tenth was used show nothing of the peak; nearly all of them do."""
    _, seen = day(DaySettings(0.6))

    def connections(most: float) -> Observations:
        used = seen.concurrency / (most * seen.concurrency.max())
        return replace(seen, resources=(Resource("connections", used, has_configured_limit=True),))

    far = assess_capacity(connections(10.0))
    alone = assess_capacity(replace(seen, resources=()))
    assert (far.value, far.lower, far.trust) == (alone.value, alone.lower, alone.trust)
    near = assess_capacity(connections(1.1))
    assert near.shares["connections"] > 0.3


def test_the_lowest_of_several_limits_counts() -> None:
    """The disk is full before the processor: it is the limit."""
    truth, seen = day(DaySettings(0.7), full_at=0.6)
    cpu = seen.resources[0]
    near = replace(cpu, name="io", ceiling=0.8)
    found = assess_capacity(replace(seen, resources=(cpu, near)))
    assert found.limit == "io"
    assert found.value == pytest.approx(0.8 * truth, rel=0.12)


@pytest.mark.parametrize("used", [0.06, 0.15, 0.3])
def test_an_unbounded_limit_is_left_out(used: float) -> None:
    """A slightly busy disk: if it has many channels it would last for 64 times as much."""
    _, seen = day(DaySettings(0.8), full_at=0.6)
    cpu = seen.resources[0]
    disk = Resource("disk", used * seen.throughput / seen.throughput.max(), is_busy_time=True)
    alone = assess_capacity(replace(seen, resources=(cpu,)))
    found = assess_capacity(replace(seen, resources=(cpu, disk)))
    assert found.resource_limits[1].x_max_interval is not None
    assert found.resource_limits[1].x_max_interval.ratio > 12
    assert found.shares == pytest.approx(alone.shares)
    assert numbers(found) == pytest.approx(numbers(alone))
    assert assess_capacity(replace(seen, resources=(disk,))).limit != "disk"


def test_the_shares_of_the_limits_sum_to_one() -> None:
    """Each limit has its probability to be the one."""
    found = assess_capacity(day(DaySettings(0.6))[1])
    assert set(found.shares) == {"cpu", "disk", USL}
    assert sum(found.shares.values()) == pytest.approx(1)


def test_scaling_the_throughput_scales_only_the_capacity() -> None:
    """Ten times the queries: ten times λ, Xmax, limits and capacity; the same limit and trust."""
    _, seen = day(DaySettings(0.8))
    one, ten = (
        assess_capacity(seen),
        assess_capacity(replace(seen, throughput=10 * seen.throughput)),
    )
    assert numbers(ten) == pytest.approx(10 * numbers(one), rel=1e-3)
    assert (one.limit, one.trust, one.reasons) == (ten.limit, ten.trust, ten.reasons)
    assert one.usl is not None
    assert ten.usl is not None
    assert ten.usl.law.lam == pytest.approx(10 * one.usl.law.lam, rel=1e-3)
    assert [w.x_max for w in ten.resource_limits] == pytest.approx(
        [10 * (w.x_max or 0) for w in one.resource_limits]
    )
    assert [o.index for o in one.outliers.removed] == [o.index for o in ten.outliers.removed]  # type: ignore[union-attr]


def test_the_resources_ceiling_must_be_positive_and_times_must_rise() -> None:
    """Mistakes of the caller are errors, not results."""
    with pytest.raises(ValueError, match="ceiling"):
        Observations.of([1.0], [1.0], [1.0], resources=[Resource("cpu", np.ones(1), 0.0)])
    with pytest.raises(ValueError, match="decrease"):
        Observations.of([2.0, 1.0], [1.0, 1.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="one value"):
        Observations.of([1.0, 2.0], [1.0], [1.0, 1.0])
