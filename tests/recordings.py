"""Recordings of servers as CSV files, made of samples, for the tests of `replay`."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import sin
from pathlib import Path
from typing import Any

from agent.replay.recorded_samples import COLLECTOR_COLUMNS, COLUMNS, HOST
from agent.window.resource_utilisation import BUSY_CPU_COUNTERS
from collectors.base import Sample
from models.usl.law import Usl

LAW = Usl(sigma=0.02, kappa=0.0005, lam=500.0)
DEMAND = 1 / 4000.0
"""CPU seconds of a host of two processors that a query takes."""
Row = dict[str, float | str]


def rows(seconds: int, step: int = 5, start: float = 0.0) -> Iterator[Row]:
    """Return samples of a server on the law, whose load rises and falls twice an hour."""
    questions = spent = used = 0.0
    for t in range(0, seconds + 1, step):
        n = 8.0 + 7.0 * sin(t / 286.5)
        x = float(LAW.throughput(n))
        questions, spent, used = questions + x * step, spent + n * step, used + x * step * DEMAND
        yield {
            "t_s": start + t,
            "questions": round(questions),
            "threads_running": round(n) + 1,
            "uptime_s": 50_000 + t,
            "statement_time_s": spent,
            "server_cpu_s": 0.9 * used,
            "host_cpu_busy_s": used,
            "cpus": 2,
        }


def written(path: Path, table: Iterable[Mapping[str, object]]) -> Path:
    """Write a CSV file of these rows, with the columns of the first one."""
    listed = list(table)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(listed[0]))
        writer.writeheader()
        writer.writerows(listed)
    return path


def as_rows(samples: Sequence[Sample]) -> Iterator[dict[str, Any]]:
    """Return a row for each sample of a daemon, at its own time, with its collector's columns."""
    for sample in samples:
        values = dict(sample.values)
        if sample.collector == HOST:
            values[BUSY_CPU_COUNTERS[0]] = sum(values[name] for name in BUSY_CPU_COUNTERS)
        names = COLLECTOR_COLUMNS.get(sample.collector, {})
        known = {column: values[name] for column, name in names.items() if name in values}
        yield {"t_s": repr(sample.at), **{name: known.get(name, "") for name in COLUMNS}}


def nearly(value: Any) -> Any:
    """Round numbers to nine digits: the sum of counters depends on their order."""
    if isinstance(value, dict):
        return {name: nearly(part) for name, part in value.items()}
    if isinstance(value, list):
        return [nearly(part) for part in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value
