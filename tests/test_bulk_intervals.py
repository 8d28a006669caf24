"""Intervals of a long recording in batches: the same as all at once, and nothing for a gap."""

import tracemalloc
from collections.abc import Iterator
from heapq import merge

import numpy as np
import pytest

from agent.assessment.hourly_load import HourlyLoad
from agent.replay.bulk_intervals import add_readings
from agent.replay.recorded_samples import Reading, RecordedCollectors
from agent.window.interval_buffer import IntervalBuffer
from agent.window.intervals import NUMBERS, Window, compute_intervals
from agent.window.resource_utilisation import OPEN_CONNECTIONS
from collectors.base import Sample

WIDTH, SAMPLING = 15.0, 2.0
DAY = 86_400.0


def recording(times: np.ndarray) -> Iterator[Reading]:
    """A server that was read then."""
    collectors = RecordedCollectors()
    for t in times.tolist():
        known = {"questions": 100 * t, "threads_running": 3.0, "uptime_s": t + 1e7}
        yield collectors.reading(t, known | {"threads_connected": 9.0, "statement_time_s": t})


def buffer() -> IntervalBuffer:
    """A window that keeps all."""
    return IntervalBuffer(WIDTH, 1000 * DAY, SAMPLING)


@pytest.mark.parametrize("seed", range(8))
def test_gaps_of_any_length_change_no_interval(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever they and the batches are: as if all edges had been computed."""
    random = np.random.default_rng(seed)
    steps = np.where(random.random(600) < 0.03, random.choice([16, 30, 61, 700], 600), SAMPLING)
    times = 7.0 + np.cumsum(steps * random.uniform(0.8, 1.2, 600))
    monkeypatch.setattr("agent.replay.bulk_intervals.READINGS_AT_ONCE", 50 + 10 * seed)
    history = buffer()
    add_readings(history, recording(times), HourlyLoad())
    raw: dict[str, list[Sample]] = {}
    for reading in recording(times):
        for sample in reading.samples:
            raw.setdefault(sample.collector, []).append(sample)
    edges = WIDTH * np.arange(np.ceil(times[0] / WIDTH), np.floor(times[-1] / WIDTH) + 1)
    expected = Window(compute_intervals(raw, edges, history.max_gap))
    assert len(expected) > 40
    for name in ("end", *NUMBERS):
        np.testing.assert_allclose(history.latest_window[name], expected[name], rtol=1e-9)
    found = history.latest_window.utilisation_or_rate(OPEN_CONNECTIONS)
    np.testing.assert_allclose(found, expected.utilisation_or_rate(OPEN_CONNECTIONS))


def test_a_gap_of_months_takes_no_memory() -> None:
    """Two parts of ten minutes, 300 days apart."""
    part = np.arange(0.0, 600.0, SAMPLING)
    history = buffer()
    tracemalloc.start()
    try:
        add_readings(history, recording(np.concatenate((part, part + 300 * DAY))), HourlyLoad())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5e6
    assert len(history.latest_window) == 2 * 39


@pytest.mark.parametrize("begin", [0.0, 149_400.0])
def test_a_host_without_a_server_takes_no_memory(begin: float) -> None:
    """Read long before a new server, or long after the end of one: all readings take 13 MB."""
    times = begin + np.arange(0.0, 600.0, SAMPLING)
    of_host = (
        (t, {"host_cpu_busy_s": t / 4, "cpus": 2.0}) for t in np.arange(0.0, 1.5e5, 5.0).tolist()
    )
    collectors, history = RecordedCollectors(), buffer()
    everything = merge(
        (reading for reading in recording(times)),
        (collectors.reading(t, known) for t, known in of_host),
        key=lambda reading: reading.at,
    )
    tracemalloc.start()
    try:
        add_readings(history, everything, HourlyLoad())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5e6
    assert len(history.latest_window) == 39
    assert history.latest_window.utilisations["cpu"][1:-1] == pytest.approx(0.125)
