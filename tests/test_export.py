"""The whole /metrics page, made from recordings of real servers, against a golden file.

To renew the golden file after a deliberate change: UPDATE_GOLDEN=1 pytest tests/test_export.py
"""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_classes import known_classes
from known_time_split import known_time_use
from law_windows import WAVES, intervals, with_resources
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.parser import text_string_to_metric_families
from prometheus_rules import documented_metrics

from agent import __version__
from agent.assessment.recent_load import LoadOutlook
from agent.assessment.snapshot import (
    AssessmentState,
    BusinessState,
    ClassSlasState,
    ClassSlaState,
    ForecastState,
    Health,
    ServerIdentity,
    SlaState,
    Snapshot,
)
from agent.config.settings import FitSettings
from agent.export.metrics_text import encode_metrics
from agent.export.snapshot_metrics import SnapshotCollector
from agent.export.target_group_metrics import GroupCollector
from agent.groups.group_monitor import GroupState
from agent.history.failures import StoreFailure
from agent.history.write_health import StoreState
from agent.pipeline import assess
from agent.sampling.collector_health import CollectorHealth
from agent.service.agent_metrics import (
    AgentState,
    ReloadState,
    SelfCollector,
    TargetActivity,
    WebState,
    WorkerState,
)
from agent.support.clock_pair import ClockPair
from agent.window.interval_buffer import IntervalBuffer
from agent.window.intervals import Window
from collectors.base import FailureKind, Feature
from models.business_metric_headroom import UnitHeadroom, UnitReason
from models.capacity.result import CapacityReason
from models.forecast.next_hour import Rise
from models.forecast.time_to_saturation import DAY_SECONDS, ForecastReason, Saturation
from models.group.node_time_split import Replication
from models.group.ntp_clock_filter import ClockOffset
from models.group.summary import Node, summarise
from models.group.usl_over_nodes import GroupLoad, fit_scaling
from models.trust import Trust
from models.what_if.class_sla_headroom import ClassHeadroom
from models.what_if.predicted_value import PredictedValue
from models.what_if.sla_result import SlaHeadroom, SlaReason
from testbed.recorded.record_collector_readings import FIXTURES, recorded

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden" / "metrics.txt"
SETTINGS = FitSettings(interval=5.0, stale_after=60.0)
ZERO = 1_700_000_000.0
RECORDINGS = {"mysql": "mysql-9.7.4", "mariadb": "mariadb-10.11.19-no-schema"}
OWN = AgentState(
    (WorkerState("server", 0.25, 1.5, target="mysql"), WorkerState("assessment", 0.0, 0.125)),
    (TargetActivity("mysql", 2, 0.5, {"classes": 1}), TargetActivity("down", 0, None)),
    ReloadState(True, ZERO),
    StoreState(
        success=False,
        size=4_096_000,
        rows={"intervals": 5760, "fits": 5700, "samples": 14400},
        oldest={"intervals": ZERO - 86400, "fits": ZERO - 86400, "samples": ZERO - 3600},
        last_write=ZERO - 60,
        write_seconds=0.0015,
        failures={StoreFailure.FULL: 3, StoreFailure.BUSY: 1},
        dropped=2,
        corrupt_files=1,
    ),
    WebState(successful=False, failures=2),
)
NODES = (
    Node("mysql", 800.0, 1000.0, 0.2, Trust.TRUSTED),
    Node("full", 500.0, 2000.0, 0.75, Trust.INDICATIVE),
    Node("down", None),
)
CLOCKS = {"mysql": ClockOffset(0.25, 0.0005), "full": ClockOffset(-0.125, 0.001)}
FULLY_USED = [GroupLoad(k, x, 0.95) for k, x in ((1, 900.0), (2, 1600.0), (3, 2100.0))]
OF_THE_AGENT = ("build", "worker", "config", "process", "history", "web")  # what has no target
DIGITS = 9  # beyond these, one machine's arithmetic may differ from another's
SERIES = re.compile(r"^([^#].*) (\S+)$", re.MULTILINE)
SAME = 2e-3  # bounds far beyond the points vary by this between builds of numpy


def replayed(target: str, name: str) -> Snapshot:
    """The last snapshot of a recording."""
    about, samples = recorded(FIXTURES / f"{name}.jsonl.gz")
    buffer = IntervalBuffer(SETTINGS.interval, SETTINGS.window, sampling=1.0)
    fitted = AssessmentState()
    for sample in samples:
        buffer.append(sample)
        moment = ClockPair(sample.at, ZERO + sample.at)
        health = Health(True, about["server"], 0, *_fares(about, ZERO + sample.at))
        known = assess(target, buffer.window(sample.at), health, fitted, SETTINGS, moment)
        fitted = known.assessed
    return known


def _fares(
    about: Mapping[str, Any], at: float
) -> tuple[tuple[CollectorHealth, ...], tuple[Feature, ...]]:
    features = tuple(Feature(**feature) for feature in about["features"])
    collectors = tuple(
        CollectorHealth(name, True, 0.001, 0, {}, "", at) for name in ("status", "threads")
    )
    return collectors, features


TAIL = 1e-3  # of a distribution: so much of a probability does too


@pytest.fixture(scope="module")
def snapshots() -> list[Snapshot]:
    """Three servers under load, one with little, one that is down, one that was never tried."""
    well = [replayed(target, name) for target, name in RECORDINGS.items()]
    who = ServerIdentity("db1.example.com", "3306", "9.7.4", "5f0c9f5e-0000-11f0-8000-000000000001")
    who = replace(who, labels=(("region", "eu-1"), ("team", "shop")))
    well[0] = replace(well[0], health=replace(well[0].health, identity=who, queries=123456.0))
    record = replace(well[0].assessed.outlier_counts, mix_changed_at=ZERO)
    classes = known_classes(well[0].at)
    met = Saturation(
        12 * DAY_SECONDS, 5 * DAY_SECONDS, 30 * DAY_SECONDS, ((1, 0.01), (7, 0.125), (30, 0.95))
    )
    flat = Saturation(probability=((1, 0.0), (7, 0.0)), reason=ForecastReason.NO_GROWTH)
    # recorded beside other programs, which leave no capacity to be known
    capacity = with_a_processor("mysql", 1 / 2, well[0].at - ZERO).assessed.capacity
    assert capacity is not None
    capacity = replace(capacity, concurrency=14.0, concurrency_upper=17.5)
    why = (CapacityReason.OTHERS_INTERFERE,)
    capacity = replace(capacity, trust=Trust.INDICATIVE, reasons=why)
    assessed = replace(well[0].assessed, outlier_counts=record, capacity=capacity)
    well[0] = replace(well[0], assessed=assessed, classes=classes)
    well[0] = replace(well[0], forecast=ForecastState(well[0].at, met, 0.01, 31))
    rises = {3: Rise(np.array([0.0, 0.02])), 6: Rise(np.array([0.02, 0.05]))}
    rises[12] = Rise(np.array([0.05, 0.1]), 0.1, np.array([0.1, 0.3]))
    well[0] = replace(well[0], outlook=LoadOutlook(4000.0, rises))
    well[0] = replace(well[0], time_use=known_time_use(well[0].at), clock_offset=CLOCKS["mysql"])
    well[0] = replace(well[0], replication=Replication(0.0, applying=0.25, waiting=0.125))
    less, slow = PredictedValue(800.0, 700.0, 900.0), PredictedValue(0.02, 0.01, 0.05)
    far = SlaHeadroom(less, PredictedValue(40.0, 35.0, 45.0), PredictedValue(0.25, 0.1, 0.5), 0.125)
    well[0] = replace(well[0], sla=SlaState(well[0].at, 0.05, 0.01, far, slow, Trust.INDICATIVE))
    grown = ClassHeadroom(PredictedValue(1.5, 1.25, 2.0), 0.75)
    few = ClassHeadroom(reason=SlaReason.FEW_CALLS)
    near = ClassSlaState("d1", 0.95, 0.05, PredictedValue(0.02, 0.01, 0.03), 500, grown)
    seldom = ClassSlaState("d2", 0.999, 1.0, None, 0, few)
    slas = ClassSlasState(well[0].at, (near, seldom), Trust.INDICATIVE)
    well[0] = replace(well[0], class_slas=slas)
    never = SlaHeadroom(reason=SlaReason.NEVER_MET)
    well[1] = replace(well[1], sla=SlaState(well[1].at, 0.001, 0.01, never, None))
    room = UnitHeadroom(PredictedValue(1840.0, 900.0, 3000.0), None, Trust.INDICATIVE)
    users = BusinessState("active_users", "users", well[0].at, 3200.0, 180.0, room)
    alone = UnitHeadroom(reason=UnitReason.DOES_NOT_FOLLOW)
    orders = BusinessState("orders", "orders/s", well[0].at - 60, 12.5, 180.0, alone)
    never_read = BusinessState("carts", "carts", None, None, 180.0, alone)
    well[0] = replace(well[0], business=(users, orders, never_read))
    well[1] = replace(well[1], forecast=ForecastState(well[1].at, flat, None, 31))
    failing = CollectorHealth(
        "status", False, 3.0, 2, {FailureKind.TIMEOUT: 4, FailureKind.REFUSED: 1}, "no answer", ZERO
    )
    down = replace(well[0], target="down", health=Health(False, "MySQL", 1, (failing,), ()))
    new = Snapshot("new", ZERO, 60.0, Health(), None, AssessmentState())
    full = replace(with_a_processor("full", 1 / 2, well[0].at - ZERO), classes=classes)
    return [*well, with_a_processor("quiet", 1 / 8, well[0].at - ZERO), full, down, new]


def with_a_processor(target: str, part: float, end: float) -> Snapshot:
    """A server that got this part of the waves, up to then; what ends it is its processor."""
    rows = with_resources(intervals([load * part for load in WAVES]), cpu=1 / 5000)
    rows = [row._replace(resources={**row.resources, "cpu:clock": 0.97}) for row in rows]
    moved = [row._replace(end=end - rows[-1].end + row.end) for row in rows]
    moment = ClockPair(end, ZERO + end)
    return assess(
        target, Window(moved), Health(True, "MySQL 9"), AssessmentState(), SETTINGS, moment
    )


def page(snapshots: list[Snapshot], now: float | None = None) -> str:
    """What a scrape at that time shows, by default just after the snapshots were made."""
    registry = CollectorRegistry()
    at = now if now is not None else max(snapshot.at for snapshot in snapshots)
    registry.register(SnapshotCollector(lambda: snapshots, lambda: at))
    registry.register(GroupCollector(lambda: [group(at)], lambda: at))
    registry.register(SelfCollector(lambda: OWN))
    return encode_metrics(registry, open_metrics=False).decode()


def group(at: float) -> GroupState:
    """Three of the targets as a group, one of which could not be read."""
    names = tuple(node.name for node in NODES)
    scaling = fit_scaling(6 * FULLY_USED, len(NODES))
    summary = summarise(NODES)
    return GroupState("shop", names, 60.0, at, summary, scaling, {"down": 4}, CLOCKS)


def rounded(text: str) -> str:
    """The page with its numbers to so many digits, and without the version."""

    def shorter(found: re.Match[str]) -> str:
        return f"{float(found[0]):.{DIGITS}g}"

    lines = [
        line if line.startswith("#") else re.sub(r"(?<= )\S+$", shorter, line)
        for line in text.splitlines()
    ]
    return "\n".join(lines).replace(__version__, "VERSION") + "\n"


def series(text: str) -> dict[tuple[str, ...], float]:
    """Every sample by its name and its label values."""
    return {
        (sample.name.removeprefix("mysql_headroom_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_whole_page_equals_the_golden_file(snapshots: list[Snapshot]) -> None:
    """Any change of a name, a label, a help text or a number is a difference."""
    found = rounded(page(snapshots))
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(found)
    expected = GOLDEN.read_text()
    assert SERIES.sub(r"\1", found) == SERIES.sub(r"\1", expected)
    for (name, here), (_, there) in zip(
        SERIES.findall(found), SERIES.findall(expected), strict=True
    ):
        least = TAIL if "saturation_probability{" in name else 0.0
        assert float(here) == pytest.approx(float(there), rel=SAME, abs=least), name


def test_the_page_passes_promtool(snapshots: list[Snapshot], promtool: str) -> None:
    """`promtool check metrics` has no complaint."""
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=page(snapshots), capture_output=True, text=True
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_every_metric_has_the_prefix_and_a_target(snapshots: list[Snapshot]) -> None:
    """Only the agent's own metrics have neither target nor group."""
    for family in text_string_to_metric_families(page(snapshots)):
        for sample in family.samples:
            assert sample.name.startswith("mysql_headroom_")
            if sample.labels.get("worker") == "server":
                assert sample.labels["target"] == "mysql"
                continue
            of_the_agent = sample.name.split("_")[2] in OF_THE_AGENT
            named = sample.labels.get("target") or sample.labels.get("group")
            assert bool(named) != of_the_agent, sample.name


def test_every_metric_is_documented(snapshots: list[Snapshot]) -> None:
    """docs/metrics.md has each name on the page in a row, and no other."""
    text = page(snapshots) + _process()
    shown = set(re.findall(r"^(mysql_headroom_\w+)", text, flags=re.MULTILINE))
    assert shown == documented_metrics()


HELP = {
    r"_timestamp_seconds$": "Unix time",
    r"(?<!_timestamp)_seconds$": "[Ss]econds",
    r"_bytes$": "[Bb]ytes",
    r"_per_second$": "(queries|Queries|completed) per second",
    r"_probability$": "Probability, 0 to 1",
    r"(?<!capacity_concurrency)_(lower|upper)(_|$)": "bound of the 90 % interval",
    "capacity_concurrency_upper": "above which the server is past its peak",
    r"_info$|_build$": "always 1",
    r"_reason$": "^1 for (the|each) reason.*absent",
    r"_trust$": "1 for the state that holds .*, 0 for the other two",
    r"_(up|enabled|success|successful|overloaded|limited_by)$": "^1 (if|while|for).*(0|else 0)",
    r"_ratio$": "[Ss]hare|0 is|1 is|0\\.25 is|Multiple of the present load",
}
"""What a help text has to say of a metric with such a name: its unit, what 0 and 1 are."""
COUNTS = {"mysql_headroom_group_up"}


def test_every_help_text_is_understood_alone(snapshots: list[Snapshot]) -> None:
    """Each has its unit and states: a graph shows no other text."""
    families = [f for f in text_string_to_metric_families(page(snapshots)) if f.name not in COUNTS]
    for name, text in HELP.items():
        named = [family for family in families if re.search(name, family.name)]
        assert named, name
        for family in named:
            assert re.search(text, family.documentation), family.name


def _process() -> str:
    """What the library says of this process; its numbers are never the same."""
    registry = CollectorRegistry()
    ProcessCollector(namespace="mysql_headroom", registry=registry)
    return encode_metrics(registry, open_metrics=False).decode()


def test_absent_is_not_zero(snapshots: list[Snapshot]) -> None:
    """A state never tried, a load of a server that is down and an unknown value have no series."""
    found = series(page(snapshots))
    assert {key[0] for key in found if "new" in key} == set()
    assert found["up", "down"] == 0
    assert found["feature_enabled", "statements", "mariadb"] == 0
    for name in ("throughput_queries_per_second", "concurrency", "overloaded"):
        assert not [key for key in found if key[0] == name and "down" in key]
    assert ("concurrency", "threads_running", "mariadb") in found
    assert ("concurrency", "statement_time", "mariadb") not in found


def test_a_stale_fit_is_withheld_but_not_its_time(snapshots: list[Snapshot]) -> None:
    """Alerts need the age; the numbers are absent."""
    late = series(page(snapshots, max(s.at for s in snapshots) + SETTINGS.stale_after + 10))
    of_the_fit = ("usl_", "capacity_", "resource_")
    assert {key[0] for key in late if key[0].startswith(of_the_fit)} == set()
    assert ("overloaded", "mysql") not in late
    assert ("last_assessment_timestamp_seconds", "mysql") in late
    assert late["up", "mysql"] == 1


def test_query_classes_are_shown_for_three_of_their_intervals(snapshots: list[Snapshot]) -> None:
    """Else classes divided less often than fits become stale would come and go."""
    classes = replace(known_classes(ZERO), interval=600.0)
    snapshot = replace(snapshots[0], classes=classes)
    shown = [
        any(key[0] == "query_source_info" for key in series(page([snapshot], ZERO + age)))
        for age in (0.0, 1799.0, 1801.0)
    ]
    assert shown == [True, True, False]


def test_the_numbers_agree_with_each_other(snapshots: list[Snapshot]) -> None:
    """Headroom, load and peak are of one time; one state of trust is 1."""
    found = series(page(snapshots))
    for target in ("mysql", "quiet"):
        x = found["throughput_queries_per_second", target]
        capacity = found["capacity_queries_per_second", target]
        assert found["capacity_headroom_ratio", target] == pytest.approx(1 - x / capacity)
        low = found["capacity_lower_queries_per_second", target]
        high = found["capacity_upper_queries_per_second", target]
        assert low <= capacity <= high
        for name in ("usl_trust", "capacity_trust"):
            states = [value for key, value in found.items() if key[:2] == (name, target)]
            assert sorted(states) == [0, 0, 1]
        shares = [
            value
            for key, value in found.items()
            if key[0] == "capacity_limit_probability" and target in key
        ]
        assert sum(shares) == pytest.approx(1)
        assert found["overloaded", target] == 0
        assert found["overload_loss_ratio", target] == 0
    at_peak = found["capacity_concurrency", "mysql"]
    assert at_peak < found["capacity_concurrency_upper", "mysql"]


def test_a_refused_law_has_a_reason_and_no_numbers(
    snapshots: list[Snapshot],
) -> None:
    """A few samples of Threads_running per interval are noise: the reason is a label."""
    found = series(page(snapshots))
    assert found["usl_trust", "mariadb", "not_identifiable"] == 1
    assert found["usl_reason", "noisy_concurrency", "mariadb"] == 1
    assert not [key for key in found if key[0].startswith("usl_max") and "mariadb" in key]
    assert ("capacity_lower_queries_per_second", "mariadb") in found
