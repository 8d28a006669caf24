"""A simulated server with known CPU by class: computing, waiting and locking statements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.arrays import Array
from models.attribution.class_interval_table import ClassIntervals

COSTS = {
    "point": 50e-6,
    "range": 120e-6,
    "insert": 90e-6,
    "update": 110e-6,
    "sort": 300e-6,
    "join": 700e-6,
    "sum": 500e-6,
    "scan": 9e-3,
    "hash": 450e-6,
    "locked": 80e-6,
    "sleep": 60e-6,
}
"""CPU seconds per call."""
RATES = (1500, 250, 200, 180, 150, 90, 120, 6, 80, 15, 20)
EXAMINED = (1, 100, 0, 1, 600, 230, 3000, 20000, 1, 1, 1)
SENT = (1, 100, 0, 0, 300, 20, 1, 1, 1, 1, 1)
SLEEP_SECONDS = 0.13
LOCK_SECONDS = 0.03
TEXTS = {"sleep": "SELECT `SLEEP` (?)", "hash": "SELECT `BENCHMARK` ( ? , `SHA2` (...) )"}


@dataclass(frozen=True)
class Simulated:
    """What an agent observes, and the truth."""

    intervals: ClassIntervals
    y: Array
    """Process CPU, s per interval."""
    truth: Array
    """CPU per interval and class, s."""

    @property
    def without_texts(self) -> ClassIntervals:
        """The same without digest texts."""
        return replace(self.intervals, texts=None)

    @property
    def true_shares(self) -> Array:
        """Each class's share of the use by all classes."""
        totals = self.truth.sum(axis=0)
        shares: Array = totals / totals.sum()
        return shares


def simulate(
    seed: int = 1,
    *,
    intervals: int = 300,
    busy: float = 0.4,
    common: float = 0.0,
    base: float = 0.03,
    cost_drift: float = 0.0,
    costs: Mapping[str, float] = COSTS,
    rates: Sequence[float] = RATES,
    noise: float = 0.02,
) -> Simulated:
    """Simulate two cores, busy to this part, whose queues stretch all times.

    `common` is how much of the load's movement all classes share, `base` the CPU per second of no
    class, `cost_drift` how far costs per call wander (IO-bound), `noise` how far an interval's CPU
    is off what its calls cost (a neighbour on the machine).
    """
    rng = np.random.default_rng(seed)
    names, cost = tuple(costs), np.array(list(costs.values()))
    k = len(names)
    waiting = np.isin(names, ("sleep", "locked"))
    cost = cost * np.exp(rng.normal(0, 0.2, k) * ~waiting)
    load = np.sqrt(1 - common) * wander(rng, intervals, k) + np.sqrt(common) * wander(
        rng, intervals, 1
    )
    rate = np.array(rates) * np.exp(0.5 * load)
    count = rng.poisson(rate * 2 * busy / (rate * cost).sum(axis=1).mean()).astype(float)
    drift = np.exp(cost_drift * wander(rng, intervals, k))
    per_call = np.exp(rng.normal(0, 0.2, (intervals, k)) / np.sqrt(np.maximum(count, 1)))
    truth = count * cost * drift * per_call
    queue = 1.15 / (1 - np.minimum(truth.sum(axis=1) / 2, 0.9))
    work = truth * queue[:, None] * np.exp(rng.normal(0, 0.12, k)) * drift
    locks = count * LOCK_SECONDS * (np.array(names) == "locked")
    sleeps = count * SLEEP_SECONDS * (np.array(names) == "sleep")
    y = (truth.sum(axis=1) + base) * np.exp(rng.normal(0, noise, intervals))
    seen = ClassIntervals(
        names=names,
        seconds=np.ones(intervals),
        statement_time=work + locks + sleeps,
        count=count,
        lock_time=locks,
        inflight_delta=np.zeros((intervals, k)),
        sizes=(("rows_examined", count * EXAMINED), ("rows_sent", count * SENT)),
        texts=tuple(TEXTS.get(name, f"SELECT `{name}`") for name in names),
    )
    return Simulated(seen, y, truth)


def pooled(intervals: ClassIntervals, names: Sequence[str], rest: str) -> ClassIntervals:
    """Return these classes in this order; the others are added to the class `rest` of them."""
    place = {name: i for i, name in enumerate(names)}
    to = np.zeros((len(intervals.names), len(names)))
    to[range(len(to)), [place.get(name, place[rest]) for name in intervals.names]] = 1.0
    known = dict(zip(intervals.names, intervals.texts or (), strict=False))
    changed = {
        name: matrix @ to
        for name in ("statement_time", "count", "lock_time", "inflight_delta", "cpu")
        if (matrix := getattr(intervals, name)) is not None
    }
    return replace(
        intervals,
        names=tuple(names),
        sizes=tuple((name, matrix @ to) for name, matrix in intervals.sizes),
        texts=tuple(known.get(name) for name in names) if intervals.texts is not None else None,
        **changed,
    )


def wander(rng: np.random.Generator, intervals: int, k: int) -> Array:
    """Draw k series of standard deviation 1, correlated over 20 intervals."""
    keep = np.exp(-1 / 20)
    answer = np.empty((intervals, k))
    answer[0] = rng.normal(size=k)
    for t in range(1, intervals):
        answer[t] = keep * answer[t - 1] + np.sqrt(1 - keep**2) * rng.normal(size=k)
    return answer
