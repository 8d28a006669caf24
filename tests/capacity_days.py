"""Days of a server that waits for nothing but its processors, interval by interval."""

import sys
from pathlib import Path

import numpy as np

from models.capacity.observations import Observations
from models.capacity.wall import Resource
from models.usl import Array

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

from simulated_servers import Server

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
