"""Servers whose queries pay for waking a processor that they find idle: worked out by hand.

A query computes for D, and for w more where it finds the one processor idle. At random arrivals a
share 1 − U does: U = X·(D + w)/(1 + w·X), and the processor goes idle X·(1 − U) times a second. A
client that sends its queries evenly finds it idle each time until X·(D + w) = 1; from there on the
processor has just so many idle moments that it is never idle for long: U = 1, (1 − X·D)/w of them
a second, and none at X = 1/D, which is the capacity.
"""

import numpy as np

from models.capacity.observations import Observations
from models.capacity.resource_limit import Resource
from models.usl.law import Array

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
    rng = np.random.default_rng(seed)
    x = upto / demand * rng.uniform(0.2, 1.0, INTERVALS)
    if evenly:
        u = np.minimum(x * (demand + waking), 1.0)
        idle = np.minimum(x, (1 - x * demand) / waking)
    else:
        u = x * (demand + waking) / (1 + waking * x)
        idle = x * (1 - u)
    u = np.minimum(u * rng.normal(1.0, 0.02, INTERVALS), 1.0)
    idle = idle * rng.normal(1.0, 0.03, INTERVALS)
    n = np.where(u < 0.999, 1.3 * u + 0.3 * x * demand, 3.0) * rng.normal(1.0, 0.03, INTERVALS)
    entries = idle if is_measured else None
    processor = Resource("server_cpu", u, own=u, idle_entries=entries)
    return Observations.of(5.0 * np.arange(INTERVALS), x, n, resources=[processor])


PROCESSORS, STEPS, DAMPED = 16, 400, 0.1


def server_of_many_processors(
    demand: float, waking: float, upto: float, *, seed: int = 0, is_measured: bool = True
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
    processor = Resource("cpu", u, own=u, idle_entries=entries)
    return Observations.of(5.0 * np.arange(INTERVALS), x, n, resources=[processor])


def committing_server(
    demand: float, write: float, write_time: float, upto: float, *, seed: int, is_measured: bool
) -> tuple[Observations, float]:
    """Observe one whose commits share the writes of its log, and answer its capacity, queries/s.

    A commit computes for D, and each write of the log costs `write` seconds of the processor and
    takes `write_time`, one at a time. What commits meanwhile shares the next: X/(1 + X·write_time)
    writes a second.
    """
    rng = np.random.default_rng(seed)

    def writes(x: Array) -> Array:
        return np.asarray(x / (1 + x * write_time))

    loads = np.linspace(0.1, 1.0, 2000) / demand
    capacity = float(np.interp(1.0, loads * demand + write * writes(loads), loads))
    x = upto * capacity * rng.uniform(0.2, 1.0, INTERVALS)
    u = x * demand + write * writes(x)
    n = x * (1.5 * write_time + demand / (1 - u)) * rng.normal(1.0, 0.03, INTERVALS)
    u = np.minimum(u * rng.normal(1.0, 0.02, INTERVALS), 1.0)
    counted = writes(x) * rng.normal(1.0, 0.03, INTERVALS) if is_measured else None
    processor = Resource("server_cpu", u, own=u, log_writes=counted)
    seen = Observations.of(5.0 * np.arange(INTERVALS), x, n, resources=[processor])
    return seen, capacity
