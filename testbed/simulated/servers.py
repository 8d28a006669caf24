"""Simulated servers whose capacity is known.

Four kinds. `law_server` follows the Universal Scalability Law, cut off where a resource is full.
`queueing_server` is a closed queueing network (think time inside the statement, a processor
station of several cores, a lock) solved exactly by convolution over load-dependent stations
(J. Buzen 1973), where contention burns processor time; its capacity is the greatest throughput
of that same solution. `erlang_server` is open, M/M/m: its capacity is m/D. `woken_server` and
`committing_server` have queries that share a cost as they overlap, and count how often it is paid.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from models.arrays import Array
from models.usl.law import Usl


@dataclass(frozen=True, eq=False)
class Server:
    """A server in its steady states: N and the utilisations at each throughput it can hold."""

    name: str
    capacity: float
    x: Array = field(repr=False)
    """Throughputs on the way up to the capacity (queries/s), ascending."""
    n: Array = field(repr=False)
    utilisations: dict[str, Array] = field(repr=False)
    """The server's own, each 0..1 of the resource."""
    others: float = 0.02
    """What others use of the processor, on average."""
    idle_entries: Array | None = field(default=None, repr=False)
    """How often a second the processor goes idle, at each of `x`; None where it is not counted."""
    log_writes: Array | None = field(default=None, repr=False)
    """Writes of the log a second, the same."""
    connections: float = np.nan
    """How many connections the clients have open; NaN: nobody counted them."""
    processors: float | None = None
    """How many it has; None: nobody counted them."""
    busy_times: tuple[str, ...] = ()
    """Resources that one request at a time makes as busy as many at once."""

    def at(self, x: Array) -> tuple[Array, dict[str, Array]]:
        """Interpolate N and the utilisations at these throughputs."""
        u = {name: np.interp(x, self.x, column) for name, column in self.utilisations.items()}
        return np.interp(x, self.x, self.n), u

    def paid(self, x: Array) -> dict[str, Array]:
        """Interpolate what is counted of the shared costs, by the field's name."""
        counted = {"idle_entries": self.idle_entries, "log_writes": self.log_writes}
        return {
            name: np.interp(x, self.x, column)
            for name, column in counted.items()
            if column is not None
        }


def law_server(
    name: str,
    sigma: float,
    kappa: float,
    *,
    lam: float = 1000.0,
    full_at: float = 2.0,
    growth: float = 0.0,
    waking: float = 0.0,
    others: float = 0.02,
    convoy_at: float = 2.0,
) -> Server:
    """Follow the law; the processor is full at `full_at` times the law's peak, demand growing.

    growth is by how much the demand has grown when the processor is full; waking is what a query
    that finds it idle uses more than one that finds it busy, as a share; at `convoy_at` times what
    the law and the processor would allow, a lock ends it without a warning.
    """
    law = Usl(sigma, kappa, lam)
    peak = float(law.x_max or 0.0)
    resource_limit = full_at * peak
    capacity = min(peak, resource_limit) * min(convoy_at, 1.0)
    x = np.linspace(0.001, 1.0, 400) * capacity
    n = law.concurrency_at_throughput(x * (1 - 1e-9))
    share = x / resource_limit
    cpu = share * (1 + growth * share) / (1 + growth)
    cpu = cpu * (1 + waking) / (1 + waking * cpu)
    used = {"cpu": (1 - others) * cpu, "disk": 0.01 + 0.3 * share}
    return Server(name, capacity, x, n, used, others)


def queueing_server(
    name: str,
    cores: int,
    *,
    demand: float = 0.001,
    sleep: float = 0.005,
    lock: float = 0.0,
    crosstalk: float = 0.0,
    lock_crosstalk: float = 0.0,
    threads: int = 400,
) -> Server:
    """Solve a closed network with 1..threads statements at work; seconds per statement.

    With n statements at the processor its demand is demand·(1 + crosstalk·(n−1)): they spin on
    latches; with n at the lock it is held for lock·(1 + lock_crosstalk·(n−1)).
    """
    at = np.arange(1, threads + 1, dtype=np.float64)
    burnt = demand * (1 + crosstalk * (at - 1))
    rates = [np.minimum(at, cores) / burnt]
    if lock:
        rates.append(1 / (lock * (1 + lock_crosstalk * (at - 1))))
    x, shares = _convolution(sleep, rates, threads)
    busy = np.array([float(p[1 : m + 2] @ np.minimum(at[: m + 1], cores)) for m, p in shares])
    top = int(np.argmax(x))
    rising = slice(0, top + 1)
    x, n = np.append(1e-6, x[rising]), np.append(1e-6, at[rising])
    cpu = 0.98 * np.append(0.0, busy[rising]) / cores
    return Server(name, float(x[-1]), x, n, {"cpu": cpu, "disk": 0.01 + 0.2 * x / x[-1]})


def _convolution(
    delay: float, rates: Sequence[Array], threads: int
) -> tuple[Array, list[tuple[int, Array]]]:
    """Solve the network: throughput, and the processor's distribution, by population.

    Product form: the processor's station has the weights f(k) = Π 1/rate(j), and G = f * g.
    """
    logs = [np.append(0.0, -np.cumsum(np.log(rate))) for rate in rates]
    logs.append(np.append(0.0, np.cumsum(np.log(delay / np.arange(1, threads + 1)))))
    others = logs[-1]
    for station in logs[1:-1]:
        others = _convolved(station, others)
    total = _convolved(logs[0], others)
    x = np.exp(total[:-1] - total[1:])
    shares = []
    for m in range(1, threads + 1):
        p = np.exp(logs[0][: m + 1] + others[m::-1] - total[m])
        shares.append((m - 1, p))
    return x, shares


def _convolved(a: Array, b: Array) -> Array:
    """Compute ln Σ exp(a[k] + b[m−k]) for every m."""
    result = np.empty_like(a)
    for m in range(len(a)):
        terms = a[: m + 1] + b[m::-1]
        top = terms.max()
        result[m] = top + np.log(np.exp(terms - top).sum())
    return result


def erlang_server(
    name: str, cores: int, demand: float = 0.001, wait: float = 0.004, waking: float = 0.0
) -> Server:
    """M/M/m beside a pure delay: N = X·(delay + D) + Erlang's C·ρ/(1−ρ). Capacity m/D.

    Waking is what a query that finds a processor idle uses more, as a share of its demand.
    """
    capacity = cores / demand
    x = np.linspace(0.001, 0.995, 400)
    rho = x * (1 + waking) / (1 + waking * x)
    blocked = np.ones_like(rho)
    for servers in range(1, cores + 1):
        offered = rho * cores
        blocked = offered * blocked / (servers + offered * blocked)
    waiting = blocked / (1 - rho * (1 - blocked))
    x = x * capacity
    n = x * wait + rho * cores + waiting * rho / (1 - rho)
    return Server(name, capacity, x, n, {"cpu": 0.98 * rho, "disk": 0.01 + 0.2 * rho})


def woken_server(name: str, demand: float, waking: float, *, evenly: bool) -> Server:
    """One processor that each query which finds it idle wakes, at a cost in seconds.

    At random arrivals a share 1 − U does: U = X·(D + w)/(1 + w·X), and the processor goes idle
    X·(1 − U) times a second. A client that sends its queries evenly finds it idle each time until
    X·(D + w) = 1; from there on the processor has just so many idle moments that it is never idle
    for long: U = 1, (1 − X·D)/w of them a second, and none at X = 1/D, which is the capacity.
    """
    x = np.linspace(0.001, 1.0, 2000) / demand
    if evenly:
        u = np.minimum(x * (demand + waking), 1.0)
        idle = np.minimum(x, (1 - x * demand) / waking)
    else:
        u = x * (demand + waking) / (1 + waking * x)
        idle = x * (1 - u)
    free = idle > 0.03 * x
    n = np.where(free, 1.3 * u + 0.3 * x * demand, 3.0)
    used = {"cpu": u, "disk": 0.01 + 0.1 * u}
    return Server(name, 1 / demand, x, n, used, idle_entries=idle)


def crowded(server: Server, connections: float, loss: float) -> Server:
    """Give the clients of a server with one processor that many connections.

    All of them ask once it is full, and it serves less by `loss`, in ln X, of which nothing shows
    below.
    """
    capacity = server.capacity * float(np.exp(-loss))
    return replace(server, capacity=capacity, connections=connections, processors=1.0)


def committing_server(name: str, demand: float, write: float, write_time: float) -> Server:
    """One processor whose commits share the writes of the log.

    A commit computes for D, and each write of the log costs `write` seconds of the processor and
    takes `write_time`, one at a time. What commits meanwhile shares the next: X/(1 + X·write_time)
    writes a second.
    """
    x = np.linspace(0.001, 1.0, 2000) / demand
    writes = x / (1 + x * write_time)
    whole = x * demand + write * writes
    capacity = float(np.interp(1.0, whole, x))
    rising = x < 0.999 * capacity
    x, writes, u = x[rising], writes[rising], whole[rising]
    n = x * (1.5 * write_time + demand / (1 - u))
    used = {"cpu": u, "disk": writes * write_time}
    return Server(name, capacity, x, n, used, log_writes=writes, busy_times=("disk",))
