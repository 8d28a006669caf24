"""From window to snapshot: which source, which points, when there is a prediction and when not."""

from dataclasses import replace

import numpy as np
import pytest
from law_windows import (
    LAW,
    RISING,
    SETTINGS,
    UP,
    WAVES,
    WIDTH,
    ZERO,
    interval,
    intervals,
    known,
    now,
    seen_at,
    window,
    with_resources,
    with_usage,
)

from agent.assessment.assessed_intervals import Disposition
from agent.assessment.outlier_counts import OutlierCounts
from agent.assessment.snapshot import AssessmentState, Health
from agent.config.resources import DiskSettings, ResourceSettings
from agent.config.settings import FitSettings
from agent.pipeline import assess, assess_window, latest_load, observations
from agent.window.concurrency import ConcurrencySource, concurrency, idle_baseline
from agent.window.intervals import Interval, Window
from models.capacity.goodness_of_fit import Check
from models.capacity.outliers import OutlierReason
from models.capacity.result import CapacityReason
from models.trust import Reason, Trust


def law_points(state: AssessmentState) -> list[float]:
    """The concurrencies that the law was fitted to."""
    assert state.intervals is not None
    loads: list[float] = state.intervals.concurrency_and_throughput(Disposition.USED)[0].tolist()
    return loads


def test_clean_points_give_their_law() -> None:
    """The whole path finds the peak and trusts it; no limit is known, so it counts."""
    rows = intervals(RISING * 4)
    snapshot, at = known(rows), seen_at(rows)
    law, capacity = snapshot.current_law(at), snapshot.capacity(at)
    assert law is not None
    assert capacity is not None
    assert law.x_max == pytest.approx(LAW.x_max, rel=0.03)
    assert law.n_max is not None
    assert law.trust is Trust.TRUSTED
    assert (capacity.value, capacity.limit, capacity.trust) == (law.x_max, "usl", Trust.TRUSTED)
    assert capacity.value is not None
    left = 1 - float(LAW.throughput(36)) / capacity.value
    headroom = snapshot.headroom(at)
    assert headroom is not None
    assert headroom.ratio == pytest.approx(left, abs=1e-6)
    assert (headroom.overloaded, headroom.overload_loss) == (False, 0.0)


def test_past_the_peak_headroom_is_negative_and_there_is_a_loss() -> None:
    """Headroom counts the statements beyond those at the peak; the loss is 1 − X/C."""
    rows = intervals([*RISING * 4, 80.0, 80.0])
    snapshot, at = known(rows), seen_at(rows)
    headroom, capacity = snapshot.headroom(at), snapshot.capacity(at)
    assert headroom is not None
    assert capacity is not None
    assert capacity.value is not None
    assert capacity.concurrency is not None
    assert headroom.overloaded
    assert headroom.ratio == pytest.approx(1 - 80 / capacity.concurrency)
    assert headroom.overload_loss == pytest.approx(1 - rows[-1].throughput / capacity.value)
    assert 0.02 < headroom.overload_loss < 0.4


def test_a_limit_below_the_laws_peak_is_the_capacity() -> None:
    """The processor is full at 5,000 queries/s, long before contention shows: it is named."""
    rows = [row for row in intervals(WAVES) if row.throughput < 4500]
    rows = with_resources(
        [r._replace(end=WIDTH * (k + 1)) for k, r in enumerate(rows)], cpu=1 / 5000
    )
    capacity = known(rows).capacity(seen_at(rows))
    assert capacity is not None
    assert capacity.limit == "cpu"
    assert capacity.value == pytest.approx(5000, rel=0.1)
    [resource_limit] = capacity.resource_limits
    assert resource_limit.demand == pytest.approx(1 / 5000, rel=0.1)


@pytest.mark.parametrize(("before", "after"), [(50, 90), (90, 50), (90, 30)])
def test_a_new_max_connections_is_the_limit_at_once(before: int, after: int) -> None:
    """In the next interval, also below what clients had before; each asks 100 times/s."""

    def with_connections(row: Interval, most: int) -> Interval:
        clients = min(row.throughput / 100, most - 1.0)
        used = {"connections": (clients + 1) / most, "connections:open": clients}
        return row._replace(throughput=100 * clients, resources=used)

    loads = [1.0 + 7.0 * (0.5 + 0.5 * np.sin(k / 9.0)) for k in range(240)]
    rows = [with_connections(row, before) for row in intervals(loads)]
    rows[-1] = with_connections(intervals(loads)[-1], after)
    capacity = known(rows).capacity(seen_at(rows))
    assert capacity is not None
    [limit] = [each for each in capacity.resource_limits if each.resource == "connections"]
    assert limit.x_max == pytest.approx(100 * (after - 1), rel=0.05)


@pytest.mark.parametrize(("before", "after"), [(1.0, 2.0), (2.0, 1.0), (2.0, 0.5)])
def test_a_changed_quota_is_the_limit_at_once(before: float, after: float) -> None:
    """Four intervals after it; each query takes 1 ms of a processor, and waits for it (M/M/1)."""

    def with_quota(place: int, quota: float) -> Interval:
        x = min(500 + 350 * np.sin(place / 30), 980 * quota)
        share = {"cpu": x / 4000, "cpu:server": x / 4000, "server_cpu": x / 1000 / quota}
        used = {**share, "cpu:cpus": 4.0, "server_cpu:cpus": quota}
        load = x / 1000 / (1 - share["server_cpu"])
        return interval(place, load, throughput=x)._replace(resources=used)

    rows = [with_quota(place, before if place < 1000 else after) for place in range(1004)]
    capacity = known(rows).capacity(seen_at(rows))
    assert capacity is not None
    assert capacity.limit == "server_cpu"
    assert capacity.value == pytest.approx(1000 * after, rel=0.15)
    assert CapacityReason.MIX_CHANGED not in capacity.reasons


def test_statement_time_is_preferred_where_it_is_known() -> None:
    """Little's law is the better concurrency; Threads_running is the other."""
    by_time = assess_window(window(RISING), AssessmentState(), SETTINGS, now(101))
    by_threads = assess_window(
        window(RISING, statement_time=False), AssessmentState(), SETTINGS, now(101)
    )
    assert by_time.source is ConcurrencySource.STATEMENT_TIME
    assert by_threads.source is ConcurrencySource.THREADS_RUNNING
    assert law_points(by_threads) == RISING


def test_a_missing_source_is_replaced_by_the_other() -> None:
    """When performance_schema goes away, Threads_running is used at once."""
    before = intervals(RISING * 5)
    after = [interval(50 + k, load, statement_time=False) for k, load in enumerate(RISING * 2)]
    state = assess_window(Window([*before, *after]), AssessmentState(), SETTINGS, now(701))
    assert state.source is ConcurrencySource.THREADS_RUNNING


def test_the_source_is_chosen_by_recent_time() -> None:
    """Not by the last rows of a window that was thinned."""
    old = [interval(100 * k, load, statement_time=False) for k, load in enumerate(RISING)]
    young = [interval(1000 + k, load) for k, load in enumerate(RISING[:4])]
    state = assess_window(Window([*old, *young]), AssessmentState(), SETTINGS, now(10_041))
    assert state.source is ConcurrencySource.STATEMENT_TIME


def test_a_noisy_source_widens_the_interval() -> None:
    """Ten readings of Threads_running are no exact concurrency."""
    rows = [intervals(RISING[:9], statement_time=exact) for exact in (True, False)]
    exact, noisy = (known(found).current_law(seen_at(found)) for found in rows)
    assert exact is not None
    assert exact.x_max_interval is not None
    assert noisy is not None
    assert noisy.x_max_interval is not None
    assert noisy.x_max_interval.ratio > exact.x_max_interval.ratio


def test_idle_intervals_do_not_enter_the_law() -> None:
    """A night without load says nothing about the limit."""
    state = assess_window(window(RISING, idle=50), AssessmentState(), SETTINGS, now(601))
    assert law_points(state) == RISING
    assert state.intervals is not None
    assert np.count_nonzero(state.intervals.dispositions == Disposition.IDLE.value) > 0


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "no complete interval yet"),
        ([interval(0, 0.0, throughput=0.0)], "no query in 1 interval"),
        ([interval(k, 0.0, throughput=0.0) for k in range(5)], "no query in 5 intervals"),
    ],
    ids=["nothing", "first", "idle"],
)
def test_without_a_query_the_missing_data_is_reported(rows: list[Interval], words: str) -> None:
    """There is a reason, and no number."""
    state = assess_window(Window(rows), AssessmentState(), SETTINGS, now(60))
    assert (state.capacity, state.waiting) == (None, words)


def test_two_intervals_give_a_lower_bound_and_no_law() -> None:
    """A throughput that was served is possible; the law has its reason."""
    rows = intervals([4.0, 5.0])
    snapshot, at = known(rows), seen_at(rows)
    capacity, refusal = snapshot.capacity(at), snapshot.law_refusal(at)
    assert capacity is not None
    assert refusal is not None
    assert (capacity.value, capacity.trust) == (None, Trust.NOT_IDENTIFIABLE)
    assert capacity.lower == pytest.approx(LAW.throughput(5.0), rel=0.05)
    assert snapshot.current_law(at) is None
    assert refusal.check is Check.FEW_POINTS


def test_two_or_three_threads_running_refuse_the_law_and_not_the_limit() -> None:
    """The white paper's almost random data: no law, but a processor limit."""
    rng = np.random.default_rng(1)
    loads = 1.0 + 1.5 * rng.random(80)
    rows = with_resources(intervals(loads.tolist(), statement_time=False), cpu=1 / 1400)
    snapshot, at = known(rows), seen_at(rows)
    refusal, capacity = snapshot.law_refusal(at), snapshot.capacity(at)
    assert snapshot.current_law(at) is None
    assert refusal is not None
    assert refusal.check is Check.LOW_CONCURRENCY
    assert capacity is not None
    assert capacity.limit == "cpu"
    assert capacity.value == pytest.approx(1400, rel=0.15)
    assert CapacityReason.CONCURRENCY_UNKNOWN in capacity.reasons


def test_the_capacitys_doubts_apply_to_its_law() -> None:
    """A law of the wrong shape is not trusted by itself."""
    loads = np.linspace(1, 40, 120)
    bent = [
        interval(k, load, throughput=float(LAW.throughput(load)) * (1 + 0.12 * np.sin(load / 3)))
        for k, load in enumerate(loads)
    ]
    law = known(bent).current_law(seen_at(bent))
    assert law is not None
    assert law.trust is not Trust.TRUSTED
    assert Reason.RESIDUAL_PATTERN in law.reasons


def test_the_same_window_is_not_assessed_twice() -> None:
    """Until the next interval the assessment stays, also one without a result."""
    for rows in (intervals(RISING), [interval(0, 0.0, throughput=0.0)]):
        at = rows[-1].end + 1
        first = assess_window(Window(rows), AssessmentState(), SETTINGS, now(at))
        assert assess_window(Window(rows), first, SETTINGS, now(at + 3)) is first
        longer = [*rows, interval(len(rows), 40.0)]
        assert assess_window(Window(longer), first, SETTINGS, now(at + 10)) is not first


def test_the_load_is_that_of_the_latest_interval() -> None:
    """Its end is in Unix time; an unknown source has no number."""
    load = latest_load(window([1.0, 3.0], statement_time=False), now(25))
    assert load is not None
    assert load.end == ZERO + 20
    assert load.throughput == pytest.approx(float(LAW.throughput(3.0)))
    assert load.concurrency == {ConcurrencySource.THREADS_RUNNING: 3.0}
    assert load.excluded == {"agent": 1.0, "binlog_dump": 1.0, "idle_baseline": 0.0}


def test_a_permanently_running_thread_is_measured_and_subtracted() -> None:
    """A monitor that always runs is one thread in every sample, and no load."""
    loads = [1.02] * 8 + [load + 1.0 for load in RISING]
    rows = [
        interval(k, load, statement_time=False, throughput=0.0 if k < 8 else None)
        for k, load in enumerate(loads)
    ]
    found = Window(rows)
    assert idle_baseline(found) == 1.0
    net = concurrency(found, ConcurrencySource.THREADS_RUNNING)
    assert net[8:] == pytest.approx(RISING)
    assert net[:8] == pytest.approx([0.02] * 8)
    load = latest_load(found, now(200))
    assert load is not None
    assert load.excluded["idle_baseline"] == 1.0
    assert load.concurrency[ConcurrencySource.THREADS_RUNNING] == pytest.approx(RISING[-1])


def half_idle(busy: float, idle: float) -> list[Interval]:
    """Every other interval without a query, and how many threads ran in each kind."""
    return [
        interval(k, idle if k % 2 else busy, throughput=0.0 if k % 2 else 900.0) for k in range(60)
    ]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(intervals([20.0] * 30), id="never idle"),
        pytest.param(half_idle(9.0, 40.0), id="stalls"),
        pytest.param(half_idle(9.0, 0.6), id="now and then"),
        pytest.param(half_idle(9.0, 3.0)[:6], id="too few to tell"),
        pytest.param([], id="nothing"),
    ],
)
def test_work_is_not_mistaken_for_the_idle_baseline(rows: list[Interval]) -> None:
    """Neither load nor a stall, nor threads that run only in most samples."""
    assert idle_baseline(Window(rows)) == 0.0


def test_a_resource_counts_once_it_has_a_ceiling() -> None:
    """Operations per second mean nothing without the possible number."""
    rows = with_usage(intervals(RISING), {"cpu": 0.4, "disk:sda:operations_per_second": 600.0})
    limits = ResourceSettings(ceilings={"cpu": 0.8}, disks={"sda": DiskSettings(operations=3000)})
    found = Window(rows)
    bare = latest_load(found, now(101))
    given = latest_load(found, now(101), limits)
    assert bare is not None
    assert bare.resources == pytest.approx({"cpu": 0.4})
    assert given is not None
    assert given.resources == pytest.approx({"cpu": 0.5, "disk:sda:operations": 0.2})
    seen = observations(found, ConcurrencySource.STATEMENT_TIME, limits)
    assert {r.name: r.ceiling for r in seen.resources} == {"cpu": 0.8, "disk:sda:operations": 3000}


def test_the_latest_clock_rate_is_shown_and_is_no_utilisation() -> None:
    """The capacity has it with the processor; where it is not known it is absent."""
    rows = with_usage(intervals(RISING), {"cpu": 0.5, "cpu:clock": 0.75})
    load = latest_load(Window(rows), now(101))
    assert load is not None
    assert (load.resources, load.cpu_clock_rate) == ({"cpu": 0.5}, 0.75)
    [cpu] = observations(Window(rows), ConcurrencySource.STATEMENT_TIME).resources
    assert cpu.clock is not None
    assert cpu.clock.tolist() == [0.75] * len(RISING)
    rows[-1] = rows[-1]._replace(resources={"cpu": 0.5})
    load = latest_load(Window(rows), now(101))
    assert load is not None
    assert load.cpu_clock_rate is None


def test_a_long_window_is_thinned_for_the_models() -> None:
    """However many intervals, the models get at most the limit, and all loads."""
    rows = intervals(WAVES * 20)
    state = assess_window(Window(rows), AssessmentState(), SETTINGS, now(rows[-1].end + 1))
    assert state.intervals is not None
    assert len(state.intervals) <= 500
    assert state.intervals.concurrency.max() == pytest.approx(max(WAVES), rel=0.01)


def pile_up(rows: list[Interval], *places: int) -> list[Interval]:
    """The same, with intervals in which queries took ten times as long."""
    return [
        row._replace(statement_time=10 * row.statement_time) if k in places else row
        for k, row in enumerate(rows)
    ]


def test_each_outlier_is_counted_once_over_all_assessments() -> None:
    """The counter is of intervals left out, not of how often they were found."""
    rows = pile_up(intervals(WAVES), 50, 80)
    state = AssessmentState()
    for length in range(90, 121, 3):
        state = known(rows[:length], previous=state).assessed
    assert state.outlier_counts.outliers[OutlierReason.PILE_UP] == 2
    assert state.outlier_counts.outliers[OutlierReason.GLITCH] == 0
    assert state.intervals is not None
    assert [left.reason for left in state.intervals.outliers] == [OutlierReason.PILE_UP] * 2
    assert [left.at for left in state.intervals.outliers] == pytest.approx(
        [ZERO + rows[50].end, ZERO + rows[80].end]
    )
    out = state.intervals.dispositions == Disposition.OUTLIER.value
    assert state.intervals.at[out].tolist() == [left.at for left in state.intervals.outliers]


def test_a_pile_up_leaves_the_law_trusted() -> None:
    """The load is far beyond its peak, as the alert on pile-ups requires."""
    rows = intervals(WAVES * 2)
    rows += [interval(len(rows) + k, 200.0, throughput=800.0) for k in range(10)]
    snapshot, at = known(rows), seen_at(rows)
    law, place = snapshot.current_law(at), snapshot.operating_point(at)
    assert law is not None
    assert law.trust is Trust.TRUSTED
    assert law.n_max_interval is not None
    assert place is not None
    assert place[0] > 1.5 * law.n_max_interval.high
    assert law.x_max is not None
    assert place[1] < 0.7 * law.x_max
    headroom = snapshot.headroom(at)
    assert headroom is not None
    assert not headroom.overloaded
    assert snapshot.assessed.outlier_counts.outliers[OutlierReason.PILE_UP] == 10


def test_outliers_from_before_the_start_are_not_counted() -> None:
    """Intervals from the history were counted by the process that saw them."""
    rows = pile_up(intervals(WAVES), 50, 80)
    state = AssessmentState(outlier_counts=OutlierCounts(counted_since=rows[60].end))
    assert known(rows, previous=state).assessed.outlier_counts.outliers[OutlierReason.PILE_UP] == 1


def test_the_memory_of_counted_outliers_is_bounded() -> None:
    """Ends are dropped with their intervals; the count goes on."""
    rows = pile_up(intervals(WAVES), 20)
    record = known(rows).assessed.outlier_counts
    assert len(record.counted_ends) == 1
    later = [row._replace(end=row.end + 5000.0) for row in intervals(WAVES)]
    again = known(later, previous=AssessmentState(outlier_counts=record)).assessed.outlier_counts
    assert len(again.counted_ends) == 0
    assert again.outliers[OutlierReason.PILE_UP] == 1


def test_a_changed_mix_is_reported_with_its_time() -> None:
    """From the 150th interval on a query takes half as much again: older ones are left out."""
    loads = [load / 4 for load in WAVES] * 2
    rows = [
        interval(k, load, throughput=float(LAW.throughput(load)) / (1 if k < 150 else 1.5))
        for k, load in enumerate(loads)
    ]
    state = known(rows).assessed
    assert state.capacity is not None
    assert CapacityReason.MIX_CHANGED in state.capacity.reasons
    assert state.outlier_counts.mix_changed_at == pytest.approx(
        ZERO + rows[150].end, abs=10 * WIDTH
    )
    assert state.intervals is not None
    assert (state.intervals.dispositions[:100] == Disposition.OTHER_WORKLOAD.value).all()
    later = known(
        intervals(RISING), previous=AssessmentState(outlier_counts=state.outlier_counts)
    ).assessed
    assert later.outlier_counts.mix_changed_at == state.outlier_counts.mix_changed_at


def test_a_stale_fit_and_a_stale_load_are_withheld() -> None:
    """What is older than allowed has no number."""
    rows = intervals(RISING)
    snapshot = known(rows)
    late = ZERO + 100 + SETTINGS.stale_after + 1
    assert snapshot.current_law(late - 2) is not None
    assert snapshot.current_law(late) is None
    assert snapshot.capacity(late) is None
    assert snapshot.current_load(late) is None
    assert snapshot.headroom(late) is None


def test_data_younger_than_three_intervals_is_not_stale() -> None:
    """Intervals of ten minutes do not make every prediction stale after five."""
    wide = FitSettings(interval=600.0)
    rows = [row._replace(end=60 * row.end, seconds=600.0) for row in intervals(RISING)]
    snapshot = assess("db", Window(rows), UP, AssessmentState(), wide, now(6001))
    assert snapshot.current_law(ZERO + 6000 + 1500) is not None


def test_a_server_that_is_down_keeps_its_capacity_without_a_load() -> None:
    """A load that cannot be read is not shown; the capacity has not changed."""
    rows = intervals(RISING)
    snapshot, at = known(rows, Health(up=False)), seen_at(rows)
    assert snapshot.current_load(at) is None
    assert snapshot.headroom(at) is None
    assert snapshot.current_law(at) is not None
    assert replace(snapshot, health=UP).headroom(at) is not None
