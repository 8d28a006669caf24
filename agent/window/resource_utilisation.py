"""The utilisation of each resource of a server, 0 to 1 of its capacity.

A resource whose ceiling is not known has no utilisation; where the configuration may set one, its
use is kept as a rate, per second. CPU time that the hypervisor gave to others (steal) counts as
used, since it is not available; hyper-threads count as CPUs, which they are only in part.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import numpy as np

from agent.config.resources import DISK, NETWORK, ResourceSettings
from agent.window.sample_columns import SampleColumns
from agent.window.time_split_inputs import CLIENT_RUN_DELAY, RATE, NamedArray, time_split_rates
from models.arrays import Array
from models.capacity.resource_and_limit import Resource
from models.capacity.statement_cpu_share import accounted_share

CPU = "cpu"
SERVER_CPU = "server_cpu"
"""The server's CPU time, of the CPUs that it may use: a limit of its own if those are not all."""
SERVER_SHARE_OF_CPU = "cpu:server"
"""The server's part of the host's CPU in use."""
STEAL = "cpu:steal"
"""The part that the hypervisor gave to other guests, as unavailable as what processes use."""
CPU_PARTS = (SERVER_SHARE_OF_CPU, STEAL)
CPUS, SERVER_CPUS = "cpu:cpus", "server_cpu:cpus"
"""How many processors the host has, and how many of them the server may use (a quota counts)."""
PROCESSOR_COUNTS = {CPU: CPUS, SERVER_CPU: SERVER_CPUS}
CONNECTIONS, OPEN_CONNECTIONS = "connections", "connections:open"
"""The share of max_connections in use; how many clients' are open, the agent's own not counted."""
CLOCK = "cpu:clock"
"""The clock rate of the CPUs that the server may use; 1 is as fast as they can run."""
IDLE_ENTRIES = "cpu:idle_entries_per_second"
"""How often each of the CPUs that the server may use went idle."""
FLUSH = ":flush"
"""Suffix of a disk's name: the share of the time in which its cache is flushed."""
STATEMENT_CPU = "statement_cpu_per_second"
"""CPU seconds per second of statements, as the server counts them (SUM_CPU_TIME): kept where its
process cannot be seen. They are counted when a statement ends."""
ALL_CPUS_SHARE = 0.99
"""A server that may use more than this share of the host's CPUs counts as free to use all."""
BUSY_CPU_COUNTERS = tuple(
    f"cpu_{name}_seconds" for name in ("user", "nice", "system", "irq", "softirq", "steal")
)
"""Counters of the host's CPU time in use."""

INNODB_THREADS = "innodb_threads"
"""Derived from the concurrency: no counter shows how many statements wait outside of InnoDB."""
REDO_LOG = "redo_log"
"""Derived from the checkpoint's age. MariaDB lets it grow for a while, then flushes all at once."""
LOG_WRITES = "redo_log:writes_per_second"
LOG_RATES = {
    "redo_log:syncs_per_second": "redo_syncs",
    LOG_WRITES: "redo_writes",
    "binlog:groups_per_second": "binlog_groups",
}
"""Syncs and writes of the logs: each serves all transactions that commit meanwhile. Syncs come
first: without a binary log MySQL writes its redo log for nearly each of them, and syncs it for
many."""
ROWS_READ = f"rows_read{RATE}"
"""Rows that statements read, per second: it is counted while they run, and waiting adds none."""
ROW_COUNTERS = ("innodb_rows_read", "handler_rows_read")
"""MySQL's and MariaDB's."""
SETTING_LIMITS = {CONNECTIONS, INNODB_THREADS, REDO_LOG}
"""Limits that the server's settings impose."""
AGENT_CONNECTIONS = 1
"""Connection of the agent itself, or of another recorder."""


def log_writes(rates: Mapping[str, Array]) -> Array | None:
    """Return how often the log was synced, or written, per second, shape (k,).

    It is the first known counter.
    """
    return next((rates[name] for name in LOG_RATES if name in rates), None)


def is_rate(name: str) -> bool:
    """Return whether the value of this name is a rate, not a utilisation."""
    return name.endswith(RATE)


def is_disk(name: str) -> bool:
    """Return whether this is the busy time of a disk."""
    return name.startswith(DISK) and ":" not in name.removeprefix(DISK)


def is_flush(name: str) -> bool:
    """Return whether this is the time that flushes of a disk's cache took."""
    return name.startswith(DISK) and name.endswith(FLUSH)


def is_busy_time(name: str) -> bool:
    """Return whether one request at a time makes it as busy as many at once."""
    return is_disk(name) or is_flush(name)


def resources_with_ceilings(
    utilisations: Mapping[str, Array], rates: Mapping[str, Array], ceilings: ResourceSettings
) -> list[Resource]:
    """Return every resource whose ceiling is known or configured; arrays of shape (intervals,)."""
    used = {
        name: (u, 1.0)
        for name, u in utilisations.items()
        if name not in (*CPU_PARTS, *PROCESSOR_COUNTS.values(), CLOCK, OPEN_CONNECTIONS)
    }
    statement_cpu = _statement_cpu_resource(utilisations, rates, ceilings)
    server_part = _server_part_of_cpu(utilisations, rates, ceilings)
    own = {CPU: server_part, SERVER_CPU: utilisations.get(SERVER_CPU)}
    for name, limit in ceilings.limits.items():
        if name + RATE in rates:
            used[name] = (rates[name + RATE], limit)
    known = [
        Resource(
            name,
            u,
            limit * ceilings.ceilings.get(name, 1.0),
            has_configured_limit=name in SETTING_LIMITS,
            is_fill_level=name == REDO_LOG,
            counts_waits=name == INNODB_THREADS,
            is_busy_time=is_busy_time(name) and name not in ceilings.ceilings,
            own=own.get(name),
            is_of_statements=name == CPU and SERVER_SHARE_OF_CPU not in utilisations,
            clock=utilisations.get(CLOCK) if name in own else None,
            idle_entries=rates.get(IDLE_ENTRIES) if name in own else None,
            waiting=rates.get(CLIENT_RUN_DELAY) if name in own else None,
            log_writes=log_writes(rates) if name in own else None,
            processors=utilisations.get(PROCESSOR_COUNTS.get(name, "")),
        )
        for name, (u, limit) in used.items()
    ]
    return known if statement_cpu is None else [*known, statement_cpu]


class CpuSource(StrEnum):
    """The source of a server's CPU time."""

    HOST = "host"
    """The counters of this host, and of the server's process on it."""
    NODE_EXPORTER = "node_exporter"
    """Those of another host, on which the server's process cannot be seen."""
    STATEMENTS = "statements"
    """The CPU time that the server counts for its statements, and how many processors it has."""


def cpu_source(
    utilisations: Mapping[str, Array], rates: Mapping[str, Array], ceilings: ResourceSettings
) -> CpuSource | None:
    """Return the source of the CPU time; arrays of shape (intervals,) by name; None: not known."""
    if CPU in utilisations:
        return CpuSource.HOST if SERVER_SHARE_OF_CPU in utilisations else CpuSource.NODE_EXPORTER
    if ceilings.vcpus is not None and STATEMENT_CPU in rates:
        return CpuSource.STATEMENTS
    return None


def _server_part_of_cpu(
    utilisations: Mapping[str, Array], rates: Mapping[str, Array], ceilings: ResourceSettings
) -> Array | None:
    """Return the server's part of the host's CPU: its process's, or by its statements'.

    Where neither is known, all of the host's: a steady part of others is a base load of the line.
    """
    if SERVER_SHARE_OF_CPU in utilisations:
        return utilisations[SERVER_SHARE_OF_CPU]
    if CPU not in utilisations or CPUS not in utilisations or STATEMENT_CPU not in rates:
        return utilisations.get(CPU)
    share = accounted_share(ceilings.statement_cpu_share)
    own = rates[STATEMENT_CPU] / share.value / utilisations[CPUS]
    part: Array = np.minimum(own, utilisations[CPU])
    return part


def _statement_cpu_resource(
    utilisations: Mapping[str, Array], rates: Mapping[str, Array], ceilings: ResourceSettings
) -> Resource | None:
    """Return the CPU if only statements' CPU time is known: full at the share that they have."""
    is_source = cpu_source(utilisations, rates, ceilings) is CpuSource.STATEMENTS
    if ceilings.vcpus is None or not is_source:
        return None
    share = accounted_share(ceilings.statement_cpu_share)
    used = rates[STATEMENT_CPU] / ceilings.vcpus
    return Resource(
        CPU,
        used,
        share.value * ceilings.ceilings.get(CPU, 1.0),
        ceiling_deviation=share.deviation,
        is_ceiling_assumed=share.is_assumed,
        own=used,
        is_of_statements=True,
        processors=np.full(len(used), ceilings.vcpus),
    )


def limiting_resources(
    resources: Sequence[Resource], utilisations: Mapping[str, Array]
) -> list[Resource]:
    """Return the resources that may limit the throughput; utilisations: shape (intervals,) by name.

    The server's CPU is left out where it may use all of the host's, and the host's is known, unless
    its ceiling is below the host's.
    """
    of_host, of_allowed = utilisations.get(SERVER_SHARE_OF_CPU), utilisations.get(SERVER_CPU)
    is_bound = False
    if of_host is not None and of_allowed is not None:
        both = np.isfinite(of_host) & np.isfinite(of_allowed)
        is_bound = float(of_host[both].sum()) < ALL_CPUS_SHARE * float(of_allowed[both].sum())
    ceilings = {resource.name: resource.ceiling for resource in resources}
    is_bound |= CPU not in ceilings or ceilings.get(SERVER_CPU, 1.0) < ceilings[CPU]
    return [resource for resource in resources if is_bound or resource.name != SERVER_CPU]


def utilisations_and_rates(
    columns: Mapping[str, SampleColumns], statement_time: Array
) -> dict[str, Array]:
    """Compute each utilisation or rate between edges, shape (intervals,), NaN where not known."""
    found = dict(_server_limits(columns["status"], statement_time))
    found |= dict(time_split_rates(columns))
    host, statements = columns.get("host"), columns.get("statements")
    sees_process = host is not None and "process_cpu_seconds" in host.names
    if statements is not None and not sees_process:
        name = "statement_cpu_seconds"
        epoch = statements.stalls(name, statements["statements"])
        found[STATEMENT_CPU] = statements.rate(name, epoch=epoch)
    if host is not None:
        found |= dict((*_cpu_use(host), *_disk_use(host), *_link_use(host)))
    return {name: used for name, used in found.items() if np.isfinite(used).any()}


def _server_limits(status: SampleColumns, statement_time: Array) -> Iterator[NamedArray]:
    """Yield the use of what the server's settings limit, and the rates of its logs and rows."""
    connected = status.average("threads_connected")
    yield CONNECTIONS, _share(connected, status.last("max_connections"))
    yield OPEN_CONNECTIONS, np.maximum(connected - AGENT_CONNECTIONS, 0.0)
    yield INNODB_THREADS, _share(statement_time, status.last("innodb_thread_concurrency"))
    age = status.average("checkpoint_age_bytes")
    yield REDO_LOG, _share(age, status.last("checkpoint_max_age_bytes"))
    for name, counter in LOG_RATES.items():
        if counter in status.names:
            yield name, status.rate(counter)
    for counter in ROW_COUNTERS:
        if counter in status.names:
            yield ROWS_READ, status.rate(counter)


def _share(used: Array, limit: Array) -> Array:
    """Divide by a limit; NaN where it is 0, which means no limit."""
    with np.errstate(over="ignore"):
        share: Array = np.divide(used, limit, out=np.full(len(used), np.nan), where=limit != 0)
    return share


def _cpu_use(host: SampleColumns) -> Iterator[NamedArray]:
    """Yield the use of the processors; a node_exporter's sums are of those that are online.

    While a quota changes, the share of what the server may use is not known; nor are idle entries,
    the mean of the processors that are online, while their number changes.
    """
    busy = [name for name in BUSY_CPU_COUNTERS if name in host.names]
    if busy:
        rate = host.rate(*busy, unchanged="cpus")
        yield CPU, _cap_at_full(rate / host.last("cpus"))
    of_the_server = host.rate("process_cpu_seconds")
    of_allowed = host.rate("process_cpu_seconds", unchanged="process_cpus")
    yield SERVER_CPU, of_allowed / host.last("process_cpus")
    yield SERVER_SHARE_OF_CPU, of_the_server / host.last("cpus")
    steal = host.rate("cpu_steal_seconds", unchanged="cpus")
    yield STEAL, steal / host.last("cpus")
    yield CPUS, host.last("cpus")
    yield SERVER_CPUS, host.last("process_cpus")
    yield CLOCK, host.average("cpu_clock_ratio")
    yield IDLE_ENTRIES, host.rate("cpu_idle_entries", unchanged="cpus")


def _cap_at_full(used: Array) -> Array:
    """Cut at 1: counters of a full processor are read some ms before or after the sample's time."""
    most: Array = np.minimum(used, 1.0)
    return most


def _disk_use(host: SampleColumns) -> Iterator[NamedArray]:
    for name in sorted(host.names):
        if name.startswith(DISK) and name.endswith(":busy_seconds"):
            disk = name.removesuffix(":busy_seconds")
            yield disk, host.rate(name)
            yield f"{disk}:operations{RATE}", host.rate(f"{disk}:reads", f"{disk}:writes")
            moved = host.rate(f"{disk}:read_bytes", f"{disk}:written_bytes")
            yield f"{disk}:bytes{RATE}", moved
            if f"{disk}:flushes" in host.names:
                yield f"{disk}{FLUSH}", host.rate(f"{disk}:flush_seconds")
                yield f"{disk}:flushes{RATE}", host.rate(f"{disk}:flushes")


def _link_use(host: SampleColumns) -> Iterator[NamedArray]:
    """Yield both directions apart, since a link is full in one of them first."""
    for name in sorted(host.names):
        if name.startswith(NETWORK) and name.endswith(":received_bytes"):
            link = name.removesuffix(":received_bytes")
            speed = host.last(f"{link}:bytes_per_second")
            for direction in ("received", "sent"):
                rate = host.rate(f"{link}:{direction}_bytes")
                yield f"{link}:{direction}", rate / speed
                yield f"{link}:{direction}{RATE}", rate
