"""Windows that tell next to nothing go all the way to every way out: no defect, and no nonsense."""

import json
import re
from collections.abc import Iterable

import numpy as np
import pytest
from law_windows import WAVES, interval, intervals, known, seen_at, with_usage
from numpy.typing import ArrayLike
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from agent.assessment.snapshot import Snapshot
from agent.demo.result_rows import result_rows as report_rows
from agent.export.metrics_text import encode_metrics
from agent.export.page import render
from agent.export.snapshot_json import snapshots_as_json
from agent.export.snapshot_metrics import SnapshotCollector
from agent.window.intervals import Interval
from models.trust import Trust

NOISE = np.random.default_rng(3)
MANY = 60


def points(loads: Iterable[float], throughputs: Iterable[float]) -> list[Interval]:
    """Intervals at these places of the plane."""
    return [
        interval(k, float(n), throughput=float(x))
        for k, (n, x) in enumerate(zip(loads, throughputs, strict=True))
    ]


def used(share: ArrayLike, rows: list[Interval]) -> list[Interval]:
    """The same with a processor and a setting that are so busy."""
    shares = np.broadcast_to(np.asarray(share, dtype=float), len(rows))
    return [
        row._replace(resources={"cpu": float(u), "connections": float(u), "disk:sda": 0.0})
        for row, u in zip(rows, shares, strict=True)
    ]


def scaled(factor: float) -> list[Interval]:
    """Loads that are well spread, in a unit of throughput of another size."""
    return [row._replace(throughput=row.throughput * factor) for row in intervals(WAVES)]


SAME = points([4.0] * MANY, [1000.0] * MANY)
WINDOWS = {
    "nothing": [],
    "one point": points([4.0], [1000.0]),
    "two points": points([4.0, 5.0], [1000.0, 1100.0]),
    "all equal": SAME,
    "all equal, a resource full": used(1.0, SAME),
    "all equal, a resource beyond full": used(1.4, SAME),
    "all equal, a resource idle": used(0.0, SAME),
    "all idle": points([0.0] * MANY, [0.0] * MANY),
    "all but one idle": points([0.0] * MANY + [4.0], [0.0] * MANY + [1000.0]),
    "nearly idle": points([0.001] * MANY, NOISE.uniform(0, 0.3, MANY)),
    "a vertical line": points([4.0] * MANY, NOISE.uniform(10, 1000, MANY)),
    "a vertical line and a limit": used(
        NOISE.uniform(0, 1, MANY), points([4.0] * MANY, NOISE.uniform(10, 1000, MANY))
    ),
    "a horizontal line": points(NOISE.uniform(1, 90, MANY), [1000.0] * MANY),
    "a falling line": points(np.linspace(1, 90, MANY), np.linspace(1000, 10, MANY)),
    "two places": points([1.0, 50.0] * 30, [100.0, 2000.0] * 30),
    "no order at all": points(NOISE.uniform(0.5, 90, MANY), NOISE.uniform(1, 1e4, MANY)),
    "a resource full whatever the load": used(1.0, intervals(WAVES)),
    "a resource busy at random": used(NOISE.uniform(0, 1, len(WAVES)), intervals(WAVES)),
    "a resource that falls with load": used(np.linspace(0.9, 0.1, len(WAVES)), intervals(WAVES)),
    "huge values": scaled(1e100),
    "tiny values": scaled(1e-100),
    "one huge value": [*intervals(WAVES), interval(len(WAVES), 4.0, throughput=1e200)],
    "one tiny value": [*intervals(WAVES), interval(len(WAVES), 4.0, throughput=1e-200)],
    "huge concurrency": points([1e100] * MANY, NOISE.uniform(10, 1000, MANY)),
    "usage of all kinds unknown": with_usage(SAME, {}),
    "a hole of a day": [
        row._replace(end=row.end + (86_400.0 if k > 60 else 0.0))
        for k, row in enumerate(intervals(WAVES))
    ],
}
TELL_NOTHING = (
    "one point",
    "two points",
    "all equal",
    "all equal, a resource idle",
    "all idle",
    "all but one idle",
    "nearly idle",
    "a vertical line",
    "a vertical line and a limit",
    "two places",
    "no order at all",
    "huge concurrency",
    "usage of all kinds unknown",
)
each_window = pytest.mark.parametrize("name", WINDOWS)
each_source = pytest.mark.parametrize("statement_time", [True, False], ids=["time", "threads"])


def assessed(name: str, *, statement_time: bool) -> tuple[Snapshot, float]:
    """What is known of that window, and when."""
    rows = WINDOWS[name]
    if not statement_time:
        rows = [row._replace(statement_time=np.nan) for row in rows]
    return known(rows), seen_at(rows) if rows else 0.0


@each_source
@each_window
def test_the_numbers_are_finite_and_in_order(name: str, statement_time: bool) -> None:
    """Lower bound, value and upper bound, shares, headroom: finite, or None."""
    snapshot, at = assessed(name, statement_time=statement_time)
    capacity = snapshot.capacity(at)
    if capacity is None:
        assert snapshot.assessed.waiting
        return
    bounds = [b for b in (capacity.lower, capacity.value, capacity.upper) if b is not None]
    assert bounds == sorted(bounds)
    assert np.isfinite(bounds).all()
    assert capacity.lower is not None
    assert capacity.lower > 0
    assert sum(capacity.shares.values()) == pytest.approx(1 if capacity.shares else 0)
    assert (capacity.settling_throughput or np.inf) > capacity.x_seen


@each_source
@pytest.mark.parametrize("name", TELL_NOTHING)
def test_uninformative_windows_are_not_trusted(name: str, statement_time: bool) -> None:
    """Neither the capacity nor the law."""
    snapshot, at = assessed(name, statement_time=statement_time)
    capacity, law = snapshot.capacity(at), snapshot.current_law(at)
    assert (capacity is None) == (name == "all idle")
    assert Trust.TRUSTED not in [found.trust for found in (capacity, law) if found]


@each_source
@each_window
def test_every_output_accepts_degenerate_windows(name: str, statement_time: bool) -> None:
    """Page, metrics, JSON and the demo's table, without NaN or infinity."""
    snapshot, at = assessed(name, statement_time=statement_time)
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(lambda: [snapshot], lambda: at))
    metrics = encode_metrics(registry, open_metrics=False).decode()
    samples = [s for f in text_string_to_metric_families(metrics) for s in f.samples]
    assert all(np.isfinite(sample.value) for sample in samples)
    page = render([snapshot], at)
    table = " ".join(" ".join(row) for row in report_rows(snapshot, at))
    assert not re.search(r"\b(nan|inf|None)\b", page + table)
    assert json.loads(snapshots_as_json([snapshot], at))["targets"][0]["target"] == "db"
