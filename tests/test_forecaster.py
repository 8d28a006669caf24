"""The forecast in the agent: from intervals and the history's file to metrics, page and JSON."""

import csv
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from history_rows import SERVER, SETTINGS
from law_windows import WAVES, intervals, known, seen_at, with_resources
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from agent.assessment.forecaster import (
    FORECAST_INTERVAL,
    MIN_FORECAST_INTERVAL,
    START_SPREAD_SECONDS,
    Forecaster,
    forecast_saturation,
)
from agent.assessment.hourly_load import KEPT_HOURS, HourlyLoad
from agent.assessment.load_by_time_step import LoadSum
from agent.assessment.snapshot import FORECAST_STALE_SECONDS, ForecastState, Snapshot
from agent.commands.analyze_report import as_csv, as_table
from agent.config.settings import Config
from agent.export.forecast_sentences import forecast_text, time_to_saturation_text
from agent.export.metrics_text import encode_metrics
from agent.export.page import render
from agent.export.snapshot_json import snapshots_as_json
from agent.export.snapshot_metrics import SnapshotCollector
from agent.history.row_kinds import Row
from agent.history.store import Store
from agent.history.write_buffer import Batch
from agent.replay.bulk_intervals import add_readings
from agent.replay.recorded_samples import Reading
from agent.service.target_monitor import TargetMonitor
from agent.support.clock_pair import ClockPair
from agent.window.interval_buffer import IntervalBuffer
from agent.window.intervals import Window
from collectors.base import Sample
from models.arrays import Array
from models.capacity.distribution import Distribution
from models.capacity.result import Capacity
from models.forecast.hourly_means import HOUR_SECONDS
from models.forecast.time_to_saturation import DAY_SECONDS, ForecastReason, Saturation
from models.trust import Trust

UNIX = 1_699_999_200.0  # a full hour
FOUND = Saturation(
    12 * DAY_SECONDS, 5 * DAY_SECONDS, 30 * DAY_SECONDS, ((1, 0.01), (7, 0.125), (30, 0.95))
)
FLAT = Saturation(None, None, None, ((1, 0.0), (7, 0.25)), ForecastReason.NO_GROWTH)

STATUS = {"own_statements": 0.0, "threads_running": 5.0}


def growing(hours: Array) -> Array:
    """A load of 2000 queries/s at its peak, 1 % of it more each day; hours from now."""
    daily = 0.7 + 0.3 * np.sin(2 * np.pi * hours / 24)
    load: Array = 2000 * (1 + 0.01 * hours / 24) * daily
    return load


def sums(days: int, until: float = UNIX) -> list[LoadSum]:
    """What is known of the days before."""
    last = int(until // HOUR_SECONDS) - 1
    hours = np.arange(1.0 - 24 * days, 1.0)
    return [
        LoadSum(last + int(h), HOUR_SECONDS, HOUR_SECONDS * x)
        for h, x in zip(hours, growing(hours), strict=True)
    ]


def capacity(value: float) -> Capacity:
    """One that is trusted."""
    quantiles = (0.95 * value, value, 1.05 * value)
    known = (value, quantiles[0], quantiles[2], "cpu", {"cpu": 1.0}, Trust.TRUSTED, (), 9.0, None)
    return Capacity(*known, distribution=Distribution.of_quantiles(*quantiles))


def with_forecast(found: Saturation) -> Snapshot:
    """A server with a capacity, and that forecast of its load."""
    rows = with_resources(intervals(WAVES), cpu=1 / 6000)
    return replace(known(rows), forecast=ForecastState(seen_at(rows), found, 0.01, 35))


def series(snapshot: Snapshot, now: float) -> dict[tuple[str, ...], float]:
    """The samples at that time by name and labels."""
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(lambda: [snapshot], lambda: now))
    return {
        (sample.name.removeprefix("mysql_headroom_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(
            encode_metrics(registry, open_metrics=False).decode()
        )
        for sample in family.samples
    }


def test_intervals_become_hourly_means() -> None:
    """240 intervals of 15 s are an hour; the present hour does not count yet."""
    history = HourlyLoad()
    ends = UNIX + 15.0 * np.arange(1.0, 300.0)
    history.add_intervals(
        ends, np.full(299, 15.0), np.where(ends <= UNIX + HOUR_SECONDS / 2, 10.0, 30.0)
    )
    assert history.means(UNIX + 4400) == pytest.approx([20.0])
    assert len(history.means(UNIX + 100)) == 0


def test_the_oldest_hours_are_dropped() -> None:
    """As many hours are kept as a forecast uses, and those between two known ones are gaps."""
    history, first = HourlyLoad(), int(UNIX // HOUR_SECONDS)
    history.add(LoadSum(first + k, HOUR_SECONDS, HOUR_SECONDS * k) for k in range(KEPT_HOURS))
    history.add(
        [
            LoadSum(first + KEPT_HOURS + 4, HOUR_SECONDS, 7 * HOUR_SECONDS),
            LoadSum(first - 1, HOUR_SECONDS, HOUR_SECONDS),
        ]
    )
    means = history.means(UNIX + HOUR_SECONDS * (KEPT_HOURS + 5))
    assert len(means) == KEPT_HOURS
    assert means[0] == 5
    assert np.isnan(means[-5:-1]).all()
    assert means[-1] == 7


@pytest.mark.parametrize("ahead", [KEPT_HOURS * HOUR_SECONDS, 365 * DAY_SECONDS])
def test_load_from_a_clock_far_ahead_is_dropped(ahead: float) -> None:
    """After a wrong year the present load counts; a corrupt sum never does."""
    history = HourlyLoad()
    for start, load in ((UNIX + ahead, 9.0), (UNIX, 4.0)):
        ends = start + 60.0 * np.arange(1.0, 61.0)
        history.add_intervals(ends, np.full(60, 60.0), np.full(60, load))
    history.add([LoadSum(int(UNIX // HOUR_SECONDS), 10.0, float("nan"))])
    assert history.means(UNIX + HOUR_SECONDS) == pytest.approx([4.0])


def test_a_forecast_is_made_hourly_and_when_the_capacity_changes() -> None:
    """After reading back, within a minute; then hourly unless the capacity changes."""
    forecaster, at = Forecaster("db", 0.0), 0.0
    forecaster.restore(sums(35), 0.0)
    made = []
    steps = (
        (START_SPREAD_SECONDS, 2400.0),
        (FORECAST_INTERVAL - 1, 2400.0),
        (MIN_FORECAST_INTERVAL, 2800.0),
        (FORECAST_INTERVAL + START_SPREAD_SECONDS, 2800.0),
    )
    for wait, value in steps:
        at += wait
        forecaster.update_if_due(capacity(value), ClockPair(at, UNIX + at))
        assert forecaster.state is not None
        made.append(forecaster.state.at)
    assert made == [
        UNIX + START_SPREAD_SECONDS,
        UNIX + START_SPREAD_SECONDS,
        UNIX + at - FORECAST_INTERVAL - START_SPREAD_SECONDS,
        UNIX + at,
    ]
    assert forecaster.state is not None
    assert forecaster.state.days == 35
    assert forecaster.state.growth_per_day == pytest.approx(0.01, rel=0.2)
    seconds = forecaster.state.saturation.seconds
    assert seconds is not None
    assert seconds / DAY_SECONDS == pytest.approx(40, rel=0.3)


def test_a_young_agent_reports_that_the_history_is_too_short() -> None:
    """Without a history: after two minutes there is the reason, and no number."""
    forecaster = Forecaster("db", 0.0)
    forecaster.observe(Window(intervals(WAVES)), ClockPair(1300.0, UNIX))
    forecaster.update_if_due(capacity(9000.0), ClockPair(1300.0, UNIX))
    assert forecaster.state is not None
    assert forecaster.state.saturation == Saturation(reason=ForecastReason.HISTORY_TOO_SHORT)


def written(path: Path, width: float, days: int) -> Store:
    """A history of one server whose processor is full at 2600 queries/s, up to now."""
    store = Store(path, SETTINGS)
    now, rng = time.time(), np.random.default_rng(3)
    ends = np.arange(now - days * DAY_SECONDS, now, width)
    loads = growing((ends - now) / HOUR_SECONDS) * np.exp(0.01 * rng.standard_normal(len(ends)))
    rows = [
        Row(
            ("db", SERVER),
            round(1000 * end),
            (width, x, 0.001 * x, 3.0, 20.0, 1.0, 0.0, 0.0, {"cpu": x / 2600}),
        )
        for end, x in zip(ends.tolist(), loads.tolist(), strict=True)
    ]
    store.put(Batch("db", SERVER, rows))
    store.tick(0.0)
    return store


def test_a_stored_month_is_forecast_after_a_restart(tmp_path: Path) -> None:
    """The metrics have it within the first minutes."""
    store = written(tmp_path / "history.db", 300.0, 31)
    fit = {"interval": "300s", "window": "3d"}
    config = Config.validated({"targets": [{"name": "db", "user": "u"}], "fit": fit})
    monitor = TargetMonitor(config, config.targets[0], store=store)
    monitor.session.server = SERVER
    monitor.assessment_tick(time.monotonic())
    store.tick(time.monotonic() + 100)
    now = time.monotonic()
    for at in (now, now + START_SPREAD_SECONDS):
        monitor.assessment_tick(at)
        monitor.forecast_tick(at)
    monitor.assessment_tick(now + START_SPREAD_SECONDS)
    store.close()
    known = monitor.snapshot.capacity(time.time())
    assert known is not None
    assert known.value is not None
    assert known.value == pytest.approx(2540, rel=0.1)
    found = series(monitor.snapshot, time.time())
    expected = (known.value / 2000 - 1) / 0.01
    assert "db" in {key[1] for key in found if key[0] == "last_forecast_timestamp_seconds"}
    assert monitor.snapshot.forecast is not None
    assert monitor.snapshot.forecast.days >= 30
    assert found["time_to_saturation_seconds", "db"] / DAY_SECONDS == pytest.approx(
        expected, rel=0.3
    )
    assert found["saturation_within_probability", "1d", "db"] < 0.05


def test_metrics_page_and_json_agree() -> None:
    """One forecast on all three."""
    snapshot = with_forecast(FOUND)
    found = series(snapshot, snapshot.at)
    assert found["time_to_saturation_seconds", "db"] == 12 * DAY_SECONDS
    assert found["time_to_saturation_lower_seconds", "db"] == 5 * DAY_SECONDS
    assert found["time_to_saturation_upper_seconds", "db"] == 30 * DAY_SECONDS
    assert found["saturation_within_probability", "7d", "db"] == 0.125
    page = render([snapshot], snapshot.at)
    assert "At this growth the load reaches the limit in 12 days (5 to 30)." in page
    [target] = json.loads(snapshots_as_json([snapshot], snapshot.at))["targets"]
    assert target["forecast"] == {
        "at": snapshot.at,
        "time_to_saturation": {
            "value": 12 * DAY_SECONDS,
            "lower": 5 * DAY_SECONDS,
            "upper": 30 * DAY_SECONDS,
        },
        "probability_within": {"1d": 0.01, "7d": 0.125, "30d": 0.95},
        "growth_per_day": 0.01,
        "days": 35,
        "reasons": [],
    }


def test_a_fleet_report_has_the_forecast() -> None:
    """`analyze` has it in words and in seconds, each in its own column."""
    snapshot = with_forecast(FOUND)
    header, row = as_table([snapshot], snapshot.at)
    assert row[header.index("saturated in") :].startswith("12 days (5 to 30)  ")
    [cells] = csv.DictReader(as_csv([snapshot], snapshot.at))
    assert float(cells["time_to_saturation"]) == 12 * DAY_SECONDS
    assert float(cells["time_to_saturation_lower"]) == 5 * DAY_SECONDS
    assert cells["trust"] == "trusted"


def test_a_recording_of_weeks_is_forecast() -> None:
    """What `analyze` reads of 20 days, five minutes apart, is the load by the hour."""
    width, start = 300.0, UNIX - 20 * DAY_SECONDS
    times = start + width * np.arange(20 * 288 + 1.0)
    asked = np.cumsum(width * growing((times - UNIX) / HOUR_SECONDS))
    readings = (
        Reading(at, (Sample("status", at, {**STATUS, "questions": q, "uptime": at - start}),))
        for at, q in zip(times.tolist(), asked.tolist(), strict=True)
    )
    load = HourlyLoad()
    add_readings(IntervalBuffer(600.0, DAY_SECONDS, width), readings, load)
    means = load.means(UNIX)
    assert len(means) == 20 * 24
    hours = np.arange(0.5 - 20 * 24, 0.0)
    assert means == pytest.approx(growing(hours), rel=0.02)
    state = forecast_saturation(load, capacity(2200.0), UNIX)
    assert state.days == 20
    assert state.saturation.seconds is not None
    assert state.saturation.seconds / DAY_SECONDS == pytest.approx(10, abs=4)


def test_no_growth_has_no_time_but_a_reason() -> None:
    """Absent is not zero, and the reason is a label."""
    snapshot = with_forecast(FLAT)
    found = series(snapshot, snapshot.at)
    assert not [key for key in found if key[0].startswith("time_to_saturation")]
    assert found["forecast_reason", "no_growth", "db"] == 1
    assert found["saturation_within_probability", "7d", "db"] == 0.25
    assert "the load is not clearly growing" in render([snapshot], snapshot.at)
    [target] = json.loads(snapshots_as_json([snapshot], snapshot.at))["targets"]
    assert target["forecast"]["time_to_saturation"]["value"] is None
    assert target["forecast"]["reasons"][0]["reason"] == "no_growth"


def test_a_stale_forecast_is_withheld() -> None:
    """Without a present capacity, or after two missing forecasts, there are no numbers."""
    snapshot = with_forecast(FOUND)
    assert snapshot.forecast is not None
    old = replace(snapshot.forecast, at=snapshot.at - FORECAST_STALE_SECONDS - 60)
    for late, now in (
        (replace(snapshot, forecast=old), snapshot.at),
        (snapshot, snapshot.at + DAY_SECONDS),
    ):
        assert late.current_forecast(now) is None
        names = {key[0] for key in series(late, now)}
        assert "last_forecast_timestamp_seconds" in names
        assert not names & {"time_to_saturation_seconds", "saturation_within_probability"}
        assert "At this growth" not in render([late], now)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (FOUND, "12 days (5 to 30)"),
        (FLAT, "no growth"),
        (Saturation(None, 40 * DAY_SECONDS, None, (), ForecastReason.TOO_FAR), "40 days or more"),
        (Saturation(reason=ForecastReason.HISTORY_TOO_SHORT), "history too short"),
    ],
)
def test_the_table_has_the_forecast_in_few_words(found: Saturation, words: str) -> None:
    """The same number, or the reason."""
    assert time_to_saturation_text(found) == words


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (FOUND, "At this growth the load reaches the limit in 12 days (5 to 30)."),
        (
            replace(FOUND, seconds=30 * HOUR_SECONDS, lower=0.0, upper=2 * DAY_SECONDS),
            "in 30 hours (0 to 48).",
        ),
        (replace(FOUND, upper=None), "in 12 days (5 or more)."),
        (
            replace(FOUND, seconds=2.4 * DAY_SECONDS, lower=2.1 * DAY_SECONDS),
            "in 2.4 days (2.1 to 30).",
        ),
        (
            replace(FOUND, seconds=80 * 60.0, lower=0.0, upper=5 * HOUR_SECONDS),
            "in 1 hour (0 to 5 hours).",
        ),
        (
            replace(FOUND, seconds=60.0, lower=0.0, upper=DAY_SECONDS),
            "in less than an hour (0 to 24 hours).",
        ),
        (
            replace(FOUND, seconds=1.2 * HOUR_SECONDS, lower=0.0, upper=DAY_SECONDS),
            "in 1 hour (0 to 24 hours).",
        ),
        (FLAT, "is not clearly growing. It may still be reached within a week: 25 %."),
        (
            Saturation(None, 40 * DAY_SECONDS, None, (), ForecastReason.TOO_FAR),
            "At this growth the load reaches the limit in 40 days at the earliest.",
        ),
        (Saturation(reason=ForecastReason.CAPACITY_UNKNOWN), "the capacity is not known."),
    ],
)
def test_the_forecast_sentence_is_complete(found: Saturation, words: str) -> None:
    """It says when, how certain that is, or why there is none."""
    assert forecast_text(found).endswith(words)
