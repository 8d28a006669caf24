"""CPU where the server's process cannot be seen: that of its statements."""

import numpy as np
import pytest
from law_windows import SETTINGS, UP, interval, now, seen_at

from agent.assessment.snapshot import AssessmentState, Snapshot
from agent.config.resources import ResourceSettings
from agent.export.limits_table_html import resource_limits_table
from agent.export.snapshot_json import target_object
from agent.pipeline import assess
from agent.window.intervals import Interval, Window, compute_intervals
from agent.window.resource_utilisation import (
    LOG_WRITES,
    OPEN_CONNECTIONS,
    STATEMENT_CPU,
    CpuSource,
    cpu_source,
    resources_with_ceilings,
)
from collectors.base import Sample
from models.capacity.resource_and_limit import LimitReason, Resource, ResourceLimit
from models.capacity.resource_limits import find_resource_limits
from models.capacity.result import Capacity, CapacityReason
from models.capacity.statement_cpu_share import ASSUMED_SHARE
from models.trust import Trust

DEMAND = 0.001
"""CPU seconds of a query that its statement accounts for."""
VCPUS = 2.0
RDS = ResourceSettings(vcpus=VCPUS)
MEASURED = ResourceSettings(vcpus=VCPUS, statement_cpu_share=0.9)
PROCESSORS, OTHERS = 4.0, 2.5
LOADS = [200.0 + 1300.0 * (0.5 + 0.5 * np.sin(k / 5)) for k in range(150)]
"""Queries/s, up to four fifths of what the processors can do."""


def limit_with(deviation: float, *, assumed: bool = False) -> ResourceLimit:
    """The limit of a resource whose ceiling is 1, more or less."""
    x = np.linspace(100, 700, 200)
    u = x / 1000 * np.exp(np.random.default_rng(3).normal(0, 0.01, len(x)))
    resource = Resource("cpu", u, ceiling_deviation=deviation, is_ceiling_assumed=assumed, own=u)
    return find_resource_limits(x, [resource])[0]


def width(limit: ResourceLimit) -> float:
    """The logarithm of the upper over the lower bound."""
    assert limit.x_max_interval is not None
    return float(np.log(limit.x_max_interval.ratio))


def test_an_uncertain_ceiling_widens_the_limits_interval() -> None:
    """As an independent error of ln limit does: variances add up."""
    known, uncertain = limit_with(0.0), limit_with(0.1)
    assert known.x_max is not None
    assert uncertain.x_max == pytest.approx(known.x_max, rel=0.01)
    of_the_ceiling = 2 * 1.645 * 0.1
    assert width(uncertain) == pytest.approx(np.hypot(width(known), of_the_ceiling), rel=0.1)


def test_the_widened_distribution_stays_valid() -> None:
    """It rises from 0 and never falls; the part beyond its range stays there."""
    known, uncertain = limit_with(0.0), limit_with(0.1)
    assert np.all(np.diff(uncertain.cdf) >= -1e-9)
    assert uncertain.cdf[0] < 0.001
    assert uncertain.cdf[-1] == pytest.approx(known.cdf[-1], abs=0.001)


def test_a_limit_with_an_assumed_ceiling_is_not_trusted() -> None:
    """However narrow its interval is, with the reason."""
    assert limit_with(0.01).trust is Trust.TRUSTED
    assumed = limit_with(0.01, assumed=True)
    assert assumed.trust is Trust.INDICATIVE
    assert LimitReason.CEILING_ASSUMED in assumed.reasons


def test_an_uncertain_ceiling_is_reached_where_that_is_certain() -> None:
    """At 0.9 of statements a processor may have time left; at 1 it has not."""
    used = np.array([0.88, 0.95, 1.0])
    resource = Resource("cpu", used, ASSUMED_SHARE.value, ceiling_deviation=ASSUMED_SHARE.deviation)
    assert resource.full.tolist() == [False, False, True]


def rows() -> list[Interval]:
    """Intervals of a server of which only the statements' CPU time is known."""
    rng = np.random.default_rng(5)
    return [
        interval(k, 2.0, throughput=x)._replace(
            resources={
                STATEMENT_CPU: x * DEMAND * float(np.exp(rng.normal(0, 0.02))),
                OPEN_CONNECTIONS: 4.0,
                LOG_WRITES: 0.0,
            }
        )
        for k, x in enumerate(LOADS)
    ]


def known(settings: ResourceSettings) -> Snapshot:
    """What is known of it with these settings."""
    window = Window(rows())
    at = float(window["end"][-1]) + 1
    return assess("db", window, UP, AssessmentState(), SETTINGS, now(at), settings)


def capacity_with(settings: ResourceSettings) -> Capacity:
    """Its capacity."""
    capacity = known(settings).assessed.capacity
    assert capacity is not None
    return capacity


@pytest.mark.parametrize("settings", [RDS, MEASURED])
def test_the_processors_are_full_where_statements_have_their_share(
    settings: ResourceSettings,
) -> None:
    """The processors times the share, over a query's CPU; within the interval and by 5 %."""
    capacity = capacity_with(settings)
    truth = VCPUS * (settings.statement_cpu_share or ASSUMED_SHARE.value) / DEMAND
    assert capacity.limit == "cpu"
    assert capacity.value == pytest.approx(truth, rel=0.05)
    assert capacity.lower is not None
    assert capacity.upper is not None
    assert capacity.lower < truth < capacity.upper


def test_an_assumed_share_leaves_an_indication() -> None:
    """Trusted only where the share was measured at the server itself."""
    assumed = capacity_with(RDS)
    assert assumed.trust is Trust.INDICATIVE
    assert CapacityReason.CPU_ASSUMED in assumed.reasons
    measured = capacity_with(MEASURED)
    assert CapacityReason.CPU_ASSUMED not in measured.reasons
    assert measured.trust is Trust.TRUSTED


def test_without_vcpus_statement_cpu_is_no_resource() -> None:
    """CPU seconds per second without the possible number."""
    capacity = capacity_with(ResourceSettings())
    assert "cpu" not in capacity.shares
    assert known(ResourceSettings()).load.cpu_source is None  # type: ignore[union-attr]


def test_the_cpu_source_is_shown() -> None:
    """In JSON and in words on the page, which say also that a query's time is that of all CPUs."""
    snapshot, at = known(RDS), seen_at(rows())
    load = snapshot.load
    assert load is not None
    assert load.cpu_source is CpuSource.STATEMENTS
    assert load.cpus == {"cpu": VCPUS}
    assert load.resources["cpu"] == pytest.approx(
        LOADS[-1] * DEMAND / VCPUS / ASSUMED_SHARE.value, rel=0.1
    )
    assert target_object(snapshot, at)["load"]["cpu_source"] == "statements"
    table = resource_limits_table(snapshot, at)
    assert "CPU from the CPU time of statements" in table
    assert ", all processors counted as one.</p>" in table


@pytest.mark.parametrize(
    ("names", "source"),
    [
        (("cpu", "cpu:server"), CpuSource.HOST),
        (("cpu",), CpuSource.NODE_EXPORTER),
        ((), CpuSource.STATEMENTS),
    ],
)
def test_a_readable_host_is_preferred(names: tuple[str, ...], source: CpuSource) -> None:
    """The statements' CPU time is the source only where nothing of the host is known."""
    seen = {name: np.full(8, 0.5) for name in names}
    rates = {STATEMENT_CPU: np.full(8, 1.0)}
    assert cpu_source(seen, rates, RDS) is source
    [cpu] = resources_with_ceilings(seen, rates, RDS)
    assert cpu.is_ceiling_assumed is (source is CpuSource.STATEMENTS)


def test_without_the_process_the_statements_are_the_servers_part() -> None:
    """Their CPU over their share, in processors of that host, and never above all; else all is."""
    seen = {"cpu": np.array([0.5, 0.5, 0.2]), "cpu:cpus": np.full(3, 4.0)}
    rates = {STATEMENT_CPU: np.array([0.9, 0.0, 0.9])}
    [cpu] = resources_with_ceilings(seen, rates, ResourceSettings(statement_cpu_share=0.9))
    assert cpu.own == pytest.approx([0.25, 0.0, 0.2])
    [without] = resources_with_ceilings(seen, {}, ResourceSettings())
    assert without.own is seen["cpu"]


def beside_others(*, counted: bool) -> Capacity:
    """On a host with four processors, of which other work takes two and a half, now more, now less.

    The load is a fifth of the others', so that the whole hardly follows it.
    """
    rng, kept = np.random.default_rng(1), []
    for k, x in enumerate(np.array(LOADS) / 5):
        others = float(np.clip(rng.normal(OTHERS, 0.8), 0.0, PROCESSORS))
        used = min(x * DEMAND / ASSUMED_SHARE.value + others, PROCESSORS) / PROCESSORS
        resources = {"cpu": used, "cpu:cpus": PROCESSORS}
        if counted:
            resources[STATEMENT_CPU] = x * DEMAND * float(np.exp(rng.normal(0, 0.02)))
        kept.append(interval(k, 2.0, throughput=x)._replace(resources=resources))
    window = Window(kept)
    at = now(float(window["end"][-1]) + 1)
    capacity = assess("db", window, UP, AssessmentState(), SETTINGS, at).assessed.capacity
    assert capacity is not None
    return capacity


def test_beside_other_work_statement_cpu_gives_the_servers_part() -> None:
    """What others leave is the limit, within its interval; without statements there is none."""
    assert beside_others(counted=False).value is None
    capacity = beside_others(counted=True)
    truth = (PROCESSORS - OTHERS) * ASSUMED_SHARE.value / DEMAND
    assert capacity.limit == "cpu"
    assert capacity.lower is not None
    assert capacity.upper is not None
    assert capacity.lower < truth < capacity.upper


def samples(*, host: bool, process: bool) -> dict[str, list[Sample]]:
    """Ten seconds of a server whose statements use 0.3 of a processor."""
    status = {"uptime": 5.0, "questions": 10.0, "own_statements": 1.0, "threads_running": 1.0}
    kept: dict[str, list[Sample]] = {"status": [], "statements": []}
    for at in np.arange(0.0, 11.0):
        counted = {**status, "uptime": 5.0 + at, "questions": 10.0 + 20 * at}
        spent = {"statement_seconds": 0.5 * at, "statement_cpu_seconds": 0.3 * at}
        kept["status"].append(Sample("status", at, counted))
        kept["statements"].append(Sample("statements", at, spent))
    if host:
        own = {"process_cpu_seconds": 1.0} if process else {}
        kept["host"] = [
            Sample("host", s.at, {"cpu_user_seconds": s.at, "cpus": 2.0, **own})
            for s in kept["status"]
        ]
    return kept


@pytest.mark.parametrize("host", [False, True])
def test_statement_cpu_is_kept_only_without_the_process(*, host: bool) -> None:
    """Beside it the rate has no use, and takes no memory."""
    [one] = compute_intervals(samples(host=host, process=False), np.array([0.0, 10.0]), max_gap=5.0)
    assert one.resources[STATEMENT_CPU] == pytest.approx(0.3)
    [one] = compute_intervals(samples(host=True, process=True), np.array([0.0, 10.0]), max_gap=5.0)
    assert STATEMENT_CPU not in one.resources
