"""Where statement time goes, as it is shown: the page, JSON, metrics, the bars of a profile."""

import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from class_samples import samples
from known_classes import known_classes
from known_time_split import known_time_use
from law_windows import WIDTH, intervals, with_usage
from simulated_classes import simulate

from agent.assessment import snapshot
from agent.assessment.snapshot import AssessmentState, Health, Snapshot
from agent.commands.profile_report import as_text
from agent.config.resources import DiskSettings, ResourceSettings
from agent.export.page import render
from agent.export.profile_rows import Profile
from agent.export.snapshot_json import snapshots_as_json
from agent.export.time_split_html import class_bar, time_section
from agent.export.time_split_metrics import time_split_families
from agent.export.time_split_report import NAMES, doubt_texts, limit_text, stacked_bar
from agent.pipeline import NO_CEILINGS
from agent.query_classes.attribution_snapshot import ClassesState
from agent.query_classes.class_intervals import ClassInterval, ClassIntervalMaker
from agent.query_classes.class_registry import ClassRegistry
from agent.query_classes.class_time_splits import class_time_splits
from agent.query_classes.period_attribution import (
    observed_classes,
    statement_times,
    with_time_splits,
)
from agent.window.intervals import Window
from agent.window.recent_time_split import TimeUse, configured_profile, time_use
from agent.window.resource_utilisation import CPUS, SERVER_SHARE_OF_CPU
from agent.window.time_split_inputs import (
    APPLIERS_CPU,
    CLIENT_RUN_DELAY,
    DISK_READS,
    PROCESS_READS,
    RATE,
    RUN_DELAY,
    SENT,
)
from models.group.node_time_split import Layer
from models.time_split.class_weights import read_weights, rows_of_tables
from models.time_split.limiting_resource import LimitedBy, LimitingResource
from models.time_split.per_class import ClassColumns, class_splits
from models.time_split.time_parts import TimePart, TimeSplit

NOW = 1_700_000_000.0
USE = known_time_use(NOW)
SHOWN = Snapshot(
    "db", NOW, 60.0, Health(True), None, AssessmentState(), known_classes(NOW), time_use=USE
)


def test_the_page_shows_the_limiting_resource() -> None:
    """In a sentence, as a bar with a rectangle for each known part, and for each class in its row.

    A legend has the colour of each part.
    """
    html = render([SHOWN], NOW)
    assert "Of the statement time of the last 5 min, 58 % is limited by disk." in html
    classes = len(known_classes(NOW).classes)
    assert html.count('role="img"') == 1 + classes
    assert html.count("<title>") == 1 + len(TimePart) + classes * (len(TimePart) - 1)
    legend = html.split('<p class="legend grey">')[1].split("</p>")[0]
    assert all(NAMES[part] in legend for part in TimePart)
    assert legend.count("<span><svg ") == len(TimePart)  # a colour and its name stay on one line
    assert "disk (random) 50 %" in html
    assert "limited by" in html


def test_a_bar_has_no_rectangle_for_an_unknown_part() -> None:
    """Its title would be "network 0 %", which a screen reader reads; unknown is not zero."""
    unknown = replace(USE.split, unknown=frozenset({TimePart.NETWORK}))
    html = class_bar(replace(unknown, seconds={**unknown.seconds, TimePart.NETWORK: 0.0}))
    assert html.count("<title>") == len(TimePart) - 1
    assert "network" not in html


def test_the_page_divides_the_time_of_all_classes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each row, its computation would grow with the square of their number."""
    calls = []

    def counted(state: ClassesState, time: TimeUse) -> Mapping[str, TimeSplit]:
        calls.append(len(state.classes))
        return class_time_splits(state, time)

    monkeypatch.setattr(snapshot, "class_time_splits", counted)
    render([SHOWN], NOW)
    assert calls == [len(known_classes(NOW).classes)]


def test_json_has_the_split() -> None:
    """Its shares add up to 1; each class has its own; a target that is down has none."""
    (target,) = json.loads(snapshots_as_json([SHOWN], NOW))["targets"]
    assert abs(sum(target["time"]["shares"].values()) - 1) < 1e-9
    assert (target["time"]["limited_by"], target["time"]["share"]) == ("disk", 0.58)
    assert len(target["class_time"]) == len(known_classes(NOW).classes)
    for split in target["class_time"]:
        assert abs(sum(split["shares"].values()) - 1) < 1e-9
    down = replace(SHOWN, health=Health(False))
    (target,) = json.loads(snapshots_as_json([down], NOW))["targets"]
    assert (target["time"], target["class_time"]) == (None, [])


def test_the_number_of_series_is_bounded() -> None:
    """At most sixteen per target, and one for each displayed class."""
    families = {family.name: len(family.samples) for family in time_split_families([SHOWN], NOW)}
    assert families.pop("mysql_headroom_query_limited_by_ratio") == len(known_classes(NOW).classes)
    assert families.pop("mysql_headroom_layer_concurrency") <= len(Layer)
    assert sum(families.values()) == 13
    assert not any(family.samples for family in time_split_families([SHOWN], NOW + 3600))


def test_an_unknown_part_has_no_series() -> None:
    """An unknown value is absent, not zero."""
    split = TimeSplit.of(10.0, {TimePart.CPU: 9.0})
    use = replace(USE, split=split, limited_by=LimitedBy.of(split))
    ratios = next(iter(time_split_families([replace(SHOWN, time_use=use)], NOW))).samples
    assert {s.labels["part"]: s.value for s in ratios} == {"cpu": 0.9, "not_allocated": 0.1}


def test_a_bar_has_a_letter_for_each_twentieth() -> None:
    """Rounded so that the characters of all parts together fill the bar."""
    assert len(stacked_bar(USE.split)) == 20
    assert stacked_bar(USE.split).count("R") == 10
    assert limit_text(USE.limited_by) == "disk 58 %"


def test_a_profile_shows_what_limits_the_time() -> None:
    """In words too where that is not identifiable, as the parts are more than twice the time."""
    profile = Profile((), "cpu", 60.0, None, None, None, None, None, None, ())
    for limited, words in (
        (USE.limited_by, "disk 58 %"),
        (None, "what limits it is not identifiable"),
    ):
        text = as_text(replace(profile, time=replace(USE, limited_by=limited)), 20)
        assert f"  time           {words}: on CPU" in text


def test_an_excess_and_unknown_parts_are_put_into_words() -> None:
    """Parts that exceed the time, and those that are not known, in words."""
    (excess, unknown) = doubt_texts(TimeSplit.of(10.0, {TimePart.CPU: 15.0}))
    assert "50 %" in excess
    assert "network" in unknown
    assert doubt_texts(USE.split) == []


def test_who_reads_is_not_guessed() -> None:
    """Bytes that few classes explain divide nothing; rows examined in tables do.

    A class that has lock time opens tables, so that each row counts; of others one a call is none.
    """
    read, rows = np.array([1.0, 9.0]), np.array([5.0, 5.0])
    assert read_weights(read, 0.9, rows) is read
    assert read_weights(read, 0.1, rows) is rows
    assert read_weights(read, 0.1, None) is None
    examined, calls = np.array([5.0, 80.0, 5.0]), np.array([5.0, 1.0, 5.0])
    unlocked = rows_of_tables(examined, calls, None)
    opened = rows_of_tables(examined, calls, np.array([0.0, 1e-5, 1e-5]))
    assert unlocked is not None
    assert opened is not None
    assert unlocked.tolist() == [0.0, 79.0, 0.0]
    assert opened.tolist() == [0.0, 80.0, 5.0]
    asleep = ClassColumns(np.array([5.0]), np.array([0.1]), np.array([0.0]))
    target = TimeSplit.of(
        5.0, {TimePart.CPU: 0.1, TimePart.DISK_RANDOM: 4.0, TimePart.DISK_SEQUENTIAL: 0.0}
    )
    assert LimitedBy.of(class_splits(target, asleep)[0]) is None


@pytest.mark.parametrize(("unattributed", "explains"), [(0.05, True), (0.6, False), (None, True)])
def test_a_class_reads_as_its_bytes_if_they_are_attributed(
    unattributed: float | None, explains: bool
) -> None:
    """Otherwise by the rows that it examines, which are not known here; also without a host."""
    state = known_classes(NOW)
    resources = [replace(r, unattributed_share=unattributed) for r in state.resources]
    [split, *_] = class_time_splits(replace(state, resources=tuple(resources)), USE).values()
    assert (TimePart.DISK_RANDOM not in split.unknown) == explains
    spent = [float(k) for k in range(len(state.classes))]
    alone = [
        replace(one, recent={"statement_time": seconds})
        for one, seconds in zip(state.classes, spent, strict=True)
    ]
    remote = replace(state, classes=tuple(alone), resources=())
    found = class_time_splits(remote, USE).values()
    assert [one.statement_time for one in found] == spent[1:]  # the first has no time to split


def test_a_profile_divides_the_time_of_its_own_statements() -> None:
    """Not the window's concurrency; an empty window divides nothing."""
    registry, watched = ClassRegistry(), list[ClassInterval]()
    maker = ClassIntervalMaker(registry)
    for sample in samples(simulate(3, intervals=20)):
        maker.append(sample)
        watched += maker.intervals(sample.at)
    observed = observed_classes(registry, watched)
    spent = statement_times(observed)
    rows = with_usage(intervals([50.0] * 3), {SERVER_SHARE_OF_CPU: 0.1, CPUS: 2.0})
    found = with_time_splits(observed, Window(rows), NO_CEILINGS)
    assert found.time is not None
    at_once = found.time.split.statement_time / found.time.seconds
    assert at_once == pytest.approx(spent.sum() / observed.seconds)
    assert [one.statement_time for one in found.class_times] == pytest.approx(spent.tolist())
    assert with_time_splits(observed, Window(), NO_CEILINGS) is observed


def test_run_delay_is_that_of_the_clients_threads() -> None:
    """Background threads' does not count; that of all threads where theirs is not known."""
    own = {SERVER_SHARE_OF_CPU: 0.1, CPUS: 2.0, RUN_DELAY: 0.8}
    for known, expected in (({}, 0.8), ({CLIENT_RUN_DELAY: 0.3}, 0.3)):
        rows = [row._replace(resources=own | known) for row in intervals([2.0] * 3)]
        use = time_use(Window(rows), NOW, NO_CEILINGS)
        assert use is not None
        waited = use.split.seconds[TimePart.PROCESSOR_QUEUE] / use.seconds
        assert waited == pytest.approx(expected)


def test_cpu_excludes_appliers() -> None:
    """In the intervals in which there were any."""
    used = {SERVER_SHARE_OF_CPU: 0.5, CPUS: 2.0}
    rows = [row._replace(resources=used) for row in intervals([2.0] * 4)]
    rows[3] = rows[3]._replace(resources=used | {APPLIERS_CPU: 0.8})
    use = time_use(Window(rows), NOW, NO_CEILINGS)
    assert use is not None
    assert use.split.seconds[TimePart.CPU] / use.seconds == pytest.approx(0.8)


@pytest.mark.parametrize(("requests", "is_learned"), [(30.0, True), (4.0, False)])
def test_a_disk_profile_needs_some_hundred_requests(requests: float, is_learned: bool) -> None:
    """In each of 20 intervals, of different sizes, of the disk of which most bytes are read.

    With fewer there is none.
    """
    rows = []
    for k, row in enumerate(intervals([2.0] * 20)):
        size = 16384.0 * (1 + k % 4)
        reads = {
            "sda": (2 * requests, requests * 4096.0, requests, 1.0),
            "sdb": (requests, requests * size, 0.0, requests * (2e-3 + size / 100e6)),
        }
        rates = {
            f"disk:{disk}:{n}": total / WIDTH
            for disk, totals in reads.items()
            for n, total in zip(DISK_READS, totals, strict=True)
        }
        rows.append(row._replace(resources=rates))
    use = time_use(Window(rows), NOW, NO_CEILINGS)
    assert use is not None
    assert (use.fitted_profile is not None) == is_learned
    if use.fitted_profile is not None:
        assert use.fitted_profile.random_seconds == pytest.approx(2e-3)
        assert use.fitted_profile.sequential_bytes_per_second == pytest.approx(100e6)


@pytest.mark.parametrize(
    ("disk", "seconds", "rate"),
    [
        (DiskSettings(operations=1000.0), 1e-3, 131_072e3),
        (DiskSettings(bandwidth=16_384e3), 1e-3, 16_384e3),
        (DiskSettings(operations=500.0, bandwidth=100e6), 2e-3, 100e6),
    ],
)
def test_one_configured_number_implies_the_other(
    disk: DiskSettings, seconds: float, rate: float
) -> None:
    """A random read is a page, and a sequential one as large as what is read ahead."""
    profile = configured_profile(disk)
    assert profile is not None
    assert profile.random_seconds == pytest.approx(seconds)
    assert profile.sequential_bytes_per_second == pytest.approx(rate)
    assert configured_profile(DiskSettings()) is None


@pytest.mark.parametrize(
    ("payload", "busy"), [(1448.0, 0.94625), (724.0, 0.473125), (2e3, 0.94625)]
)
def test_packet_headers_count_as_the_servers_bytes(payload: float, busy: float) -> None:
    """Of a link of 1,600 bytes/s that carries one full frame a second, all of it or a half is."""
    limits = ResourceSettings.validated({"interfaces": {"eth0": {"bandwidth": 1600.0}}})
    moved = {f"network:eth0:sent{RATE}": 1514.0, SENT: payload}
    rows = [row._replace(resources=moved) for row in intervals([2.0] * 3)]
    use = time_use(Window(rows), NOW, limits)
    assert use is not None
    there = use.split.seconds[TimePart.NETWORK] / use.seconds
    assert there == pytest.approx(busy / (1 - busy / 2))  # of two statements at once


@pytest.mark.parametrize(("moved", "busy"), [(1514.0, 0.4), (3028.0, 0.2), (0.0, 0.0)])
def test_a_links_own_speed_counts_unless_another_is_configured(moved: float, busy: float) -> None:
    """The server's part of its use; a link without traffic is idle."""
    link = {"network:eth0:sent": 0.4, f"network:eth0:sent{RATE}": moved, SENT: 1448.0}
    rows = [row._replace(resources=link) for row in intervals([2.0] * 3)]
    use = time_use(Window(rows), NOW, NO_CEILINGS)
    assert use is not None
    there = use.split.seconds[TimePart.NETWORK] / use.seconds
    assert there == pytest.approx(busy / (1 - busy / 2))  # of two statements at once


def test_time_on_a_disk_is_the_servers_part_of_it() -> None:
    """By bytes: half of them are another program's. Another host's processors tell no CPU time."""
    reads = dict(zip(DISK_READS, (50.0, 50 * 16384.0, 0.0, 0.6), strict=True))
    rates = {f"disk:sda:{name}": value for name, value in reads.items()}
    used = rates | {PROCESS_READS: 25 * 16384.0, CPUS: 2.0}
    rows = [row._replace(resources=used) for row in intervals([2.0] * 3)]
    use = time_use(Window(rows), NOW, NO_CEILINGS)
    assert use is not None
    assert use.split.seconds[TimePart.DISK_RANDOM] / use.seconds == pytest.approx(0.3)
    assert TimePart.CPU in use.split.unknown


def test_one_interval_is_enough_if_its_statements_are_known() -> None:
    """Neither by their time nor by their number is no split."""
    [row] = intervals([2.0], statement_time=False)
    assert time_use(Window([row]), NOW, NO_CEILINGS) is not None
    unknown = row._replace(threads_running=np.nan)
    assert time_use(Window([unknown]), NOW, NO_CEILINGS) is None
    assert time_use(Window(), NOW, NO_CEILINGS) is None


def test_contradicting_parts_give_no_limiting_resource() -> None:
    """As where statements run for longer than observed, and count only when they end."""
    cpu = {SERVER_SHARE_OF_CPU: 0.5, CPUS: 2.0}  # one second a second
    uses = []
    for ended in (1.0, 0.8, 0.2):
        rows = [row._replace(resources=cpu) for row in intervals([ended] * 3)]
        use = time_use(Window(rows), NOW, NO_CEILINGS)
        assert use is not None
        uses.append(use)
    limits = [use.limited_by.limit if use.limited_by else None for use in uses]
    assert limits == [LimitingResource.CPU, LimitingResource.CPU, None]
    shown = replace(SHOWN, time_use=uses[-1])
    assert "is not identifiable" in time_section(shown, NOW)
    (target,) = json.loads(snapshots_as_json([shown], NOW))["targets"]
    assert (target["time"]["limited_by"], target["time"]["over_explained"]) == (None, True)
