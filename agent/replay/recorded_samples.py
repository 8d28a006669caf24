"""Readings of a recorded server as the samples that the agent's collectors would have taken."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from agent.window.resource_utilisation import BUSY_CPU_COUNTERS
from collectors.base import Sample
from collectors.threads_table import WAITING_FOR_LOCKS

STATUS, STATEMENTS, THREADS, HOST = "status", "statements", "threads", "host"
CPUS, SERVER_CPUS = "cpus", "server_cpus"
UPTIME, HOST_BUSY, SERVER_CPU = "uptime_s", "host_cpu_busy_s", "server_cpu_s"
REQUIRED_COLUMNS = ("questions", "threads_running", UPTIME)
"""Columns that every recording has."""
COLLECTOR_COLUMNS: Mapping[str, Mapping[str, str]] = {
    STATUS: {
        "questions": "questions",
        "threads_running": "threads_running",
        UPTIME: "uptime",
        "threads_connected": "threads_connected",
        "max_connections": "max_connections",
        "own_statements": "own_statements",
        "redo_writes": "redo_writes",
        "redo_syncs": "redo_syncs",
    },
    STATEMENTS: {
        "statement_time_s": "statement_seconds",
        "statement_in_flight_s": "in_flight_seconds",
    },
    HOST: {
        SERVER_CPU: "process_cpu_seconds",
        HOST_BUSY: BUSY_CPU_COUNTERS[0],
        CPUS: "cpus",
        SERVER_CPUS: "process_cpus",
    },
    THREADS: {
        "binlog_dump_threads": "binlog_dump",
        "system_threads": "system",
        "waiting_for_locks": WAITING_FOR_LOCKS,
    },
}
"""For each collector the columns of a recording, and the names that the collector gives them.

The host's busy time is one counter in a recording, and several that are added up in the collector.
"""
COLUMNS = tuple(column for names in COLLECTOR_COLUMNS.values() for column in names)
SLOW_COLUMNS = ("max_connections", CPUS, SERVER_CPUS)
"""Columns that seldom change: the latest known value holds. None of them can be 0."""
OPTIONAL_COLUMNS = (
    "threads_connected",
    "own_statements",
    "redo_writes",
    "redo_syncs",
    "statement_in_flight_s",
)
"""Columns that do not suffice for a sample."""
SAMPLE_COLUMNS: Mapping[str, frozenset[str]] = {
    collector: frozenset(names) - {*SLOW_COLUMNS, *OPTIONAL_COLUMNS}
    for collector, names in COLLECTOR_COLUMNS.items()
}
"""For each collector but `STATUS`, the columns of which one suffices for a sample."""


class Reading(NamedTuple):
    """The samples of one time, in seconds of the recording's clock."""

    at: float
    samples: tuple[Sample, ...]

    @property
    def has_status(self) -> bool:
        """Whether the server's status was read, without which there is no interval."""
        return any(sample.collector == STATUS for sample in self.samples)


class RecordedCollectors:
    """Converts the values known at a time, by the names of `COLUMNS`, to samples."""

    def __init__(self) -> None:
        self._ceilings: dict[str, float] = {}

    def reading(self, at: float, known: Mapping[str, float]) -> Reading:
        """Return the samples of that time; a collector without a known value has none."""
        found = {
            name: value
            for name, value in known.items()
            if not math.isnan(value) and (value > 0 or name not in SLOW_COLUMNS)
        }
        self._ceilings |= {name: found[name] for name in SLOW_COLUMNS if name in found}
        if CPUS in self._ceilings:
            found = {SERVER_CPUS: self._ceilings[CPUS], **found}
        found = {**found, **self._ceilings}
        return Reading(
            at,
            tuple(
                Sample(collector, at, _values(collector, found))
                for collector in COLLECTOR_COLUMNS
                if _has_sample(collector, found)
            ),
        )


def _has_sample(collector: str, found: Mapping[str, float]) -> bool:
    if collector == STATUS:
        return all(name in found for name in REQUIRED_COLUMNS)
    return not SAMPLE_COLUMNS[collector].isdisjoint(found)


def _values(collector: str, found: Mapping[str, float]) -> dict[str, float]:
    values = {
        name: found[column]
        for column, name in COLLECTOR_COLUMNS[collector].items()
        if column in found
    }
    return {"own_statements": 0.0, **values} if collector == STATUS else values
