"""Days of simulated servers, and what is asked of every answer about them."""

from dataclasses import replace

import numpy as np

from models.arrays import Array
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import Resource
from models.capacity.result import REMARKS, Capacity
from models.trust import Trust
from testbed.simulated.day_scenarios import DaySettings, simulate_day
from testbed.simulated.servers import Server, law_server

SECONDS = 15
INTERVALS = 480


def tide(reach: float, rng: np.random.Generator) -> Array:
    """Shares of the capacity: two days' waves."""
    wave = 0.5 - 0.5 * np.cos(np.linspace(0, 4 * np.pi, INTERVALS))
    return 0.1 + (reach - 0.1) * np.clip(wave + rng.normal(0, 0.05, INTERVALS), 0, 1)


def observed(server: Server, share: Array, n: Array, rng: np.random.Generator) -> Observations:
    """Intervals at these shares of the capacity, with this concurrency; 98 % of the CPU is ours."""
    own = 0.98 * share * np.exp(rng.normal(0, 0.01, len(share)))
    used = Resource("cpu", np.minimum(own + 0.02, 1), own=own)
    at = SECONDS * np.arange(1, len(share) + 1)
    return Observations.of(at, share * server.capacity, n, resources=[used])


def residing(server: Server, share: Array) -> Array:
    """How many statements are there at once at these shares of the capacity."""
    return np.asarray(np.interp(share * server.capacity, server.x, server.n))


def day(
    settings: DaySettings, *, full_at: float = 2.0, seed: int = 1
) -> tuple[float, Observations]:
    """The true capacity and a day of a server that follows the law (σ 0.02, κ 0.0005)."""
    server = law_server("law", 0.02, 0.0005, full_at=full_at)
    return server.capacity, simulate_day(server, settings, np.random.default_rng(seed))


def numbers(found: Capacity) -> Array:
    """Lower bound, value, upper bound."""
    return np.array([found.lower, found.value, found.upper], dtype=np.float64)


def without_concurrency(seen: Observations) -> Observations:
    """The same day, statement time and threads not known."""
    return replace(seen, concurrency=np.full(len(seen), np.nan))


def explained_well(found: Capacity) -> None:
    """Whatever is not trusted has a reason that takes trust away, or nothing would settle it."""
    weighty = set(found.reasons) - REMARKS
    assert bool(weighty) == (found.trust is not Trust.TRUSTED)
