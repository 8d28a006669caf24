"""Groups of targets: one summary of one interval, the bottleneck, scaling over nodes."""

import json
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np
import pytest
from known_time_split import known_time_use
from law_windows import UP, WIDTH, intervals, known, with_resources

from agent.assessment.snapshot import AssessmentState, Health, Snapshot
from agent.config.loader import load_config
from agent.config.settings import Config
from agent.config.yaml_loader import ConfigError
from agent.export.target_group_html import group_sentences, groups_section, layer_sentences
from agent.export.target_group_json import groups_as_json
from agent.export.target_group_metrics import GroupCollector
from agent.groups.common_intervals import CommonIntervals, TargetInterval
from agent.groups.group_monitor import GroupMonitor, group_load
from agent.groups.group_monitors import Groups
from models.group.node_time_split import Replication
from models.group.ntp_clock_filter import ClockOffset
from models.group.summary import GroupReason, Node, summarise
from models.group.usl_over_nodes import GroupLoad, ScalingReason, fit_scaling
from models.shared_constants import MIN_POINTS
from models.trust import Trust
from models.usl.law import Usl

NAMES = ("a", "b", "c")
LAW = Usl(sigma=0.06, kappa=0.01, lam=1000.0)
"""Over nodes."""


def node(name: str, x: float | None, c: float | None, trust: Trust = Trust.TRUSTED) -> Node:
    """One that is below its peak."""
    left = None if x is None or c is None else 1 - x / c
    return Node(name, x, c, left, trust)


SHARDS = (node("a", 800.0, 1000.0), node("b", 500.0, 2000.0))
"""The example of docs/fleet.md."""


def test_the_summary_agrees_with_the_fleets_rules() -> None:
    """Of two shards of 1,000 and 2,000 that use 80 and 25 %, 57 % is unused, 25 % can be added."""
    summary = summarise(SHARDS)
    assert (summary.throughput, summary.capacity) == (1300.0, 3000.0)
    assert summary.bottleneck == "a"
    assert summary.balanced_headroom == pytest.approx(0.567, abs=0.001)
    assert summary.growth_to_bottleneck == pytest.approx(0.25)
    assert summary.imbalance == pytest.approx(0.8 / 0.525)
    assert summary.imbalance_loss == pytest.approx(1 - 0.525 / 0.8)
    assert (summary.trust, summary.reasons) == (Trust.TRUSTED, ())


def test_a_node_past_its_peak_has_no_headroom() -> None:
    """It serves 800 of its 1,000 because of overload, not because a fifth of it is free."""
    past = Node("a", 800.0, 1000.0, headroom=-0.6, trust=Trust.TRUSTED)
    summary = summarise([past, SHARDS[1]])
    assert (summary.bottleneck, past.used_share) == ("a", 1.0)
    assert summary.growth_to_bottleneck == 0.0
    assert summary.balanced_headroom == pytest.approx(0.5)


def test_a_group_above_its_capacity_has_nothing_unused() -> None:
    """A share below zero is no share."""
    text = group_sentences(summarise([node("a", 1030.0, 1000.0), node("b", 200.0, 200.0)]))
    assert " a has the least headroom and limits the growth first: it has reached its" in text
    assert text.endswith(
        "With the load divided in proportion to capacity, nothing would be unused."
    )


def test_a_node_of_unknown_capacity_may_have_less_headroom_or_most_of_it() -> None:
    """So the bottleneck is that of the others, and what balanced load would leave is not known."""
    text = group_sentences(summarise([*SHARDS, node("c", 100.0, None)]))
    assert "Of the nodes whose capacity is known, a has the least headroom" in text
    assert "would be unused" not in text


def test_a_lost_node_is_not_in_the_sums() -> None:
    """The others count as before, and the summary says that one is missing."""
    summary = summarise([*SHARDS, node("c", None, None)])
    assert summary.lost == ("c",)
    assert (summary.throughput, summary.capacity, summary.bottleneck) == (1300.0, 3000.0, "a")
    assert summary.reasons == (GroupReason.NODES_LOST,)
    assert group_sentences(summary).startswith("2 of 3 nodes serve 1,300 queries/s.")
    assert GroupReason.NODES_LOST.sentence.startswith("one or more nodes could not be read")
    alone = summarise([SHARDS[0], node("c", None, None)])
    assert group_sentences(alone).startswith("1 of 2 nodes serves ")


def test_an_unknown_capacity_lowers_the_trust() -> None:
    """Without one the sums are of the others; one that is not trusted lowers the whole."""
    unknown = summarise([*SHARDS, node("c", 100.0, None)])
    assert (unknown.throughput, unknown.capacity) == (1400.0, 3000.0)
    assert (unknown.trust, unknown.reasons) == (
        Trust.NOT_IDENTIFIABLE,
        (GroupReason.CAPACITY_UNKNOWN,),
    )
    doubtful = summarise([*SHARDS, node("c", 100.0, 1000.0, Trust.INDICATIVE)])
    assert doubtful.trust is Trust.INDICATIVE
    assert doubtful.reasons == (GroupReason.CAPACITY_NOT_TRUSTED,)


def test_without_nodes_or_load_nothing_is_known() -> None:
    """And nothing is divided by zero."""
    nothing = summarise([node("a", None, None)])
    assert (nothing.throughput, nothing.bottleneck, nothing.imbalance) == (None, None, None)
    idle = summarise([node("a", 0.0, 1000.0)])
    assert (idle.balanced_headroom, idle.growth_to_bottleneck) == (1.0, None)


def test_one_known_node_has_no_imbalance() -> None:
    """It needs several capacities."""
    alone = summarise([node("a", 100.0, 1000.0), node("b", 50.0, None)])
    assert alone.capacity == 1000.0
    assert (alone.imbalance, alone.imbalance_loss) == (None, None)


def loads(counts: tuple[int, ...], used: float = 0.97) -> list[GroupLoad]:
    """Intervals in which so many nodes served, on the law, with 1 % of noise."""
    rng = np.random.default_rng(2)
    return [
        GroupLoad(k, float(LAW.throughput(k)) * float(np.exp(rng.normal(0, 0.01))), used)
        for k in counts
        for _ in range(20)
    ]


def test_the_law_over_nodes_is_fitted_if_their_number_varied() -> None:
    """From one to eight nodes at full load: its throughputs within 1 %, where it was seen."""
    found = fit_scaling(loads((1, 2, 3, 4, 6, 8)), nodes=8)
    assert found.fit is not None
    for k in (1, 2, 3, 4, 6, 8):
        assert found.fit.law.throughput(k) == pytest.approx(LAW.throughput(k), rel=0.01)
    assert found.trust is not Trust.NOT_IDENTIFIABLE


def test_three_node_counts_are_not_trusted() -> None:
    """Three parameters and three numbers of nodes leave nothing to check the law by."""
    found = fit_scaling(loads((1, 2, 3)), nodes=3)
    assert found.fit is not None
    assert found.trust is Trust.NOT_IDENTIFIABLE


@pytest.mark.parametrize(
    ("seen", "nodes", "reason"),
    [
        (loads((1, 2)), 2, ScalingReason.FEW_NODES),
        (loads((3,)), 3, ScalingReason.NODES_DID_NOT_VARY),
        (loads((2, 3)), 3, ScalingReason.NODES_DID_NOT_VARY),
        (loads((1, 2, 3), used=0.5), 3, ScalingReason.NEVER_AT_FULL_LOAD),
        (loads((1, 2, 3))[:: 20 // (MIN_POINTS - 1)], 3, ScalingReason.NEVER_AT_FULL_LOAD),
        ([], 3, ScalingReason.NODES_DID_NOT_VARY),
    ],
)
def test_without_a_law_over_nodes_there_is_a_reason(
    seen: list[GroupLoad], nodes: int, reason: ScalingReason
) -> None:
    """A load that did not fill the nodes, or never changed, does not show how they scale."""
    found = fit_scaling(seen, nodes)
    assert (found.fit, found.reason) == (None, reason)


def test_an_idle_replica_does_not_count_as_serving() -> None:
    """It is a node, but not one of those that share the load."""
    summary = summarise([*SHARDS, node("c", 1.0, 2000.0)])
    load = group_load(summary)
    assert (load.nodes, load.throughput) == (2, 1300.0)
    assert load.used_share == pytest.approx(1300 / 3000)


def test_intervals_that_end_together_are_summarised() -> None:
    """A node that is up and late by one interval is waited for, and no longer."""
    base = CommonIntervals(NAMES, WIDTH)
    for name in NAMES:
        base.add(name, TargetInterval(10.0, 1.0))
    assert base.take_next(NAMES) == (10.0, dict.fromkeys(NAMES, 1.0))
    assert base.take_next(NAMES) is None
    for name in ("a", "b"):
        base.add(name, TargetInterval(20.02, 2.0))
    assert base.take_next(NAMES) is None
    base.add("c", TargetInterval(19.98, 3.0))
    assert base.take_next(NAMES) == (20.02, {"a": 2.0, "b": 2.0, "c": 3.0})


def test_a_lost_node_is_not_waited_for() -> None:
    """One that is down is left out at once, one that hangs after an interval."""
    base = CommonIntervals(NAMES, WIDTH)
    for name in NAMES:
        base.add(name, TargetInterval(10.0, 1.0))
    base.take_next(NAMES)
    for end in (20.0, 30.0, 40.0):
        for name in ("a", "b"):
            base.add(name, TargetInterval(end, 2.0))
        taken = base.take_next(("a", "b"))
        assert taken == (end, {"a": 2.0, "b": 2.0})
    for end in (50.0, 60.0):
        for name in ("a", "b"):
            base.add(name, TargetInterval(end, 2.0))
        base.take_next(NAMES)
    base.add("a", TargetInterval(70.0, 2.0))
    base.add("b", TargetInterval(70.0, 2.0))
    assert base.take_next(NAMES) == (60.0, {"a": 2.0, "b": 2.0})
    assert all(len(kept) <= 4 for kept in base._latest.values())


def snapshot(name: str, demand: float, *, up: bool = True) -> Snapshot:
    """A target with a processor of which a query takes so much; its load comes near its end."""
    rows = with_resources(intervals([1.0 + 0.2 * (k % 40) for k in range(120)]), cpu=demand)
    return replace(known(rows, Health(up=up, server="MySQL 9")), target=name)


SNAPSHOTS = [snapshot("a", 0.0002), snapshot("b", 0.0003), snapshot("c", 0.0002)]
END = SNAPSHOTS[0].load.end  # type: ignore[union-attr]


def later(one: Snapshot, intervals_later: int) -> Snapshot:
    """The same server some intervals on, with the same load."""
    assert one.load is not None
    end = one.load.end + WIDTH * intervals_later
    return replace(
        one, load=replace(one.load, end=end), assessed=replace(one.assessed, at=end), at=end
    )


def watched() -> GroupMonitor:
    """A group of three that was looked at once."""
    monitor = GroupMonitor("shop", NAMES, WIDTH, stale=100.0)
    monitor.observe(SNAPSHOTS, END + 1)
    return monitor


def test_the_node_with_the_most_expensive_queries_is_the_bottleneck() -> None:
    """Three with the same load: the one whose queries take most of its processor."""
    summary = watched().state.current(END + 1)
    assert summary is not None
    assert summary.bottleneck == "b"
    assert summary.throughput == pytest.approx(sum(s.load.throughput for s in SNAPSHOTS if s.load))
    sentences = group_sentences(summary)
    assert sentences.startswith("3 of 3 nodes serve ")
    assert "b has the least headroom" in sentences


def test_a_node_that_is_lost_is_counted_and_left_out() -> None:
    """From the first interval without it; the others are as before."""
    monitor = watched()
    for k in range(1, 4):
        down = replace(SNAPSHOTS[1], health=Health(up=False))
        monitor.observe([later(SNAPSHOTS[0], k), down, later(SNAPSHOTS[2], k)], END + WIDTH * k + 1)
    at = END + 3 * WIDTH + 1
    summary = monitor.state.current(at)
    assert summary is not None
    assert monitor.state.at == pytest.approx(END + 3 * WIDTH)
    assert summary.lost == ("b",)
    assert summary.bottleneck in ("a", "c")
    assert monitor.state.lost == {"b": 3}
    assert GroupReason.NODES_LOST in summary.reasons


def test_a_node_has_the_headroom_of_the_groups_interval() -> None:
    """Where the group waits for another node, this node's own latest interval is a later one."""
    monitor = watched()
    slow = SNAPSHOTS[1]  # up, but its next interval is late
    first, third = later(SNAPSHOTS[0], 1), later(SNAPSHOTS[2], 1)
    monitor.observe([first, slow, third], END + WIDTH + 1)
    busier = later(first, 1)
    assert busier.load is not None
    busier = replace(busier, load=replace(busier.load, throughput=1.5 * busier.load.throughput))
    monitor.observe([busier, slow, later(third, 1)], END + 2 * WIDTH + 1)
    summary = monitor.state.current(END + 2 * WIDTH + 1)
    assert summary is not None
    assert (monitor.state.at, summary.lost) == (END + WIDTH, ("b",))
    node = summary.nodes[0]
    assert node.used_share is not None
    assert node.headroom == pytest.approx(1 - node.used_share)


def test_intervals_at_full_load_are_kept() -> None:
    """The law over nodes needs each number of nodes at full load, even hours ago."""
    monitor = watched()
    full = [
        replace(s, load=replace(s.load, throughput=0.95 * s.assessed.capacity.value))
        for s in SNAPSHOTS
        if s.load is not None and s.assessed.capacity is not None and s.assessed.capacity.value
    ]
    for k in range(1, MIN_POINTS + 1):
        monitor.observe([later(s, k) for s in full], END + WIDTH * k + 1)
    for k in range(MIN_POINTS + 1, 120):
        monitor.observe([later(s, k) for s in SNAPSHOTS], END + WIDTH * k + 1)
    assert monitor.state.scaling is not None
    assert set(monitor.state.scaling.points) == {3}


def test_a_stale_summary_is_withheld() -> None:
    """When no target can be read any more."""
    state = watched().state
    assert state.current(END + 101) is None
    assert json.loads(groups_as_json([state], END + 101))["groups"][0]["summary"] is None
    assert "No interval" in groups_section([state], END + 101)


@pytest.mark.parametrize("step", [-3600.0, -40.0, 3600.0])
def test_setting_the_clock_does_not_disturb_the_group(step: float) -> None:
    """The next common interval is shown, whichever target has its new time first."""
    monitor = watched()
    moved = [
        replace(one, load=replace(one.load, end=one.load.end + step, throughput=7.0))
        for one in SNAPSHOTS
        if one.load is not None
    ]
    monitor.observe([moved[0], *SNAPSHOTS[1:]], END + step + 2)
    now = END + step + WIDTH + 2
    monitor.observe([later(one, 1) for one in moved], now)
    assert monitor.state.at == pytest.approx(END + step + WIDTH)
    summary = monitor.state.current(now)
    assert summary is not None
    assert (summary.throughput, summary.lost) == (21.0, ())


def test_a_summary_of_the_future_is_withheld() -> None:
    """If the clock was set back and no target has been read since."""
    assert watched().state.current(END - 3600) is None


def test_metrics_json_and_page_have_the_same_group() -> None:
    """The same bottleneck; a target's name is escaped."""
    state, at = watched().state, END + 1
    families = {f.name: f for f in GroupCollector(lambda: [state], lambda: at).collect()}
    [sample] = families["mysql_headroom_group_bottleneck_info"].samples
    assert sample.labels == {"group": "shop", "target": "b"}
    [group] = json.loads(groups_as_json([state], at))["groups"]
    assert group["summary"]["bottleneck"] == "b"
    assert [one["target"] for one in group["summary"]["nodes"]] == list(NAMES)
    assert group["scaling"]["reasons"][0]["reason"] == "nodes_did_not_vary"
    assert "b has the least headroom" in groups_section([state], at)


def test_clock_offsets_are_shown() -> None:
    """Each against the agent's, and their difference; one that is down has none."""
    ahead, behind = ClockOffset(0.0205, 0.0005), ClockOffset(-0.01, 0.001)
    told = [
        replace(s, clock_offset=c) for s, c in zip(SNAPSHOTS, (ahead, behind, ahead), strict=True)
    ]
    monitor = GroupMonitor("shop", NAMES, WIDTH, stale=100.0)
    monitor.observe([*told[:2], replace(told[2], health=Health(up=False))], END + 1)
    state, at = monitor.state, END + 1
    assert state.clocks == {"a": ahead, "b": behind}
    [group] = json.loads(groups_as_json([state], at))["groups"]
    apart = group["summary"]["clock_difference"]
    assert apart == pytest.approx({"seconds": 0.0305, "uncertainty": 0.0015})
    [of_a, _, of_c] = [node["clock_offset"] for node in group["summary"]["nodes"]]
    assert (of_a, of_c) == ({"seconds": 0.0205, "uncertainty": 0.0005}, None)
    assert "+20.5 ± 0.5 ms" in groups_section([state], at)
    families = {f.name: f for f in GroupCollector(lambda: [state], lambda: at).collect()}
    [sample] = families["mysql_headroom_group_clock_difference_seconds"].samples
    assert sample.value == pytest.approx(0.0305)


def test_the_layers_of_a_group_are_shown() -> None:
    """Of 500 s in 300 s 84 % on resources; a quarter of a thread applies, an eighth waits."""
    use, seen = known_time_use(END), Replication(0.0, applying=0.25, waiting=0.125)
    told = [replace(SNAPSHOTS[0], time_use=use, replication=seen), *SNAPSHOTS[1:]]
    monitor = GroupMonitor("shop", NAMES, WIDTH, stale=100.0)
    monitor.observe(told, END + 1)
    state, at = monitor.state, END + 1
    [group] = json.loads(groups_as_json([state], at))["groups"]
    first, second, _ = (node["layers"] for node in group["summary"]["nodes"])
    system, distribution, application = 420 / 300, 0.375, 80 / 300 - 0.125
    assert first == pytest.approx(
        {"system": system, "distribution": distribution, "application": application}
    )
    assert second is None
    shares = group["summary"]["layer_shares"]
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["distribution"] == pytest.approx(0.375 / (500 / 300 + 0.25))
    assert (
        "Shares of the time: system 73 %, distribution 20 %, application 7 %."
        in layer_sentences(state)
    )
    assert escape(layer_sentences(state)) in groups_section([state], at)


TARGETS = """
fit: {interval: 10s, stale_after: 100s}
targets:
  - {name: a, user: u, group: shop}
  - {name: b, user: u, port: 3307, group: shop}
  - {name: c, user: u, port: 3308, group: shop}
"""


def configured(folder: Path, text: str = TARGETS) -> Config:
    """The configuration with this text."""
    file = folder / "config.yaml"
    file.write_text(text)
    return load_config(file)


def test_an_unchanged_group_survives_a_reload(tmp_path: Path) -> None:
    """A changed one begins again, and a removed one is not shown."""
    groups = Groups(configured(tmp_path), lambda: SNAPSHOTS)
    groups.tick(0.0)
    [state] = groups.states()
    assert state.summary is not None
    groups.apply(configured(tmp_path))
    assert groups.states() == [state]
    groups.apply(configured(tmp_path, TARGETS.replace("100s", "200s")))
    assert [(each.name, each.summary) for each in groups.states()] == [("shop", None)]
    groups.apply(configured(tmp_path, TARGETS.replace(", group: shop", "")))
    assert groups.states() == []


def test_a_summary_of_long_intervals_is_shown_until_the_next(tmp_path: Path) -> None:
    """For three intervals, like a target's load, where `stale_after` is shorter."""
    text = TARGETS.replace("interval: 10s, stale_after: 100s", "interval: 600s, stale_after: 300s")
    groups = Groups(configured(tmp_path, text), list)
    [state] = groups.states()
    assert state.stale_after == 1800.0


def test_the_targets_of_a_group_must_have_one_interval(tmp_path: Path) -> None:
    """Else no interval is common to all; the message names the group."""
    text = TARGETS.replace("port: 3308", "port: 3308, fit: {interval: 20s}")
    with pytest.raises(ConfigError, match=r"20s, but the first target of the group 'shop' has 10s"):
        configured(tmp_path, text)


def test_a_group_has_few_series() -> None:
    """Of three targets two dozen, whatever they do."""
    state = watched().state
    families = GroupCollector(lambda: [state], lambda: END + 1).collect()
    assert sum(len(family.samples) for family in families) <= 24


def test_a_target_without_an_interval_is_lost_and_not_zero() -> None:
    """One that was never read: its group is shown, its throughput is not."""
    monitor = GroupMonitor("shop", NAMES, WIDTH, stale=100.0)
    none = Snapshot("c", END, 100.0, UP, None, AssessmentState())
    monitor.observe([*SNAPSHOTS[:2], none], END + 1)
    assert monitor.state.summary is None  # it is up, and has an interval's time
    monitor.observe([*(later(s, 1) for s in SNAPSHOTS[:2]), none], END + WIDTH + 1)
    summary = monitor.state.current(END + WIDTH + 1)
    assert summary is not None
    assert summary.lost == ("c",)
    assert summary.nodes[2].throughput is None
