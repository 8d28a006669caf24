"""Days of simulated servers: their load, and what is measured of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from models.arrays import Array
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import Resource
from testbed.simulated.servers import (
    Server,
    committing_server,
    crowded,
    erlang_server,
    law_server,
    queueing_server,
    woken_server,
)

EARLY = 0.045
"""Real processors are at their end before all of their time is used: by so much at most. Eight
that were held at their peaks were 95.5 to 100 % busy."""


@dataclass(frozen=True)
class DaySettings:
    """How a server is loaded and measured."""

    reach: float
    """The highest load, as a share of the capacity."""
    low: float = 0.1
    intervals: int = 480
    nights: float = 0.0
    """The share of the intervals that are nearly idle."""
    noise: float = 0.02
    """Relative deviation of N and of the utilisations."""
    samples: int = 0
    """Looks at Threads_running per interval; 0: N by Little's law."""
    pile_ups: float = 0.0
    backups: float = 0.0
    mix_change: float | None = None
    """Before two fifths of the time every query cost so many times as much."""
    neighbours: float = 0.0
    """By how much what others use of the processor varies from interval to interval, as a share."""
    night_jobs: bool = False
    """A quarter of the time a few heavy jobs run instead: 8 times the cost."""
    bursts: float = 0.0
    """By how much arrivals are more, and less, than their mean, in the halves of each interval."""


def simulate_day(server: Server, settings: DaySettings, rng: np.random.Generator) -> Observations:
    """Draw a day: a daily curve of the load with bursts, and what is measured of it."""
    k = settings.intervals
    share, cost = _draw_load(settings, rng)
    x = share * server.capacity
    n, u, paid = _averaged(server, [x * (1 + part * settings.bursts) for part in (-1, 1)])
    u["cpu"] = u["cpu"] * (1 - rng.uniform(0, EARLY))
    x = x / cost
    errors = rng.normal(0, settings.noise, (len(u) + 1, k))
    n = n * np.exp(errors[0])
    u = {name: c * np.exp(e) for (name, c), e in zip(u.items(), errors[1:], strict=True)}
    n, u = _disturb(n, u, settings, rng)
    variance = np.zeros(k)
    if settings.samples:
        n = rng.poisson(n * settings.samples) / settings.samples
        variance = np.maximum(n, 1 / settings.samples) / settings.samples
    resources = _measured_resources(server, u, paid, settings, rng)
    at = 15.0 * np.arange(1, k + 1)
    return Observations.of(
        at, x, n, n_variance=variance, resources=resources, connections=server.connections
    )


def _draw_load(settings: DaySettings, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw the load as a share of the capacity, and the factor of a query's cost, (intervals,)."""
    k = settings.intervals
    day = 0.5 - 0.5 * np.cos(np.linspace(0, 4 * np.pi, k) + rng.uniform(0, 6.28))
    burst = np.repeat(rng.normal(0, 0.15, k // 8 + 1), 8)[:k] + rng.normal(0, 0.05, k)
    share = settings.low + (settings.reach - settings.low) * np.clip(day + burst, 0, 1)
    idle = day < np.quantile(day, settings.nights)
    share = np.where(idle, 0.002 + 0.004 * rng.uniform(size=k), share)
    cost = np.ones(k)
    if settings.mix_change is not None:
        cost[: 2 * k // 5] = settings.mix_change
    if settings.night_jobs:
        jobs = day < np.quantile(day, 0.25)
        cost[jobs] = 8.0
        share[jobs] = rng.uniform(0.1, 0.5, int(jobs.sum()))
    return share, cost


def _measured_resources(
    server: Server,
    u: dict[str, Array],
    paid: dict[str, Array],
    settings: DaySettings,
    rng: np.random.Generator,
) -> list[Resource]:
    """Add the neighbours' use to the processor's, and noise to what is counted."""
    k = settings.intervals
    mine = np.clip(u.pop("cpu"), 0, 1)
    theirs = server.others * rng.uniform(1 - settings.neighbours, 1 + settings.neighbours, k)
    counted = {name: c * np.exp(rng.normal(0, settings.noise, k)) for name, c in paid.items()}
    cpu = Resource(
        "cpu",
        np.minimum(mine + theirs, 1.0),
        own=mine,
        idle_entries=counted.get("idle_entries"),
        log_writes=counted.get("log_writes"),
        processors=None if server.processors is None else np.full(k, server.processors),
    )
    others = [
        Resource(name, np.clip(column, 0, 1), is_busy_time=name in server.busy_times)
        for name, column in u.items()
    ]
    return [cpu, *others]


def _averaged(
    server: Server, loads: Sequence[Array]
) -> tuple[Array, dict[str, Array], dict[str, Array]]:
    """Average N, the utilisations and what is paid over equal parts of each interval."""
    states, paid = [server.at(x) for x in loads], [server.paid(x) for x in loads]
    n = np.mean([n for n, _ in states], axis=0)
    u = {name: np.mean([u[name] for _, u in states], axis=0) for name in server.utilisations}
    return n, u, {name: np.mean([each[name] for each in paid], axis=0) for name in paid[0]}


def _disturb(
    n: Array, u: dict[str, Array], settings: DaySettings, rng: np.random.Generator
) -> tuple[Array, dict[str, Array]]:
    """Add pile-ups, that hold threads, and one backup, that keeps the disk busy."""
    k = len(n)
    stuck = rng.uniform(size=k) < settings.pile_ups
    n = np.where(stuck, n + rng.uniform(0.5, 3, k) * n.max(), n)
    start = int(rng.integers(0, k))
    backup = (np.arange(k) - start) % k < ceil(settings.backups * k)
    disk = np.where(backup, np.maximum(u["disk"], rng.uniform(0.5, 0.9, k)), u["disk"])
    return n, {**u, "disk": disk}


@dataclass(frozen=True)
class DayScenario:
    """A kind of server, drawn again with each seed, and how it is loaded and measured."""

    name: str
    server: Callable[[np.random.Generator], Server]
    settings: Callable[[float], DaySettings]
    reaches: tuple[float, ...] = (0.3, 0.5, 0.7, 0.9)


def scenarios() -> list[DayScenario]:
    """Return every kind of server and of disturbance."""
    return [
        DayScenario("law, full beyond the peak", _any_law(1.1, 2.0), DaySettings),
        DayScenario("law, full far beyond", _any_law(2.5, 5.0), DaySettings),
        DayScenario("law, plateau at the cores", _any_law(0.5, 0.95), DaySettings),
        DayScenario("law, demand grows", _any_law(0.6, 1.5, 0.5), DaySettings),
        DayScenario("Amdahl, κ ≈ 0", _amdahl, DaySettings),
        DayScenario("queueing, processor only", _any_queue(lock=False), DaySettings),
        DayScenario("queueing, and a lock", _any_queue(lock=True), DaySettings),
        DayScenario(
            "queueing, burns processor", _any_queue(lock=False, crosstalk=True), DaySettings
        ),
        DayScenario(
            "Erlang", lambda rng: erlang_server("e", int(rng.integers(2, 65))), DaySettings
        ),
        DayScenario("law, wake-ups", _any_law(0.5, 1.0, waking=0.5), DaySettings),
        DayScenario("law, convoy", _any_law(0.6, 1.5, convoy=0.6), DaySettings),
        DayScenario(
            "neighbours", _any_law(0.6, 1.5, others=0.2), lambda r: DaySettings(r, neighbours=1.0)
        ),
        DayScenario("noise 6 %", _any_law(0.6, 2.0), lambda r: DaySettings(r, noise=0.06)),
        DayScenario("idle nights", _any_law(0.6, 2.0), lambda r: DaySettings(r, nights=0.5)),
        DayScenario(
            "busy, narrow range", _any_law(0.6, 2.0), lambda r: DaySettings(r, low=0.75 * r)
        ),
        DayScenario("Threads_running", _any_law(0.6, 2.0), lambda r: DaySettings(r, samples=15)),
        DayScenario(
            "Threads_running, queue", _any_queue(lock=True), lambda r: DaySettings(r, samples=15)
        ),
        DayScenario("pile-ups 4 %", _any_law(0.6, 2.0), lambda r: DaySettings(r, pile_ups=0.04)),
        DayScenario("backup 5 %", _any_law(0.6, 2.0), lambda r: DaySettings(r, backups=0.05)),
        DayScenario("mix changed", _any_law(0.6, 2.0), lambda r: DaySettings(r, mix_change=1.5)),
        DayScenario("night jobs", _any_law(0.6, 2.0), lambda r: DaySettings(r, night_jobs=True)),
        DayScenario("a day, thinned", _any_law(0.6, 2.0), lambda r: DaySettings(r, intervals=5760)),
        DayScenario("hour only", _any_law(0.6, 2.0), lambda r: DaySettings(r, intervals=60)),
        DayScenario("one processor, wake-ups", _one_processor, DaySettings),
        DayScenario("law, costly wake-ups", _any_law(0.5, 1.0, waking=2.0), DaySettings),
        DayScenario("few processors, no delay", _few_processors, DaySettings),
        DayScenario("short reads, random arrivals", _short_reads(evenly=False), DaySettings),
        DayScenario("short reads, even arrivals", _short_reads(evenly=True), DaySettings),
        DayScenario("small commits", _small_commits, DaySettings),
        DayScenario("small commits, bursts", _small_commits, _bursty),
        DayScenario("bursts in the interval", _any_law(0.6, 2.0), _bursty),
        DayScenario("short reads, 64 connections", _crowded_reads, DaySettings),
    ]


def _bursty(reach: float) -> DaySettings:
    """Up to the capacity: beyond it a burst is a queue that the next calm has to serve."""
    return DaySettings(reach, bursts=min(0.2, 1 / reach - 1))


def _any_law(
    nearest: float,
    farthest: float,
    growth: float = 0.0,
    *,
    waking: float = 0.0,
    others: float = 0.02,
    convoy: float = 1.0,
) -> Callable[[np.random.Generator], Server]:
    def draw(rng: np.random.Generator) -> Server:
        n_max = float(np.exp(rng.uniform(np.log(15), np.log(200))))
        sigma = float(rng.choice([0.0, 0.01, 0.03, 0.08]))
        full_at = float(np.exp(rng.uniform(np.log(nearest), np.log(farthest))))
        lam = float(np.exp(rng.uniform(np.log(10), np.log(3000))))
        return law_server(
            "law",
            sigma,
            (1 - sigma) / n_max**2,
            lam=lam,
            full_at=full_at,
            growth=growth,
            waking=waking * float(rng.uniform()),
            others=others,
            convoy_at=float(rng.uniform(convoy, 1.0)),
        )

    return draw


def _few_processors(rng: np.random.Generator) -> Server:
    return erlang_server("few", int(rng.choice([2, 4, 8])), wait=0.0)


def _one_processor(rng: np.random.Generator) -> Server:
    waking = float(rng.uniform(0.3, 2.0))
    return erlang_server("one", 1, demand=4e-5, wait=float(rng.choice([0.0, 5e-5])), waking=waking)


def _short_reads(*, evenly: bool) -> Callable[[np.random.Generator], Server]:
    """As recorded: 30 to 135 µs, and up to as much again where the processor is idle."""

    def draw(rng: np.random.Generator) -> Server:
        demand = float(rng.uniform(3e-5, 1.5e-4))
        return woken_server("reads", demand, demand * float(rng.uniform(0.3, 1)), evenly=evenly)

    return draw


def _crowded_reads(rng: np.random.Generator) -> Server:
    """As recorded: each doubling of the threads at a full processor costs 5 ± 4 %."""
    loss = max(float(rng.normal(0.047, 0.039)), 0.0) * np.log2(64 / 4)
    return crowded(_short_reads(evenly=False)(rng), 64.0, loss)


def _small_commits(rng: np.random.Generator) -> Server:
    """As recorded: 100 to 300 µs of a commit, about as much of a write, which takes 0.2 to 2 ms."""
    demand, write = rng.uniform(8e-5, 3e-4), rng.uniform(5e-5, 4e-4)
    return committing_server("commits", float(demand), float(write), float(rng.uniform(2e-4, 2e-3)))


def _amdahl(rng: np.random.Generator) -> Server:
    sigma = float(rng.uniform(0.005, 0.05))
    return law_server("Amdahl", sigma, 1e-7, full_at=float(rng.uniform(0.4, 0.8)))


def _any_queue(*, lock: bool, crosstalk: bool = False) -> Callable[[np.random.Generator], Server]:
    def draw(rng: np.random.Generator) -> Server:
        cores = int(rng.choice([2, 4, 8, 16, 32]))
        held = 0.001 / cores * float(rng.uniform(0.5, 1.5)) if lock else 0.0
        spin = float(rng.uniform(0.001, 0.02)) / cores if crosstalk else 0.0
        sleep = float(rng.choice([0.001, 0.005, 0.01]))
        return queueing_server(
            "queue", cores, sleep=sleep, lock=held, crosstalk=spin, lock_crosstalk=0.01 * lock
        )

    return draw
