"""What a query costs, or how long it takes, changes slowly: no step, no contention, no trust."""

from dataclasses import replace

import numpy as np
import pytest
from capacity_days import INTERVALS, observed, residing, tide

from models.arrays import Array
from models.capacity import cost_curve
from models.capacity.assess import assess_capacity
from models.capacity.change_points import CostChange, Regimes
from models.capacity.cost_curve import CostCurve
from models.capacity.cost_drift import cost_drift
from models.capacity.doubts import CapacityEvidence
from models.capacity.estimate import Estimate
from models.capacity.fluctuation_between_periods import cost_fluctuation, others_fluctuation
from models.capacity.observations import Observations
from models.capacity.outliers import find_outliers
from models.capacity.resource_and_limit import Resource
from models.capacity.result import USL, Capacity, CapacityReason
from models.capacity.trust_gate import judge_capacity
from models.robust_regression import LinearFit, fit_linear
from models.trust import Trust
from testbed.simulated.servers import erlang_server

SERVER = erlang_server("eight", 8, wait=0.004)
WHEN = np.linspace(0, 1, INTERVALS)


def day(cost: Array, seed: int, reach: float = 0.8) -> Observations:
    """Two waves of the load, on which a query costs so many times the usual."""
    rng = np.random.default_rng([12, seed])
    share = tide(reach, rng)
    n = residing(SERVER, share) * np.exp(rng.normal(0, 0.02, INTERVALS))
    seen = observed(SERVER, share, n, rng)
    return replace(seen, throughput=seen.throughput / cost)


def wrong(found: Capacity, truth: float, by: float) -> bool:
    """Whether it is trusted and off by more than that."""
    return found.trust is Trust.TRUSTED and abs((found.value or 0.0) / truth - 1) > by


@pytest.mark.parametrize("total", [0.65, 1.5, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_drifting_mix_is_reported_and_never_trusted_and_far_off(total: float, seed: int) -> None:
    """In a day a query's cost goes to so many times of what it was, too slowly for a step."""
    seen = day(total**WHEN, seed)
    drift = cost_drift(CostCurve.of(seen, "cpu"))
    assert drift * np.log(total) > 0
    assert abs(drift) < abs(np.log(total))
    found = assess_capacity(seen)
    assert not wrong(found, SERVER.capacity / total, 0.15)
    assert {CapacityReason.COST_FLUCTUATES, CapacityReason.MIX_CHANGED} & set(found.reasons)


@pytest.mark.parametrize("seed", range(12))
def test_a_constant_or_hardly_drifting_mix_is_trusted(seed: int) -> None:
    """No drift, and one of 3 % in a day: noise and load alone look like none."""
    for total in (1.0, 1.03):
        seen = day(total**WHEN, seed, reach=0.85)
        assert abs(cost_drift(CostCurve.of(seen, "cpu"))) < 0.07
        found = assess_capacity(seen)
        assert found.trust is Trust.TRUSTED
        assert found.value == pytest.approx(SERVER.capacity / total, rel=0.05)


@pytest.mark.parametrize("phase", np.linspace(0, 6, 5))
def test_a_mix_by_the_hour_is_never_trusted_and_far_off(phase: float) -> None:
    """Queries cost up to 15 % more and less with the time of the day, at its own rhythm."""
    cost = np.exp(0.15 * np.sin(2 * np.pi * WHEN + phase))
    seen = day(cost, 5)
    for end in range(100, INTERVALS + 1, 20):
        found = assess_capacity(seen.select(slice(end)))
        assert not wrong(found, SERVER.capacity / cost[end - 1], 0.25)


@pytest.mark.parametrize("seed", range(6))
def test_a_fluctuating_cost_takes_trust_away(seed: int) -> None:
    """It goes up and down by a fifth from period to period: the next one is not known."""
    rng = np.random.default_rng([14, seed])
    periods = rng.normal(0, 1, INTERVALS // 20)
    seen = day(np.exp(np.repeat(0.2 * periods, 20)), seed)
    assert 0.07 < cost_fluctuation(CostCurve.of(seen, "cpu")) < 0.3
    found = assess_capacity(seen)
    assert CapacityReason.COST_FLUCTUATES in found.reasons
    assert found.trust is not Trust.TRUSTED
    noise = day(np.exp(rng.normal(0, 0.1, INTERVALS)), seed, reach=0.85)
    assert cost_fluctuation(CostCurve.of(noise, "cpu")) < 0.07
    little = day(np.exp(np.repeat(0.035 * periods, 20)), seed, reach=0.85)
    assert cost_fluctuation(CostCurve.of(little, "cpu")) < 0.07
    assert CapacityReason.COST_FLUCTUATES not in assess_capacity(little).reasons


@pytest.mark.parametrize("seed", range(4))
def test_neighbours_that_come_and_go_take_trust_away(seed: int) -> None:
    """Others take 5 % or 40 % of the processor, by the half hour; clients beside it do not."""
    seen = day(np.ones(INTERVALS), seed, reach=0.85)
    rng = np.random.default_rng([15, seed])
    [cpu] = seen.resources

    def with_others(others: Array) -> Observations:
        own = (cpu.relative_own_use - others).clip(0.0)
        more = replace(cpu, utilisation=np.minimum(own + others, 1.0), own=own)
        return replace(seen, resources=(more,))

    periods = np.repeat(rng.permutation(np.tile([0.0, 0.4], 6)), INTERVALS // 12)
    wild = replace(seen, throughput=seen.throughput * (1 - periods))
    own = cpu.relative_own_use * (1 - periods)
    wild = replace(wild, resources=(replace(cpu, utilisation=own + 0.05 + periods, own=own),))
    assert others_fluctuation(wild, "cpu") > 0.07
    found = assess_capacity(wild)
    assert CapacityReason.OTHERS_FLUCTUATE in found.reasons
    assert found.trust is not Trust.TRUSTED
    beside = with_others(0.3 * cpu.relative_own_use)
    assert others_fluctuation(beside, "cpu") < 0.07
    unsteady = with_others(rng.uniform(0, 0.1, INTERVALS))
    assert others_fluctuation(unsteady, "cpu") < 0.07
    assert others_fluctuation(replace(seen, resources=(replace(cpu, own=None),)), "cpu") == 0.0


@pytest.mark.parametrize("seed", range(6))
def test_neighbours_that_halve_the_processor_are_never_trusted_wrongly(seed: int) -> None:
    """By periods of ten minutes: two clusters of costs; the one left out may be the present."""
    rng = np.random.default_rng([16, seed])
    periods = np.repeat(rng.permutation(np.tile([0, 1], 6)), INTERVALS // 12)
    seen = day(np.ones(INTERVALS), seed, reach=0.75)
    speed = np.where(periods, 0.5, 1.0)
    [cpu] = seen.resources
    busy = np.minimum(cpu.relative_own_use, 0.93)
    slowed = replace(cpu, utilisation=busy + 0.02, own=busy)
    seen = replace(seen, throughput=seen.throughput * speed, resources=(slowed,))
    for end in range(200, INTERVALS + 1, 40):
        found = assess_capacity(seen.select(slice(end)))
        assert not wrong(found, SERVER.capacity * speed[end - 1], 0.15)


@pytest.mark.parametrize("cost", [1.2, 1.25, 1.3])
def test_a_recent_rise_of_costs_takes_trust_away_at_once(cost: float) -> None:
    """A deploy ten minutes ago, at a load of half of what was seen."""
    late = np.where(np.arange(INTERVALS) < INTERVALS - 40, 1.0, cost)
    for seed in range(4):
        rng = np.random.default_rng([17, seed])
        share = np.minimum(np.roll(tide(0.85, rng), INTERVALS // 4) * late, 0.97)
        n = residing(SERVER, share) * np.exp(rng.normal(0, 0.02, INTERVALS))
        seen = observed(SERVER, share, n, rng)
        found = assess_capacity(replace(seen, throughput=seen.throughput / late))
        assert not wrong(found, SERVER.capacity / cost, 0.15)


def test_few_or_idle_intervals_show_no_drift() -> None:
    """Nor does a resource that is hardly used, or a setting."""
    seen = day(2.0**WHEN, 1)
    [cpu] = seen.resources
    idle = replace(cpu, name="idle", utilisation=cpu.utilisation / 50, own=None)
    setting = replace(cpu, name="setting", has_configured_limit=True)
    more = replace(seen, resources=(cpu, idle, setting))
    assert cost_drift(CostCurve.of(more, "cpu")) > 0
    assert [cost_drift(CostCurve.of(more, name)) for name in ("idle", "setting")] == [0.0, 0.0]
    wild = replace(seen, throughput=seen.throughput * np.exp(np.sin(np.arange(INTERVALS) / 9)))
    assert cost_fluctuation(CostCurve.of(wild, "cpu")) > 0.07
    assert cost_fluctuation(CostCurve.of(wild.select(slice(24)), "cpu")) == 0.0
    settings = replace(wild, resources=(replace(cpu, has_configured_limit=True),))
    assert cost_fluctuation(CostCurve.of(settings, "cpu")) == 0.0
    assert cost_drift(CostCurve.of(more.select(slice(30)), "cpu")) == 0.0


def test_the_cost_of_a_query_is_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drift, variance and the latest intervals are judged by one curve of the cost."""
    fitted: list[Array] = []

    def counted(design: Array, y: Array, weights: Array, noise: float) -> LinearFit:
        fitted.append(y)
        return fit_linear(design, y, weights, noise)

    monkeypatch.setattr(cost_curve, "fit_linear", counted)
    found = assess_capacity(day(np.ones(INTERVALS), 1, reach=0.85))
    assert found.trust is Trust.TRUSTED
    assert len(fitted) == 1


def warming_up(seed: int) -> tuple[Observations, Array]:
    """A restart at the top of the load: caches fill while it ebbs; and the true capacities."""
    rng = np.random.default_rng([13, seed])
    share = tide(0.75, rng)
    since = np.maximum(np.arange(INTERVALS) - 150, 0) / 25
    cold = np.exp(-since) * (since > 0)
    n = residing(SERVER, share) + share * SERVER.capacity * 0.02 * cold
    seen = observed(SERVER, share, n, rng)
    dearer = 1 + 0.5 * cold
    used = Resource("cpu", np.minimum(seen.resources[0].utilisation * dearer, 1))
    return replace(seen, resources=(used,)), SERVER.capacity / dearer


@pytest.mark.parametrize("seed", range(6))
def test_caches_that_fill_while_the_load_falls_are_no_contention(seed: int) -> None:
    """Residence times fall with the load then: no peak near it is trusted."""
    seen, capacities = warming_up(seed)
    for end in range(160, 440, 10):
        found = assess_capacity(seen.select(slice(end)))
        assert not wrong(found, float(capacities[end - 1]), 0.3)


@pytest.mark.parametrize(
    ("ratio", "limit", "before", "trust"),
    [
        (1.3, USL, 6000.0, Trust.INDICATIVE),
        (0.7, USL, 6000.0, Trust.INDICATIVE),
        (1.3, "cpu", 6000.0, Trust.TRUSTED),
        (5.0, USL, 6000.0, Trust.TRUSTED),
        (1.3, USL, 1500.0, Trust.TRUSTED),
    ],
)
def test_contention_that_an_older_mix_contradicts_is_not_trusted(
    ratio: float, limit: str, before: float, trust: Trust
) -> None:
    """It would end at 1300 queries/s what 6000 were served by, and queries hardly cost more."""
    x = np.repeat([before, 1200.0], 50)
    change = CostChange(50, "cpu", ratio)
    regimes = Regimes(np.arange(100) >= 50, change)
    seen = Observations.of(np.arange(100.0), x, 5.0)
    rising = Observations.of(np.arange(50.0), np.linspace(600, 1250, 50), 5.0)
    evidence = CapacityEvidence(
        seen=seen,
        current=rising,
        kept=rising,
        regimes=regimes,
        outliers=find_outliers(rising),
        nearest=None,
        lowest=None,
        lowest_lower_bound=None,
        law=None,
        finding=None,
        plateau=None,
        estimate=Estimate(1250.0, 1200.0, 1300.0, {limit: 1.0}, 1200.0),
    )
    found = judge_capacity(evidence)
    assert found.trust is trust
    assert (CapacityReason.LAW_DOES_NOT_FIT in found.reasons) == (trust is not Trust.TRUSTED)
    unchanged = judge_capacity(replace(evidence, regimes=Regimes(regimes.current)))
    assert unchanged.trust is Trust.TRUSTED
    assert (found.value, found.limit) == (unchanged.value, unchanged.limit) == (1250.0, limit)
