"""Simulated months of a server by the minute: its demand, its capacity, and the measurements.

The load follows the day and the week, with noise from minute to minute and waves of ten minutes.
What is not served waits, until all of the clients' connections do, as in an open loop above a real
server's capacity.
A month has one story, or none: growth, a launch, a deploy that makes queries dearer, bursts, a
neighbour that takes processors, nightly backups, locks. What is asked for as a share of what the
server can do at that time is the truth; from 1 on it is saturated.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from agent.pipeline import observations
from agent.window.concurrency import ConcurrencySource
from agent.window.interval_buffer import IntervalBuffer
from agent.window.intervals import Interval
from models.arrays import Array
from models.capacity.observations import Observations
from testbed.simulated.day_scenarios import EARLY
from testbed.simulated.servers import Server, erlang_server, law_server, queueing_server

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
DAYS = 28
MINUTES = int(DAYS * DAY / MINUTE)
PER_DAY = int(DAY / MINUTE)
DEEPEST = 4.0
"""So many times the statements at the capacity wait at most: the pool of connections ends there."""
LOST = 0.1
"""The part of the throughput that is lost where twice the capacity is asked for."""


@dataclass(eq=False, slots=True)
class MonthlyLoad:
    """The demand of a server and its disturbances by minute; arrays of shape (MINUTES,)."""

    load: Array
    """Asked for, as a share of the capacity at the beginning of the month."""
    cost: Array = field(default_factory=lambda: np.ones(MINUTES))
    """What a query takes, relative to the beginning."""
    others: Array = field(default_factory=lambda: np.full(MINUTES, 0.02))
    """The part of the processors that others use."""
    disk: Array = field(default_factory=lambda: np.zeros(MINUTES))
    """How busy others, a backup for one, make the disk."""
    stuck: Array = field(default_factory=lambda: np.zeros(MINUTES))
    """The part of the statements that wait for a lock."""
    events: list[int] = field(default_factory=list)
    """Minutes at which something begins."""


@dataclass(frozen=True, eq=False, slots=True)
class Month:
    """A server and its month."""

    story: str
    seed: int
    server: Server
    monthly_load: MonthlyLoad
    asked: Array
    """The truth: what is asked for over what can be done; 1 is saturated. Shape (MINUTES,)."""
    rng: np.random.Generator
    used_at_most: float
    """The part of the processors' time that is used at the capacity."""

    @property
    def room(self) -> Array:
        """The capacity as a share of the beginning's; shape (MINUTES,)."""
        return self.monthly_load.load / self.asked

    def intervals(self, first: int, last: int) -> list[Interval]:
        """Return the agent's intervals of these minutes; times are seconds of the month."""
        part = slice(first, last)
        share, cost = self.asked[part], self.monthly_load.cost[part]
        others, stuck = self.monthly_load.others[part], self.monthly_load.stuck[part]
        room = (1 - others) / 0.98
        served = np.minimum(share, 1.0) * (1 - LOST * np.clip(share - 1, 0, 1)) * (1 - stuck)
        x = served * room * self.server.capacity
        n, used = self.server.at(np.minimum(share, 1.0) * self.server.capacity)
        n = (n + self._waiting(share, room)) / (1 - stuck) ** 2
        noise = np.exp(self.rng.normal(0, 0.02, (4, last - first)))
        own = used["cpu"] * self.used_at_most * (1 - stuck) * room * noise[0]
        own = np.minimum(own, 1 - others)
        columns = {
            "cpu": np.minimum(own + others, 1.0),
            "cpu:server": own,
            "server_cpu": own,
            "disk:sda": np.clip(
                used["disk"] * room * noise[1] + self.monthly_load.disk[part], 0, 1
            ),
            "connections": np.clip(0.1 + 0.3 * n * noise[2] / (DEEPEST * self.server.n[-1]), 0, 1),
        }
        x, n = x / cost * noise[3], n * noise[2]
        return [
            Interval(
                end=MINUTE * (first + k + 1),
                seconds=MINUTE,
                throughput=float(x[k]),
                statement_time=float(n[k]),
                threads_running=float(n[k]) + 1,
                thread_samples=60.0,
                excluded_agent=1.0,
                excluded_binlog_dump=0.0,
                excluded_system=0.0,
                resources={name: float(column[k]) for name, column in columns.items()},
            )
            for k in range(last - first)
        ]

    def _waiting(self, share: Array, room: Array) -> Array:
        """Count the statements that wait since more are asked for than can be done, each minute.

        They add up until all connections wait, and are served when less is asked for.
        """
        most, waiting = (DEEPEST - 1) * self.server.n[-1], 0.0
        added = MINUTE * (share - 1) * room * self.server.capacity
        waiting_at = np.zeros_like(added)
        for minute, more in enumerate(added):
            waiting = float(np.clip(waiting + more, 0, most))
            waiting_at[minute] = waiting
        return waiting_at

    def day_until(self, end: int) -> Observations:
        """Return the agent's observations of the day that ends with that minute."""
        buffer = IntervalBuffer(MINUTE, DAY, 1.0)
        buffer.append_intervals(self.intervals(end - PER_DAY, end), MINUTE * end)
        return observations(buffer.window(MINUTE * end), ConcurrencySource.STATEMENT_TIME)


def server_month(story: str, seed: int) -> Month:
    """Return one simulated month; the same seed gives the same."""
    number = list(STORIES).index(story)
    rng = np.random.default_rng([seed, number])
    server = _SERVERS[int(rng.integers(len(_SERVERS)))](rng)
    monthly_load = STORIES[story](rng)
    asked = monthly_load.load * monthly_load.cost * 0.98 / (1 - monthly_load.others)
    used_at_most = 1 - np.random.default_rng([seed, number, 1]).uniform(0, EARLY)
    return Month(story, seed, server, monthly_load, asked, rng, used_at_most)


def _pattern(rng: np.random.Generator) -> Array:
    """The load of ordinary weeks: its usual daily peak is 1."""
    at = np.arange(MINUTES) / PER_DAY
    hour = 2 * np.pi * (at + rng.uniform())
    low = rng.uniform(0.2, 0.5)
    day = low + (1 - low) * (0.5 - 0.5 * np.cos(hour)) ** rng.uniform(0.7, 1.5)
    week = np.where((np.floor(at) + rng.integers(7)) % 7 >= 5, rng.uniform(0.5, 0.95), 1.0)
    days = np.repeat(rng.normal(0, 0.02, DAYS), PER_DAY)
    waves = np.interp(at, np.arange(0, DAYS, 1 / 96), rng.normal(0, 0.04, DAYS * 96))
    pattern: Array = day * week * np.exp(days + waves + rng.normal(0, 0.02, MINUTES))
    return pattern


def _middays(rng: np.random.Generator, load: Array, count: int) -> list[int]:
    """Minutes within four hours of the peaks of different days, in the second half of the month."""
    days = rng.choice(np.arange(DAYS // 2, DAYS - 1), count, replace=False)
    tops = [int(d) * PER_DAY + int(np.argmax(load[d * PER_DAY : (d + 1) * PER_DAY])) for d in days]
    return [int(np.clip(top + rng.integers(-240, 240), 0, MINUTES - 400)) for top in tops]


def _steady(low: float, high: float) -> Callable[[np.random.Generator], MonthlyLoad]:
    def draw(rng: np.random.Generator) -> MonthlyLoad:
        return MonthlyLoad(rng.uniform(low, high) * _pattern(rng))

    return draw


def _growth(rng: np.random.Generator) -> MonthlyLoad:
    """One or two per cent a day; the usual peak meets the capacity in the second half."""
    at, pace = np.arange(MINUTES) / PER_DAY, rng.uniform(0.01, 0.02)
    return MonthlyLoad(_pattern(rng) * (1 + pace * (at - rng.uniform(10, 24))))


def _launch(rng: np.random.Generator) -> MonthlyLoad:
    """More load for good, that comes within half an hour to four hours."""
    load = rng.uniform(0.55, 0.8) * _pattern(rng)
    (at,) = _middays(rng, load, 1)
    ramp = np.clip((np.arange(MINUTES) - at) / rng.uniform(30, 240), 0, 1)
    return MonthlyLoad(load * (1 + rng.uniform(0.2, 1.0) * ramp), events=[at])


def _deploy(rng: np.random.Generator) -> MonthlyLoad:
    """A query costs more within five minutes, by a tenth to four fifths."""
    load = rng.uniform(0.55, 0.85) * _pattern(rng)
    (at,) = _middays(rng, load, 1)
    ramp = np.clip((np.arange(MINUTES) - at) / 5, 0, 1)
    return MonthlyLoad(load, cost=1 + rng.uniform(0.1, 0.8) * ramp, events=[at])


def _bursts(rng: np.random.Generator) -> MonthlyLoad:
    """Four times more load for twenty minutes to two hours; it rises within 2 to 60 minutes."""
    load = rng.uniform(0.5, 0.75) * _pattern(rng)
    events = _middays(rng, load, 4)
    for at in events:
        rise, lasts = rng.uniform(2, 60), rng.uniform(20, 120)
        since = np.arange(MINUTES) - at
        shape = np.clip(since / rise, 0, 1) * np.clip((lasts + rise - since) / rise, 0, 1)
        load = load * (1 + rng.uniform(0.2, 1.5) * shape)
    return MonthlyLoad(load, events=events)


def _neighbours(rng: np.random.Generator) -> MonthlyLoad:
    """Others take a quarter to a half of the processors for one to three hours, on four days."""
    load, others = rng.uniform(0.5, 0.85) * _pattern(rng), np.full(MINUTES, 0.02)
    events = _middays(rng, load, 4)
    for at in events:
        others[at : at + rng.integers(60, 180)] = rng.uniform(0.25, 0.5)
    return MonthlyLoad(load, others=others, events=events)


def _backups(rng: np.random.Generator) -> MonthlyLoad:
    """Every night the disk is busy for two hours, and some of the processors are."""
    load = rng.uniform(0.5, 0.85) * _pattern(rng)
    others, disk, events = np.full(MINUTES, 0.02), np.zeros(MINUTES), []
    low = int(np.argmin(load[:PER_DAY]))
    for at in range(low, MINUTES - 120, PER_DAY):
        others[at : at + 120], disk[at : at + 120] = 0.15, 0.95
        events.append(at)
    return MonthlyLoad(load, others=others, disk=disk, events=events[DAYS // 2 :])


def _locks(rng: np.random.Generator) -> MonthlyLoad:
    """On four days a lock blocks most statements, for 5 to 25 minutes."""
    load, stuck = rng.uniform(0.4, 0.8) * _pattern(rng), np.zeros(MINUTES)
    events = _middays(rng, load, 4)
    for at in events:
        stuck[at : at + rng.integers(5, 25)] = rng.uniform(0.4, 0.7)
    return MonthlyLoad(load, stuck=stuck, events=events)


STORIES: Mapping[str, Callable[[np.random.Generator], MonthlyLoad]] = {
    "growth": _growth,
    "launch": _launch,
    "deploy": _deploy,
    "bursts": _bursts,
    "neighbours": _neighbours,
    "backups": _backups,
    "locks": _locks,
    "half used": _steady(0.4, 0.65),
    "well used": _steady(0.7, 0.85),
}


def _law(rng: np.random.Generator) -> Server:
    n_max, sigma = float(np.exp(rng.uniform(np.log(15), np.log(200)))), float(rng.uniform(0, 0.08))
    full_at = float(np.exp(rng.uniform(np.log(0.5), np.log(1.5))))
    return law_server("law", sigma, (1 - sigma) / n_max**2, full_at=full_at)


def _queue(rng: np.random.Generator) -> Server:
    cores = int(rng.choice([2, 4, 8, 16]))
    lock = float(rng.choice([0.0, 0.7, 1.2])) * 0.001 / cores
    return queueing_server("queue", cores, lock=lock, lock_crosstalk=0.01 * bool(lock), threads=200)


def _erlang(rng: np.random.Generator) -> Server:
    return erlang_server("open", int(rng.integers(2, 33)))


_SERVERS = (_law, _queue, _erlang)
