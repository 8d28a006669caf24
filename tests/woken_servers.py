"""Servers whose queries share a cost as they overlap, observed."""

import numpy as np

from models.capacity.observations import Observations
from models.capacity.resource_and_limit import Resource
from testbed.simulated import servers as simulated_servers
from testbed.simulated.servers import Server

INTERVALS = 120


def woken_server(
    demand: float,
    waking: float,
    upto: float,
    *,
    evenly: bool,
    seed: int = 0,
    is_measured: bool = True,
) -> Observations:
    """Observe it at loads up to a share of 1/demand (s), in intervals of 5 s."""
    server = simulated_servers.woken_server("reads", demand, waking, evenly=evenly)
    return observed(server, upto, seed, is_measured=is_measured)


def committing_server(
    demand: float, write: float, write_time: float, upto: float, *, seed: int, is_measured: bool
) -> tuple[Observations, float]:
    """Observe one whose commits share the writes of its log, and answer its capacity, queries/s."""
    server = simulated_servers.committing_server("commits", demand, write, write_time)
    return observed(server, upto, seed, is_measured=is_measured), server.capacity


def observed(server: Server, upto: float, seed: int, *, is_measured: bool) -> Observations:
    """Observe its processor at loads up to a share of the capacity."""
    rng = np.random.default_rng(seed)
    x = upto * server.capacity * rng.uniform(0.2, 1.0, INTERVALS)
    n, used = server.at(x)
    u = np.minimum(used["cpu"] * rng.normal(1.0, 0.02, INTERVALS), 1.0)
    counted = {
        name: paid * rng.normal(1.0, 0.03, INTERVALS) for name, paid in server.paid(x).items()
    }
    n = n * rng.normal(1.0, 0.03, INTERVALS)
    if not is_measured:
        counted = {}
    idle, writes = counted.get("idle_entries"), counted.get("log_writes")
    processor = Resource(
        "server_cpu",
        u,
        own=u,
        idle_entries=idle,
        log_writes=writes,
        processors=np.ones(INTERVALS),
    )
    return Observations.of(5.0 * np.arange(INTERVALS), x, n, resources=[processor])


PROCESSORS, STEPS, DAMPED = 16, 400, 0.1


def server_of_many_processors(
    demand: float, waking: float, upto: float, *, seed: int, is_measured: bool
) -> Observations:
    """Observe one of sixteen processors at loads up to a share of 16/demand."""
    rng = np.random.default_rng(seed)
    x = upto * PROCESSORS / demand * rng.uniform(0.2, 1.0, INTERVALS)
    u = x * demand / PROCESSORS
    for _ in range(STEPS):  # U = X·(D + w·(1 − U^m))/m
        found_idle = 1 - u**PROCESSORS
        whole = np.minimum(x * (demand + waking * found_idle) / PROCESSORS, 1.0)
        u = (1 - DAMPED) * u + DAMPED * whole
    idle = x * (1 - u**PROCESSORS) / PROCESSORS
    u = np.minimum(u * rng.normal(1.0, 0.02, INTERVALS), 1.0)
    idle = idle * rng.normal(1.0, 0.03, INTERVALS)
    n = PROCESSORS * u * (1 + 0.3 * u**PROCESSORS) * rng.normal(1.0, 0.03, INTERVALS)
    entries = idle if is_measured else None
    count = np.full(INTERVALS, float(PROCESSORS))
    processor = Resource("cpu", u, own=u, idle_entries=entries, processors=count)
    return Observations.of(5.0 * np.arange(INTERVALS), x, n, resources=[processor])
