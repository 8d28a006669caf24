"""Windows of intervals on a known law, and their assessment."""

from collections.abc import Mapping, Sequence
from math import sin
from typing import Any

import numpy as np

from agent.assessment.snapshot import AssessmentState, Health, Snapshot
from agent.config.settings import FitSettings
from agent.pipeline import assess
from agent.support.clock_pair import ClockPair
from agent.window.intervals import Interval, Window
from models.usl.law import Usl

LAW = Usl(sigma=0.03, kappa=0.0008, lam=500.0)
RISING = [1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 30.0, 36.0]  # the last is near its peak
WAVES = [1.0 + 35.0 * (0.5 + 0.5 * sin(k / 9.0)) for k in range(120)]  # up and down for a while
WIDTH = 10.0  # seconds
SETTINGS = FitSettings(interval=WIDTH, stale_after=100.0)
UP = Health(up=True, server="MySQL 9")
ZERO = 1_700_000_000.0  # the Unix time of the monotonic clock's zero


def interval(
    place: int, load: float, *, statement_time: bool = True, throughput: float | None = None
) -> Interval:
    """Return the interval at that index, with that concurrency and no known resource."""
    return Interval(
        end=WIDTH * (place + 1),
        seconds=WIDTH,
        throughput=float(LAW.throughput(load)) if throughput is None else throughput,
        statement_time=load if statement_time else np.nan,
        threads_running=load + 2.0,
        thread_samples=10.0,
        excluded_agent=1.0,
        excluded_binlog_dump=1.0,
        excluded_system=np.nan,
        resources={},
    )


def intervals(loads: Sequence[float], **options: Any) -> list[Interval]:
    """Return one interval for each load."""
    return [interval(place, load, **options) for place, load in enumerate(loads)]


def window(loads: Sequence[float], *, statement_time: bool = True, idle: int = 0) -> Window:
    """Return a window of intervals on the law, the idle ones first."""
    return Window(intervals([0.01] * idle + list(loads), statement_time=statement_time))


def with_resources(rows: Sequence[Interval], **demands: float) -> list[Interval]:
    """Return it with resources of which a query takes that many seconds; never above 1."""
    return [
        row._replace(resources={n: min(row.throughput * d, 1.0) for n, d in demands.items()})
        for row in rows
    ]


def with_usage(rows: Sequence[Interval], usage: Mapping[str, float]) -> list[Interval]:
    """Return it with these utilisations and rates in each interval."""
    return [row._replace(resources=dict(usage)) for row in rows]


def now(seconds: float) -> ClockPair:
    """Return that many seconds after the monotonic clock's zero."""
    return ClockPair(monotonic=seconds, unix=ZERO + seconds)


def known(
    rows: Sequence[Interval], health: Health = UP, *, previous: AssessmentState | None = None
) -> Snapshot:
    """Assess target `db` a second after these intervals."""
    at = rows[-1].end + 1 if rows else 1.0
    return assess("db", Window(rows), health, previous or AssessmentState(), SETTINGS, now(at))


def seen_at(rows: Sequence[Interval]) -> float:
    """Return the Unix time of `known`."""
    return ZERO + rows[-1].end + 1
