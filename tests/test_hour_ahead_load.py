"""The load of the last week in the agent: from intervals and the history to the next hour."""

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from history_rows import SERVER, SETTINGS
from law_windows import WAVES, intervals, known, seen_at, with_resources
from prometheus_client import CollectorRegistry

from agent.assessment.hourly_load import HourlyLoad
from agent.assessment.load_by_time_step import LoadSum
from agent.assessment.recent_load import KEPT_STEPS, LoadOutlook, RecentLoad
from agent.assessment.snapshot import Snapshot
from agent.config.settings import Config, FitSettings
from agent.export.metrics_text import encode_metrics
from agent.export.page import render
from agent.export.snapshot_json import snapshots_as_json
from agent.export.snapshot_metrics import SnapshotCollector
from agent.history.row_kinds import Row
from agent.history.store import Store
from agent.history.write_buffer import Batch
from agent.replay.alert_rules import Alerts, Scrape
from agent.replay.bulk_intervals import add_readings
from agent.replay.recorded_samples import Reading
from agent.replay.recording_player import IntervalRecording
from agent.replay.replay import Replay
from agent.service.target_monitor import TargetMonitor
from agent.support.clock_pair import ClockPair
from agent.window.interval_buffer import IntervalBuffer
from agent.window.intervals import Interval, Window
from collectors.base import Sample
from models.arrays import Array
from models.forecast.next_hour import DAY_STEPS, HORIZON_STEPS, STEP_SECONDS, Rise

DAY = 86_400.0
UNIX = 1_700_000_100.0  # not at the beginning of a step
WIDTH = 60.0


def daily(at: Array) -> Array:
    """Between 400 and 1600 queries/s a day, the lowest at 0 h UTC."""
    load: Array = 1000 - 600 * np.cos(2 * np.pi * np.asarray(at) / DAY)
    return load


def rows(start: float, end: float, width: float = WIDTH) -> list[Interval]:
    """Intervals of that load, their times Unix seconds; the processor is full at 2000/s."""
    [one] = intervals([1.0])
    ends = np.arange(start + width, end + 1e-6, width)
    return [
        one._replace(
            end=at,
            seconds=width,
            throughput=x,
            statement_time=0.005 * x,
            resources={"cpu": x / 2000},
        )
        for at, x in zip(ends.tolist(), daily(ends - width / 2).tolist(), strict=True)
    ]


def ratio(outlook: LoadOutlook | None, steps: int) -> float:
    """By how much the load usually rises within so many steps."""
    assert outlook is not None
    return float(np.exp(np.median(np.maximum(outlook.rises[steps].usual, 0.0))))


def rise_of(at: float, steps: int) -> float:
    """By how much it truly does."""
    ahead = np.float64(at - STEP_SECONDS / 2) + STEP_SECONDS * np.arange(steps + 1.0)
    return float(daily(ahead).max() / daily(ahead)[0])


@pytest.mark.parametrize("width", [15.0, 60.0, 300.0, 600.0])
def test_a_week_of_intervals_predicts_the_next_hour(width: float) -> None:
    """In the morning it rises as on the days before, whatever the intervals' width."""
    morning = UNIX - UNIX % DAY + 8 * 3600
    load, clock = RecentLoad(0.0), ClockPair(0.0, morning - 3 * DAY)
    window = Window(rows(morning - 3 * DAY, morning, width))
    moved = Window([row._replace(end=row.end - clock.unix) for row in window.as_intervals])
    load.observe(moved, clock)
    outlook = load.outlook(clock)
    assert outlook is not None
    last = max(STEP_SECONDS, width)
    assert outlook.level == pytest.approx(daily(np.array(morning - last / 2)), rel=0.02)
    for steps in HORIZON_STEPS:
        assert ratio(outlook, steps) == pytest.approx(rise_of(morning, steps), rel=0.06)


def test_the_level_is_that_of_the_last_five_minutes() -> None:
    """Whatever the phase of the steps, and however often it is computed."""
    load, level = RecentLoad(UNIX), 0.0
    for end in np.arange(UNIX + WIDTH, UNIX + 1500, WIDTH):
        window = Window(rows(UNIX, float(end)))
        for _ in range(2):
            load.observe(window, ClockPair(float(end), float(end)))
        outlook = load.outlook(ClockPair(float(end), float(end)))
        assert outlook is not None
        level = outlook.level
        expected = daily(np.array([end - STEP_SECONDS / 2])) if end >= UNIX + STEP_SECONDS else None
        assert expected is None or level == pytest.approx(expected[0], rel=0.01)
    assert level > 0
    assert RecentLoad(0.0).outlook(ClockPair(1.0, UNIX)) is None


def test_after_a_restart_the_level_is_not_that_of_one_interval() -> None:
    """Intervals that were read back count for the level as before."""
    created = UNIX + 600.0
    at = [row._replace(throughput=1000.0) for row in rows(UNIX, created, 15.0)]
    window = Window([*at, at[-1]._replace(end=created + 15.0, throughput=2500.0)])
    load, now = RecentLoad(created), ClockPair(created + 15.0, created + 15.0)
    load.observe(window, now)
    outlook = load.outlook(now)
    assert outlook is not None
    assert outlook.level == pytest.approx((19 * 1000 + 2500) / 20)


def test_steps_are_kept_for_a_week() -> None:
    """Seven days and two hours; the oldest is dropped for a new one."""
    load, first = RecentLoad(0.0), int(UNIX // STEP_SECONDS)
    load.restore(
        LoadSum(first + k, STEP_SECONDS, STEP_SECONDS * (1 + k % DAY_STEPS))
        for k in range(KEPT_STEPS + 9)
    )
    load.observe(
        Window(rows(0.0, STEP_SECONDS)),
        ClockPair(STEP_SECONDS, STEP_SECONDS * (first + KEPT_STEPS + 9)),
    )
    outlook = load.outlook(ClockPair(STEP_SECONDS, STEP_SECONDS * (first + KEPT_STEPS + 9)))
    assert outlook is not None
    assert len(outlook.rises[12].usual) == 7 * 13


@pytest.mark.parametrize("width", [300.0, 120.0])
def test_earlier_days_are_known_after_a_restart(width: float, tmp_path: Path) -> None:
    """The next agent's metrics use what the last one stored, and what has ended since."""
    store = Store(tmp_path / "history.db", SETTINGS)
    now = time.time()
    written = [
        Row(
            ("db", SERVER),
            round(1000 * r.end),
            (r.seconds, r.throughput, r.statement_time, 3.0, 20.0, 1.0, 0.0, 0.0, r.resources),
        )
        for r in rows(now - 4 * DAY, now, width)
    ]
    store.put(Batch("db", SERVER, written))
    store.tick(0.0)
    fit = {"interval": f"{width:g}s", "window": "1d"}
    config = Config.validated({"targets": [{"name": "db", "user": "u"}], "fit": fit})
    monitor = TargetMonitor(config, config.targets[0], store=store)
    monitor.session.server = SERVER
    monitor.assessment_tick(time.monotonic())
    store.tick(time.monotonic() + 100)
    monitor.assessment_tick(time.monotonic())
    mono = time.monotonic()
    latest = [rows(now + 300, now + 600, width)[-1]._replace(end=mono + 600.0)]
    monitor.buffer.append_intervals(latest, mono + 600.0)
    monitor.assessment_tick(mono + 600.0)
    store.close()
    outlook = monitor.snapshot.outlook
    assert outlook is not None
    assert len(outlook.rises[12].usual) >= 3 * 13
    assert ratio(outlook, 12) == pytest.approx(rise_of(now, 12), rel=0.1)


def test_a_recording_in_many_parts_gives_the_same_outlook() -> None:
    """`analyze` reads 2,000 readings at a time."""
    morning = UNIX - UNIX % DAY + 8 * 3600
    times = np.arange(morning - 3 * DAY, morning + 1, 60.0)
    asked = np.cumsum(60.0 * daily(times - 30))
    status = {"own_statements": 0.0, "threads_running": 5.0}
    readings = (
        Reading(at, (Sample("status", at, {**status, "questions": q, "uptime": at - times[0]}),))
        for at, q in zip(times.tolist(), asked.tolist(), strict=True)
    )
    recent = RecentLoad(-np.inf)
    add_readings(IntervalBuffer(120.0, DAY, 60.0), readings, HourlyLoad(), recent)
    outlook = recent.outlook(ClockPair(morning, morning))
    for steps in HORIZON_STEPS:
        assert ratio(outlook, steps) == pytest.approx(rise_of(morning, steps), rel=0.06)


class Seen(Alerts):
    """Keeps what would be scraped."""

    def __init__(self) -> None:
        super().__init__(())
        self.scrapes: list[Scrape] = []

    def observe(self, scrape: Scrape) -> None:
        """Keep it."""
        self.scrapes.append(scrape)


def test_a_replay_predicts_the_rise_of_the_day_before() -> None:
    """In the morning of the second day noon is near, which reaches nine tenths of the capacity."""
    start = UNIX - UNIX % DAY
    buffer, seen = IntervalBuffer(WIDTH, DAY, 1.0), Seen()
    recording = IntervalRecording(iter(rows(start, start + 1.6 * DAY)), buffer)
    settings = FitSettings(interval=WIDTH)
    Replay("db", recording, settings, pace=3600.0, alerts=seen).play_until(start + 1.6 * DAY)
    soon = {
        round((s.at - start) / WIDTH): s.saturation_by_time
        for s in seen.scrapes
        if s.saturation_by_time
    }
    at = {hour: soon[round((DAY + 3600 * hour) / WIDTH)] for hour in (2.0, 8.0, 11.0)}
    assert all(tuple(found) == (900, 1800, 3600) for found in at.values())
    assert all(list(found.values()) == sorted(found.values()) for found in at.values())
    assert at[2.0][3600] <= at[8.0][3600] < at[11.0][3600]


def with_outlook() -> Snapshot:
    """A server with a capacity whose load has been three tenths higher within an hour."""
    found = known(with_resources(intervals(WAVES), cpu=1 / 6500))
    assert found.load is not None
    rises = {3: Rise(np.zeros(1)), 6: Rise(np.zeros(1)), 12: Rise(np.array([0.0, 5.0]))}
    return replace(found, outlook=LoadOutlook(found.load.throughput, rises))


def test_metrics_page_and_json_agree() -> None:
    """One probability for each time; none without a load."""
    snapshot = with_outlook()
    now = seen_at(with_resources(intervals(WAVES), cpu=1 / 6500))
    likely = dict(snapshot.saturation_within(now))
    assert likely[3600] == pytest.approx((1 + likely[900]) / 2, abs=0.01)
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(lambda: [snapshot], lambda: now))
    text = encode_metrics(registry, open_metrics=False).decode()
    labels = 'horizon="1h",target="db"'
    assert f"mysql_headroom_saturation_soon_probability{{{labels}}} {likely[3600]}" in text
    [target] = json.loads(snapshots_as_json([snapshot], now))["targets"]
    found = target["capacity"]["saturation_soon_probability"]
    assert found == {"15m": likely[900], "30m": likely[1800], "1h": likely[3600]}
    assert "probability that the load reaches the capacity; within 15 min: " in render(
        [snapshot], now
    )
    assert replace(snapshot, load=None).saturation_within(now) == ()
    assert replace(snapshot, outlook=None).saturation_within(now) == ()
    assert snapshot.saturation_within(now + 1000) == ()
