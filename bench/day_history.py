"""A day of a target, as its history keeps it: a load that rises and falls, on a law."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from agent.config.history_settings import HistorySettings
from agent.history.row_mapping import interval_row
from agent.history.store import Store
from agent.history.write_buffer import Batch
from agent.support.clock_pair import ClockPair
from agent.window.intervals import Interval
from models.usl.law import Usl

WIDTH, INTERVALS = 15.0, 5760  # seconds each, a day of them
LAW = Usl(sigma=0.02, kappa=0.0005, lam=800.0)
NOISE = 0.02
USED = {
    "cpu": 0.8,
    "server_cpu": 0.75,
    "cpu:server": 0.74,
    "connections": 0.2,
    "redo_log": 0.3,
    "disk:vda": 0.5,
    "network:eth0:received": 0.1,
    "network:eth0:sent": 0.2,
}
"""Utilisations at the peak."""
AT_ONCE = 400


def write_day(path: Path, targets: Sequence[str], server: str, hours: float = 24.0) -> None:
    """Write a history in which each of these targets has a day that ends a minute ago.

    Of the day only the last `hours` are written.
    """
    now = ClockPair(INTERVALS * WIDTH + 60, time.time())
    intervals = day()[-round(3600 * hours / WIDTH) :]
    store = Store(path, HistorySettings())
    for number, target in enumerate(targets):
        labels = (target, server)
        rows = [interval_row(labels, interval, now) for interval in intervals]
        for first in range(0, len(rows), AT_ONCE):
            store.put(Batch(*labels, rows[first : first + AT_ONCE]))
        store.tick(float(number))
    store.close()


def day() -> list[Interval]:
    """The intervals; the first begins at 0."""
    rng = np.random.default_rng(1)
    tide = 0.5 - 0.5 * np.cos(np.linspace(0, 2 * np.pi, INTERVALS))
    share = 0.1 + 0.6 * np.clip(tide + rng.normal(0, 0.1, INTERVALS), 0, 1)
    x = share * float(LAW.x_max or 0)
    n = LAW.concurrency_at_throughput(x) * np.exp(rng.normal(0, NOISE, INTERVALS))
    used = {
        name: np.clip(0.01 + most * share * np.exp(rng.normal(0, NOISE, INTERVALS)), 0, 1)
        for name, most in USED.items()
    }
    return [
        Interval(
            end=WIDTH * (k + 1),
            seconds=WIDTH,
            throughput=float(x[k]),
            statement_time=float(n[k]),
            threads_running=float(n[k]) + 1,
            thread_samples=WIDTH,
            excluded_agent=1.0,
            excluded_binlog_dump=0.0,
            excluded_system=0.0,
            resources={name: float(column[k]) for name, column in used.items()},
        )
        for k in range(INTERVALS)
    ]
