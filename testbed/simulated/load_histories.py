"""Simulated months of a load, hour by hour: growth, days and weeks, bursts, steps, gaps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from models.arrays import Array, Mask

HOURS = 24
AHEAD = 45
"""Days of truth after the history."""


@dataclass(frozen=True, eq=False, slots=True)
class LoadHistory:
    """A history (NaN: not known) and what came after it, hourly means in queries/s."""

    name: str
    seen: Array
    ahead: Array
    grows: bool
    typical_peak: Array
    """The daily peak without noise and bursts, of each day ahead; shape (AHEAD,)."""


LoadLevel = Callable[[Array, np.random.Generator], Array]
"""The level at times in days, 0 is now."""


def _linear(low: float, high: float) -> LoadLevel:
    def level(t: Array, rng: np.random.Generator) -> Array:
        return np.maximum(1 + rng.uniform(low, high) * t, 0.05)

    return level


def _exponential(t: Array, rng: np.random.Generator) -> Array:
    grown: Array = np.exp(rng.uniform(0.005, 0.025) * t)
    return grown


def _slowing(t: Array, rng: np.random.Generator) -> Array:
    pace = rng.uniform(0.01, 0.03)
    slowed: Array = 1 + pace * np.where(t > 0, 20 * (1 - np.exp(-t / 20)), t / (1 - 0.005 * t))
    return slowed


def _stopped(t: Array, rng: np.random.Generator) -> Array:
    """Growth that ended 10 to 25 days ago."""
    end = -rng.uniform(10, 25)
    return np.maximum(1 + rng.uniform(0.008, 0.02) * np.minimum(t - end, 0), 0.1)


def _flat(t: Array, rng: np.random.Generator) -> Array:
    del rng
    return np.ones_like(t)


def _launch(t: Array, rng: np.random.Generator) -> Array:
    """A level that stepped once within the last weeks."""
    at, size = -rng.uniform(2, 30), rng.uniform(1.1, 1.8)
    return np.where(t < at, 1 / size, 1.0)


def _launches(t: Array, rng: np.random.Generator) -> Array:
    """Growth with a launch before now, and perhaps one to come."""
    grown = np.maximum(1 + rng.uniform(0.008, 0.02) * t, 0.05)
    before, after = -rng.uniform(5, 30), rng.uniform(3, 90)
    sizes = rng.uniform(1.15, 1.5, 2)
    return grown * np.where(t < before, 1 / sizes[0], 1.0) * np.where(t > after, sizes[1], 1.0)


@dataclass(frozen=True, slots=True)
class LoadKind:
    """The parts of which a scenario consists."""

    level: LoadLevel
    grows: bool = False
    weekend: float = 0.8
    """The load at a weekend over that of other days."""
    noise: float = 0.05
    """Deviation of an hour, and of a day, ln."""
    bursts: float = 0.0
    """A day; each is one to three hours of 1.3 to 2.5 times the load."""
    gaps: float = 0.0
    """Share of the hours that are not known, in periods of 2 to 60 hours."""
    days: tuple[int, int] = (28, 60)
    """History."""
    wander: float = 0.004
    """Deviation of a day's step of the level, ln."""


SCENARIOS: Mapping[str, LoadKind] = {
    "linear growth": LoadKind(_linear(0.003, 0.015), True),
    "exponential growth": LoadKind(_exponential, True),
    "growth that slows": LoadKind(_slowing, True),
    "strong weeks": LoadKind(_linear(0.003, 0.015), True, weekend=0.35),
    "bursts": LoadKind(_linear(0.003, 0.015), True, bursts=0.25),
    "noisy days": LoadKind(_linear(0.003, 0.015), True, noise=0.12),
    "gaps": LoadKind(_linear(0.003, 0.015), True, gaps=0.2),
    "growth and launches": LoadKind(_launches, True),
    "three weeks known": LoadKind(_linear(0.006, 0.02), True, days=(18, 24)),
    "flat": LoadKind(_flat),
    "flat, strong weeks": LoadKind(_flat, weekend=0.35, days=(16, 45)),
    "flat, bursts": LoadKind(_flat, bursts=0.25),
    "flat, wandering": LoadKind(_flat, wander=0.015, noise=0.08),
    "launch, then flat": LoadKind(_launch),
    "growth that stopped": LoadKind(_stopped),
    "shrinking": LoadKind(_linear(-0.01, -0.003)),
}


def load_history(name: str, seed: int) -> LoadHistory:
    """Return one simulated history and its future; the same seed gives the same."""
    kind = SCENARIOS[name]
    rng = np.random.default_rng([seed, sorted(SCENARIOS).index(name)])
    days = int(rng.integers(kind.days[0], kind.days[1] + 1))
    t = (np.arange((days + AHEAD) * HOURS) - days * HOURS + 0.5) / HOURS
    typical = 1000 * kind.level(t, rng) * _pattern(t, kind, rng)
    noisy = typical * np.exp(_noise(len(t), days + AHEAD, kind, rng)) * _bursts(t, kind, rng)
    seen, ahead = noisy[: days * HOURS].copy(), noisy[days * HOURS :]
    seen[_gaps(len(seen), kind, rng)] = np.nan
    peaks = typical[days * HOURS :].reshape(AHEAD, HOURS).max(axis=1)
    return LoadHistory(name, seen, ahead, kind.grows, peaks)


def _pattern(t: Array, kind: LoadKind, rng: np.random.Generator) -> Array:
    hour, day = (t * HOURS + rng.uniform(0, HOURS)) % HOURS, np.floor(t + rng.uniform(0, 7)) % 7
    daily = 0.6 + 0.4 * np.sin(2 * np.pi * hour / HOURS) + 0.1 * np.sin(4 * np.pi * hour / HOURS)
    usual = np.where(day >= 5, kind.weekend, 1 + rng.uniform(-0.05, 0.05, 7)[day.astype(int)])
    pattern: Array = daily * usual
    return pattern


def _noise(hours: int, days: int, kind: LoadKind, rng: np.random.Generator) -> Array:
    of_hours = kind.noise / 2 * rng.standard_normal(hours)
    of_days = kind.noise * rng.standard_normal(days) / 2
    level = np.cumsum(kind.wander * rng.standard_normal(days))
    noise: Array = of_hours + np.repeat(of_days + level, HOURS)
    return noise


def _bursts(t: Array, kind: LoadKind, rng: np.random.Generator) -> Array:
    factor = np.ones_like(t)
    for at in np.flatnonzero(rng.random(len(t)) < kind.bursts / HOURS):
        factor[at : at + rng.integers(1, 4)] *= rng.uniform(1.3, 2.5)
    return factor


def _gaps(hours: int, kind: LoadKind, rng: np.random.Generator) -> Mask:
    missing = np.zeros(hours, dtype=bool)
    while missing.mean() < kind.gaps:
        at = rng.integers(hours)
        missing[at : at + rng.integers(2, 61)] = True
    return missing
