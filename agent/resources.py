"""How far each resource of a server is used: its utilisation, 0 to 1 of what there is of it.

A resource whose ceiling is not known has no utilisation; what may be given one by the configuration
is kept as a rate, per second. CPU time that the hypervisor gave to
others (steal) counts as used, since it is not to be had; hyper-threads count as CPUs, which they
are only in part.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from agent.columns import Columns
from agent.config.ceilings import ResourceSettings
from models.capacity.walls import Resource
from models.rates import Array

CPU = "cpu"
SERVER_CPU = "server_cpu"
BUSY = tuple(
    f"cpu_{name}_seconds" for name in ("user", "nice", "system", "irq", "softirq", "steal")
)

SETTINGS = {"connections", "innodb_threads", "redo_log"}
"""The server's own limits, which somebody set."""
RATE = "_per_second"

Named = tuple[str, Array]


def is_rate(name: str) -> bool:
    """Whether what is kept under this name is a rate and not a utilisation."""
    return name.endswith(RATE)


def with_ceilings(
    utilisations: Mapping[str, Array], rates: Mapping[str, Array], ceilings: ResourceSettings
) -> list[Resource]:
    """Every resource whose ceiling is known, or given by the configuration."""
    used = {name: (u, 1.0) for name, u in utilisations.items()}
    for name, limit in ceilings.limits.items():
        if name + RATE in rates:
            used[name] = (rates[name + RATE], limit)
    return [
        Resource(name, u, limit * ceilings.ceilings.get(name, 1.0), is_setting=name in SETTINGS)
        for name, (u, limit) in used.items()
    ]


def usage(columns: Mapping[str, Columns], statement_time: Array, edges: Array) -> dict[str, Array]:
    """Each utilisation between edges, or rate; shape (intervals,), NaN where not known."""
    found = dict(_limits(columns["status"], statement_time, edges))
    host = columns.get("host")
    if host is not None:
        found |= dict((*_cpus(host, edges), *_disks(host, edges), *_interfaces(host, edges)))
    return {name: used for name, used in found.items() if np.isfinite(used).any()}


def _limits(status: Columns, statement_time: Array, edges: Array) -> Iterator[Named]:
    """What the server's own settings limit."""
    connected = status.average(edges, "threads_connected")
    yield "connections", connected / status.last(edges, "max_connections")
    yield "innodb_threads", statement_time / status.last(edges, "innodb_thread_concurrency")
    yield (
        "redo_log",
        (
            status.average(edges, "checkpoint_age_bytes")
            / status.last(edges, "checkpoint_max_age_bytes")
        ),
    )


def _cpus(host: Columns, edges: Array) -> Iterator[Named]:
    yield CPU, host.rate(edges, *BUSY) / host.last(edges, "cpus")
    yield SERVER_CPU, host.rate(edges, "process_cpu_seconds") / host.last(edges, "process_cpus")


def _disks(host: Columns, edges: Array) -> Iterator[Named]:
    for name in sorted(host.names):
        if name.startswith("disk:") and name.endswith(":busy_seconds"):
            disk = name.removesuffix(":busy_seconds")
            yield disk, host.rate(edges, name)
            yield f"{disk}:operations{RATE}", host.rate(edges, f"{disk}:reads", f"{disk}:writes")
            moved = host.rate(edges, f"{disk}:read_bytes", f"{disk}:written_bytes")
            yield f"{disk}:bytes{RATE}", moved


def _interfaces(host: Columns, edges: Array) -> Iterator[Named]:
    """Both ways apart, since a link is full in one of them first."""
    for name in sorted(host.names):
        if name.startswith("network:") and name.endswith(":received_bytes"):
            link = name.removesuffix(":received_bytes")
            speed = host.last(edges, f"{link}:bytes_per_second")
            for way in ("received", "sent"):
                rate = host.rate(edges, f"{link}:{way}_bytes")
                yield f"{link}:{way}", rate / speed
                yield f"{link}:{way}{RATE}", rate
