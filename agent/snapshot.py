"""What is known about one target at one time: immutable, published by one assignment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from collectors.base import FailureKind, Feature
from models.rates import Array
from models.usl_fit import UslFit


class Source(StrEnum):
    """Where a concurrency comes from, the better first."""

    STATEMENT_TIME = "statement_time"  # Little's law
    THREADS_RUNNING = "threads_running"


@dataclass(frozen=True, slots=True)
class CollectorHealth:
    """How one collector fares. Durations in seconds; `last_at` in Unix seconds."""

    name: str
    success: bool | None = None  # None: not read yet, or not to be read here
    duration: float | None = None
    skipped: int = 0
    failures: Mapping[FailureKind, int] = field(default_factory=dict)
    last_error: str = ""
    last_at: float | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """How reading one target fares, apart from what was read."""

    up: bool | None = None  # None: not tried yet
    server: str = ""
    restarts: int = 0
    collectors: tuple[CollectorHealth, ...] = ()
    features: tuple[Feature, ...] = ()


@dataclass(frozen=True, slots=True)
class Load:
    """The load over the latest complete interval; `end` in Unix seconds."""

    end: float
    throughput: float  # queries/s
    concurrency: Mapping[Source, float]  # threads
    excluded: Mapping[str, float]  # threads within Threads_running that are no client's work


@dataclass(frozen=True, slots=True)
class FitState:
    """The latest fit, or in words why there is none; `at` in Unix seconds."""

    at: float | None = None
    fit: UslFit | None = None
    source: Source | None = None
    concurrency: Array | None = None  # the points that went in
    throughput: Array | None = None
    waiting: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that any way out may show of one target; `at` in Unix seconds."""

    target: str
    at: float
    stale_after: float  # seconds after which load and fit are withheld
    health: Health
    load: Load | None
    usl: FitState

    def fit(self, now: float) -> UslFit | None:
        """The fit, unless there is none or it is stale at `now` (Unix seconds)."""
        fresh = self.usl.at is not None and now - self.usl.at <= self.stale_after
        return self.usl.fit if fresh else None

    def current_load(self, now: float) -> Load | None:
        """The load, unless the target is down or the load is stale at `now` (Unix seconds)."""
        if self.load is None or not self.health.up:
            return None
        return self.load if now - self.load.end <= self.stale_after else None

    def throughput_headroom(self, now: float) -> float | None:
        """1 − X/Xmax: the share of the predicted peak throughput that is left."""
        load, fit = self.current_load(now), self.fit(now)
        if load is None or fit is None or not fit.x_max:
            return None
        return 1.0 - load.throughput / fit.x_max

    def concurrency_headroom(self, now: float) -> float | None:
        """1 − N/Nmax by the fit's own source of concurrency; below 0 past the peak."""
        load, fit = self.current_load(now), self.fit(now)
        if load is None or fit is None or not fit.n_max or self.usl.source is None:
            return None
        n = load.concurrency.get(self.usl.source)
        return None if n is None else 1.0 - n / fit.n_max
