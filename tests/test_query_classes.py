"""Samples in, classes out: the live models against a simulated server whose CPU per class is known.

The promise that holds whatever the models say: classes and what is unattributed are all there is.
"""

import weakref
from dataclasses import replace

import numpy as np
import pytest
from class_samples import START, samples
from simulated_classes import Simulated, simulate

from agent.assessment.snapshot import AssessmentState, Health, Snapshot
from agent.config.query_class_settings import ClassSettings
from agent.export.class_table_html import classes_table
from agent.query_classes.assessment import ClassMonitor
from agent.query_classes.attribution_snapshot import ClassesState
from agent.query_classes.digest_deltas import LossReason
from collectors.base import Sample
from collectors.digest_table import MAX_ROWS
from collectors.digests import DigestRows, DigestValues
from models.arrays import Array
from models.attribution.class_interval_table import AGENT, OTHER
from models.attribution.result import AttributionReason, DivisionMethod, disagreement

SECONDS = 600
SETTINGS = ClassSettings(top=20, interval=60.0, window=600.0)


def followed(
    simulated: Simulated, settings: ClassSettings = SETTINGS, **how: bool
) -> tuple[ClassMonitor, list[ClassesState]]:
    """Every state on the way."""
    classes, states = ClassMonitor(settings), list[ClassesState]()
    for sample in samples(simulated, **how):
        feed(classes, states, sample)
    return classes, states


def feed(classes: ClassMonitor, states: list[ClassesState], sample: Sample) -> None:
    """One sample, and the state that follows if it is a new one."""
    classes.append(sample)
    classes.advance(sample.at, 1e9 + sample.at)
    if classes.state is not None and (not states or states[-1] is not classes.state):
        states.append(classes.state)


def recent(state: ClassesState, names: tuple[str, ...], resource: str = "cpu") -> Array:
    """What each class used recently."""
    found = {c.name.digest: c.recent[resource] for c in state.classes}
    return np.array([found.get(name, 0.0) for name in names])


def whole(state: ClassesState, quantity: str) -> float:
    """All classes and what is unattributed."""
    resource = state.resource(quantity)
    left = resource.unattributed if resource else 0.0
    return sum(c.totals[quantity] for c in state.classes) + (left or 0.0)


@pytest.mark.parametrize("texts", [True, False])
@pytest.mark.parametrize("base", [0.03, 0.4])
def test_estimates_are_near_the_truth_and_sleepers_get_little(texts: bool, base: float) -> None:
    """From sums of minutes, with texts and without, with much or little unattributed."""
    simulated = simulate(4, intervals=SECONDS, base=base)
    _, states = followed(simulated, texts=texts)
    state = states[-1]
    cpu = state.resource("cpu")
    assert cpu is not None
    assert cpu.source is (DivisionMethod.WORK_TIME if texts else DivisionMethod.LEARNED)
    names = simulated.intervals.names
    use = recent(state, names)
    score = disagreement(use, simulated.truth.sum(axis=0))
    assert score is not None
    assert score < 0.2
    assert use[names.index("sleep")] < 0.02 * use.sum()
    assert cpu.held_out.mape is not None
    assert cpu.held_out.mape < 0.08
    true_share = 1 - simulated.truth.sum() / simulated.y.sum()
    assert cpu.unattributed_share == pytest.approx(true_share, abs=0.06)


@pytest.mark.parametrize("seconds", [30, 60])
def test_a_minute_with_one_or_two_readings_is_used_too(seconds: int) -> None:
    """A large table is read every half minute, or as configured; an hour has enough readings."""
    simulated = simulate(4, intervals=3600)
    classes, states = ClassMonitor(SETTINGS), list[ClassesState]()
    for sample in samples(simulated, texts=False):
        if sample.collector != "digests" or round(sample.at - START) % seconds == 0:
            feed(classes, states, sample)
    cpu = states[-1].resource("cpu")
    assert cpu is not None
    assert cpu.held_out.mape is not None
    assert cpu.held_out.mape < 0.08
    names = simulated.intervals.names
    score = disagreement(recent(states[-1], names), simulated.truth[-600:].sum(axis=0))
    assert score is not None
    assert score < 0.3


@pytest.mark.parametrize("seconds", [10, 20, 60])
def test_the_host_may_be_sampled_less_often_than_the_classes(seconds: int) -> None:
    """Its CPU is known between any two of its samples, which are waited for."""
    simulated = simulate(4, intervals=3600)
    classes, states = ClassMonitor(SETTINGS, float(seconds)), list[ClassesState]()
    for sample in samples(simulated):
        phase = (
            round(sample.at - START)
            % {"digests": 15, "host": seconds, "status": 5}[sample.collector]
        )
        if phase == (9 if sample.collector == "host" else 0):
            feed(classes, states, sample)
    cpu = states[-1].resource("cpu")
    assert cpu is not None
    names = simulated.intervals.names
    score = disagreement(recent(states[-1], names), simulated.truth[-600:].sum(axis=0))
    assert score is not None
    assert score < 0.3
    assert whole(states[-1], "cpu") == pytest.approx(float(simulated.y.sum()), rel=0.1)


@pytest.mark.parametrize("measured", [True, False])
def test_classes_and_unattributed_add_up_to_the_whole(measured: bool) -> None:
    """At every minute: CPU as the host counts it, calls as the server does."""
    simulated = simulate(5, intervals=SECONDS)
    _, states = followed(simulated, measured=measured)
    assert len(states) == SECONDS // 60 - 1
    assert simulated.intervals.count is not None
    for state in states:
        last = round(state.at - 1e9 - START)
        cpu = float(simulated.y[1 : last + 1].sum())
        assert whole(state, "cpu") == pytest.approx(cpu, rel=1e-9)
        assert whole(state, "user_cpu") == pytest.approx(0.8 * cpu, rel=1e-9)
        calls = float(simulated.intervals.count[1 : last + 1].sum())
        assert whole(state, "calls") == pytest.approx(calls)


@pytest.mark.parametrize("measured", [True, False])
def test_the_recent_total_is_the_whole_servers(measured: bool) -> None:
    """Including the unattributed: a class's part of a limit is a part of that."""
    simulated = simulate(4, intervals=SECONDS, base=0.4)
    _, states = followed(simulated, measured=measured)
    total, keep, first = 0.0, 1 - SETTINGS.interval / SETTINGS.window, 1
    for state in states:
        last = round(state.at - 1e9 - START)
        total = keep * total + float(simulated.y[first : last + 1].sum())
        first = last + 1
    cpu = states[-1].resource("cpu")
    assert cpu is not None
    assert cpu.total == pytest.approx(total)


def test_measured_cpu_is_used_and_the_estimate_compared_with_it() -> None:
    """What the server measures is exact; its difference from the estimate is reported."""
    simulated = simulate(6, intervals=SECONDS)
    _, states = followed(simulated, measured=True)
    state = states[-1]
    cpu = state.resource("cpu")
    assert cpu is not None
    assert cpu.source is DivisionMethod.MEASURED
    score = disagreement(recent(state, simulated.intervals.names), simulated.truth.sum(axis=0))
    assert score == pytest.approx(0.0, abs=0.06)  # older minutes count less
    assert cpu.disagreement is not None
    assert 0 < cpu.disagreement < 0.25
    assert all(c.error is None for c in state.classes)


def test_without_the_host_measured_cpu_is_still_known_and_the_rest_absent() -> None:
    """The server on another machine: no whole, so nothing unattributed, and no disk."""
    _, states = followed(simulate(7, intervals=200), host=False, measured=True)
    state = states[-1]
    cpu = state.resource("cpu")
    assert cpu is not None
    assert (cpu.source, cpu.unattributed, cpu.unattributed_share) == (
        DivisionMethod.MEASURED,
        None,
        None,
    )
    assert {r.name for r in state.resources} == {"cpu", "row_operations"}
    assert all("read" not in c.totals for c in state.classes)


def test_measured_cpu_counts_where_the_hosts_is_not_known_for_a_while() -> None:
    """The host is first read after some readings of the digests; nothing of it is unattributed."""
    simulated = simulate(7, intervals=200)
    classes, states = ClassMonitor(SETTINGS), list[ClassesState]()
    for sample in samples(simulated, measured=True):
        if sample.collector != "host" or sample.at >= START + 30:
            feed(classes, states, sample)
    for state in states:
        last = round(state.at - 1e9 - START)
        measured = float(simulated.truth[1 : last + 1].sum())
        assert sum(one.totals["cpu"] for one in state.classes) == pytest.approx(measured)
        known = float((simulated.y - simulated.truth.sum(axis=1))[31 : last + 1].sum())
        cpu = state.resource("cpu")
        assert cpu is not None
        assert cpu.unattributed == pytest.approx(known)


def test_a_resource_unknown_for_a_whole_window_is_forgotten() -> None:
    """Earlier CPU is no present share: classes are then ranked by time."""
    simulated = simulate(7, intervals=1200)
    classes, states = ClassMonitor(SETTINGS), list[ClassesState]()
    for sample in samples(simulated):
        if sample.collector != "host" or sample.at < START + 300:
            feed(classes, states, sample)
    assert states[-1].at > 1e9 + START + 300 + SETTINGS.window + SETTINGS.interval
    for state in states:
        cpu, seconds = state.resource("cpu"), state.at - 1e9 - START - 300
        assert cpu is not None
        assert (cpu.total > 0) == (seconds < SETTINGS.window)
        assert any(one.recent["cpu"] for one in state.classes) == (cpu.total > 0)
        table = classes_table(snapshot_of(state), state.at)
        assert ("CPU is not known here" in table) == (cpu.total == 0)
        assert "sleep" in table


def snapshot_of(state: ClassesState) -> Snapshot:
    """A snapshot that has nothing but query classes."""
    return Snapshot("db", state.at, 60.0, Health(True), None, AssessmentState(), state)


def test_without_any_cpu_the_classes_are_ranked_by_time() -> None:
    """There is no CPU at all, not even zero."""
    _, states = followed(simulate(7, intervals=200), host=False)
    state = states[-1]
    assert state.resource("cpu") is None
    assert all("cpu" not in c.totals for c in state.classes)
    assert len(state.classes) > 2


def test_a_constant_load_is_still_divided() -> None:
    """Where base and classes cannot be distinguished, the prior has a small base."""
    steady = simulate(11, intervals=300)
    ones = np.ones((300, 1))

    def flat(table: Array) -> Array:
        return np.asarray(ones * table.mean(axis=0))

    intervals = steady.intervals
    assert intervals.count is not None
    assert intervals.lock_time is not None
    level = replace(
        intervals,
        count=flat(intervals.count),
        statement_time=flat(intervals.statement_time),
        lock_time=flat(intervals.lock_time),
        sizes=tuple((name, flat(table)) for name, table in intervals.sizes),
    )
    _, states = followed(Simulated(level, ones[:, 0] * steady.y.mean(), flat(steady.truth)))
    for name in ("cpu", "row_operations"):
        resource = states[-1].resource(name)
        assert resource is not None
        assert resource.unattributed_share is not None
        assert resource.unattributed_share < 0.3


def test_a_varying_cost_per_call_is_a_reason() -> None:
    """As on a server that is limited by its disks."""
    _, states = followed(simulate(8, intervals=SECONDS, cost_drift=0.5))
    cpu = states[-1].resource("cpu")
    assert cpu is not None
    assert AttributionReason.COST_VARIES in cpu.reasons
    _, states = followed(simulate(8, intervals=SECONDS))
    steady = states[-1].resource("cpu")
    assert steady is not None
    assert AttributionReason.COST_VARIES not in steady.reasons


def test_measured_cpu_has_no_reasons() -> None:
    """What the models cannot predict is no doubt of what the server measures itself."""
    _, states = followed(simulate(8, intervals=200, cost_drift=0.5), measured=True)
    cpu, user_cpu = states[-1].resource("cpu"), states[-1].resource("user_cpu")
    assert cpu is not None
    assert user_cpu is not None
    assert AttributionReason.COST_VARIES in user_cpu.reasons
    assert cpu.reasons == ()


def test_a_lost_interval_is_unattributed_and_its_total_is_kept() -> None:
    """The table is emptied: that second's CPU is unattributed, and no counter falls."""
    simulated = simulate(9, intervals=200)
    classes, states = ClassMonitor(SETTINGS), list[ClassesState]()
    emptied = None
    for sample in samples(simulated):
        if sample.collector == "digests" and sample.at >= START + 100:
            rows = sample.values.rows  # type: ignore[attr-defined]
            emptied = rows.counters.copy() if emptied is None else emptied
            rows.counters[:] = rows.counters - emptied
        feed(classes, states, sample)
    last = round(states[-1].at - 1e9 - START)
    assert states[-1].lost[LossReason.RESET] == 1
    assert whole(states[-1], "cpu") == pytest.approx(float(simulated.y[1 : last + 1].sum()))


def test_an_outage_does_not_count_as_time_of_the_recent_sums() -> None:
    """After an hour without the server its use per second is as before, not a tenth of it."""
    simulated = simulate(9, intervals=300)
    assert simulated.intervals.count is not None
    classes, states = ClassMonitor(SETTINGS), list[ClassesState]()
    for sample in samples(simulated):
        late = 3600.0 if sample.at >= START + 150 else 0.0
        feed(classes, states, replace(sample, at=sample.at + late))
    state = states[-1]
    assert state.lost[LossReason.RESTART] == 1
    calls = sum(one.recent["calls"] for one in state.classes) / state.recent_seconds
    per_second = simulated.intervals.count.sum() / len(simulated.intervals)
    assert calls == pytest.approx(per_second, rel=0.1)
    assert sum(used.seconds for used in classes.take_new_usage()) < 300


def test_the_number_of_kept_and_displayed_classes_is_limited() -> None:
    """Of 3,000 classes those that use most have a name, the others are one."""
    rng, count = np.random.default_rng(1), 3000
    base = simulate(10, intervals=130)
    names = tuple(f"q{k}" for k in range(count))
    use = rng.pareto(0.9, count) * rng.poisson(3, (130, count))
    empty = np.zeros_like(use)
    intervals = replace(
        base.intervals,
        names=names,
        statement_time=1e-3 * use,
        count=use,
        lock_time=empty,
        inflight_delta=empty,
        sizes=(("rows_examined", use), ("rows_sent", use)),
        texts=None,
    )
    truth = 0.5e-3 * use
    many = Simulated(intervals, truth.sum(axis=1), truth)
    classes, states = followed(many, ClassSettings(top=7))
    state = states[-1]
    shown = {c.name.digest for c in state.classes}
    assert len(shown) == 7 + 2
    assert {OTHER, AGENT} <= shown
    great = {names[k] for k in np.argsort(-truth.sum(axis=0))[:4]}
    assert great <= shown
    assert len(classes._window.tracked.keys) <= 200
    assert state.known == count


def test_rows_are_not_kept_after_the_comparison() -> None:
    """Those of the latest reading would take 3 MiB for 10,000 digests."""
    classes, readings = ClassMonitor(SETTINGS), list["weakref.ref[Array]"]()
    for sample in samples(simulate(intervals=90)):
        classes.append(sample)
        classes.advance(sample.at, sample.at)
        if isinstance(sample.values, DigestValues):
            readings.append(weakref.ref(sample.values.rows.age))
    del sample
    assert classes.state is not None
    assert not [reading for reading in readings if reading() is not None]


def test_a_rarely_used_class_of_a_large_table_stays_known() -> None:
    """Each row read at first stays known: an hourly report does not count as never read."""
    names, rng = ("calls", "statement_time"), range(MAX_ROWS)
    seldom, often = "1|seldom|=shop", "1|often|=shop"
    classes = ClassMonitor(ClassSettings(interval=10.0))
    for t in range(0, 60, 2):
        used = {often: 3.0 * t, **({seldom: 7.0} if t == 50 else {})}
        if t == 0:
            used = {**dict.fromkeys((f"1|{k:x}|=shop" for k in rng[2:]), 5.0), often: 0, seldom: 5}
        rows = DigestRows(
            names=names,
            keys=list(used),
            counters=np.array([[calls, 0.001 * calls] for calls in used.values()]),
            age=np.full(len(used), 1e6),
            complete=t == 0,
            since=2.0 if t else None,
            running={},
            texts={},
            own_digests=frozenset(),
        )
        classes.append(Sample("digests", START + t, DigestValues(rows, {})))
        classes.append(Sample("status", START + t, {"uptime": 900.0 + t}))
        classes.advance(START + t, 1e9 + t)
    assert classes.state is not None
    assert not any(classes.state.lost.values())
    assert whole(classes.state, "calls") == 3.0 * (classes.state.at - 1e9) + 2.0


@pytest.mark.parametrize("measured", [True, False])
def test_recent_use_of_all_others_is_that_of_every_class_not_displayed(measured: bool) -> None:
    """With two of eleven displayed, shares are of the whole server's use, not of their own."""
    simulated = simulate(4, intervals=SECONDS)
    two = ClassSettings(top=2, interval=SETTINGS.interval, window=SETTINGS.window)
    all_shown = followed(simulated, measured=measured)[1][-1]
    monitor, states = followed(simulated, two, measured=measured)
    some_shown = states[-1]
    assert len(some_shown.classes) == 2 + len((OTHER, AGENT))
    for quantity in ("cpu", "calls", "statement_time", "lock_time", "rows_sent"):
        use = sum(one.recent[quantity] for one in all_shown.classes)
        assert use > 0
        assert sum(one.recent[quantity] for one in some_shown.classes) == pytest.approx(use)
    rest = next(one for one in some_shown.classes if one.name.digest == OTHER)
    assert (rest.error is None) == measured
    errors = [c.error for c in all_shown.classes if c.error is not None]
    last = monitor.take_new_usage()[-1]
    of_rest = last.cpu_error.get(OTHER, 0.0) / last.uses[OTHER]["cpu"]
    assert of_rest == pytest.approx(rest.error or 0.0)
    assert measured or (rest.error is not None and 0 < rest.error < max(errors))


@pytest.mark.parametrize("backlog", [1, 45])
def test_after_renumbering_no_class_gets_anothers_use(
    monkeypatch: pytest.MonkeyPatch, backlog: int
) -> None:
    """Also if several minutes are processed at once; lost intervals are counted."""
    monkeypatch.setattr("agent.query_classes.assessment.MAX_KNOWN_CLASSES", 5)
    monkeypatch.setattr("agent.query_classes.assessment.MAX_TRACKED", 3)
    simulated = simulate(4, intervals=300)
    classes = ClassMonitor(ClassSettings(interval=10.0, window=600.0, digest_text=True))
    states = list[ClassesState]()
    for i, sample in enumerate(samples(simulated, measured=True)):
        classes.append(sample)
        if i % (3 * backlog) == 3 * backlog - 1:
            classes.advance(sample.at, 1e9 + sample.at)
            if classes.state is not None:
                states.append(classes.state)
    last = round(states[-1].at - 1e9 - START)
    assert states[-1].lost[LossReason.CHURN] > 5
    assert whole(states[-1], "cpu") == pytest.approx(float(simulated.y[1 : last + 1].sum()))
    used = dict(zip(simulated.intervals.names, simulated.truth.sum(axis=0), strict=True))
    for one in states[-1].classes:
        if one.name.digest in used:
            assert one.totals["cpu"] <= used[one.name.digest] * (1 + 1e-9)
            assert one.text is not None
