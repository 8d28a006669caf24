"""How far each resource of a server is used: its utilisation, 0 to 1 of what there is of it.

A resource whose ceiling is not known has no utilisation. CPU time that the hypervisor gave to
others (steal) counts as used, since it is not to be had; hyper-threads count as CPUs, which they
are only in part.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from agent.columns import Columns
from models.rates import Array

CPU = "cpu"
SERVER_CPU = "server_cpu"
BUSY = tuple(
    f"cpu_{name}_seconds" for name in ("user", "nice", "system", "irq", "softirq", "steal")
)

Named = tuple[str, Array]


def utilisations(
    columns: Mapping[str, Columns], statement_time: Array, edges: Array
) -> dict[str, Array]:
    """Each resource's utilisation between edges, shape (intervals,), NaN where not known."""
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
            yield name.removesuffix(":busy_seconds"), host.rate(edges, name)


def _interfaces(host: Columns, edges: Array) -> Iterator[Named]:
    """Both ways apart, since a link is full in one of them first."""
    for name in sorted(host.names):
        if name.startswith("network:") and name.endswith(":bytes_per_second"):
            link = name.removesuffix(":bytes_per_second")
            for way in ("received", "sent"):
                speed = host.last(edges, name)
                yield f"{link}:{way}", host.rate(edges, f"{link}:{way}_bytes") / speed
