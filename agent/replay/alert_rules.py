"""The conditions of the shipped alerts on saturation, as Prometheus evaluates them.

They follow deploy/prometheus/mysql-headroom.rules.yml; a test has promtool compare the two.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from agent.snapshot import Snapshot, Source
from models.trust import Trust

REFUTED = -0.15
"""Headroom below it, without overload, refutes the prediction."""
NEARLY_FULL, CLOSE = 0.05, 0.20
CROWDED, IDLE = 1.5, 0.70
"""Of the concurrency and the throughput at the law's peak."""
SHORT, LONG = 120.0, 600.0
"""Seconds that the rules look back."""


class Scrape(NamedTuple):
    """What Prometheus reads of one target at one time; None where there is no series."""

    at: float
    headroom: float | None = None
    overloaded: float | None = None
    capacity_trusted: bool = False
    throughput: float | None = None
    concurrency: Mapping[Source, float] = {}
    source: Source | None = None
    law_trusted: bool = False
    n_max_upper: float | None = None
    x_max: float | None = None

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Scrape":
        """Read a snapshot at its own time."""
        now = snapshot.at
        found, load = snapshot.headroom(now), snapshot.current_load(now)
        capacity, law = snapshot.capacity(now), snapshot.fit(now)
        return cls(
            at=now,
            headroom=None if found is None else found.ratio,
            overloaded=None if found is None else float(found.overloaded),
            capacity_trusted=capacity is not None and capacity.trust is Trust.TRUSTED,
            throughput=None if load is None else load.throughput,
            concurrency=load.concurrency if load else {},
            source=snapshot.fitted.source if law else None,
            law_trusted=law is not None and law.trust is Trust.TRUSTED,
            n_max_upper=law.n_max_interval.high if law and law.n_max_interval else None,
            x_max=law.x_max if law else None,
        )


class Scrapes:
    """The latest scrapes, the last of them now."""

    def __init__(self) -> None:
        self._scrapes: deque[Scrape] = deque()

    def add(self, scrape: Scrape) -> None:
        """Take in one, and forget what no rule looks back to."""
        self._scrapes.append(scrape)
        while self._scrapes[0].at < scrape.at - LONG:
            self._scrapes.popleft()

    @property
    def now(self) -> Scrape:
        """The latest."""
        return self._scrapes[-1]

    def median(self, seconds: float, value: Callable[[Scrape], float | None]) -> float:
        """quantile_over_time(0.5, …[seconds]); NaN, which meets no condition, for no sample."""
        found = self._of(seconds, value)
        return float(np.median(found)) if found else np.nan

    def mean(self, seconds: float, value: Callable[[Scrape], float | None]) -> float:
        """avg_over_time(…[seconds]); NaN where nothing is known."""
        found = self._of(seconds, value)
        return float(np.mean(found)) if found else np.nan

    def _of(self, seconds: float, value: Callable[[Scrape], float | None]) -> list[float]:
        since = self.now.at - seconds
        found = [value(scrape) for scrape in self._scrapes if scrape.at >= since]
        return [one for one in found if one is not None]


def _headroom(scrape: Scrape) -> float | None:
    return scrape.headroom


def _overloaded(scrape: Scrape) -> float | None:
    return scrape.overloaded


def is_saturated(scrapes: Scrapes) -> bool:
    """MysqlHeadroomSaturated: next to nothing is left, or the server is past its peak."""
    if not scrapes.now.capacity_trusted:
        return False
    left = scrapes.median(SHORT, _headroom)
    return scrapes.median(SHORT, _overloaded) == 1 or REFUTED <= left < NEARLY_FULL


def is_saturation_predicted(scrapes: Scrapes) -> bool:
    """MysqlHeadroomSaturationPredicted: less than a fifth of the capacity is left."""
    if not scrapes.now.capacity_trusted:
        return False
    left = scrapes.median(LONG, _headroom)
    return left < CLOSE and (left >= REFUTED or scrapes.median(LONG, _overloaded) == 1)


def is_pile_up(scrapes: Scrapes) -> bool:
    """MysqlHeadroomPileUp: far more statements than at the peak, and much less throughput."""
    now = scrapes.now
    source = now.source
    if not now.law_trusted or source is None or now.n_max_upper is None or now.x_max is None:
        return False
    statements = scrapes.mean(SHORT, lambda scrape: scrape.concurrency.get(source))
    done = scrapes.mean(SHORT, lambda scrape: scrape.throughput)
    is_overload = scrapes.median(SHORT, _overloaded) == 1
    return statements > CROWDED * now.n_max_upper and done <= IDLE * now.x_max and not is_overload


class Rule(NamedTuple):
    """An alert: its name, its severity, its condition and for how long (s) that must hold."""

    alert: str
    severity: str
    holds: Callable[[Scrapes], bool]
    seconds: float


RULES = (
    Rule("MysqlHeadroomSaturated", "critical", is_saturated, 300.0),
    Rule("MysqlHeadroomSaturationPredicted", "warning", is_saturation_predicted, 900.0),
    Rule("MysqlHeadroomPileUp", "warning", is_pile_up, 120.0),
)


@dataclass(frozen=True, slots=True)
class Episode:
    """A time for which an alert's condition held; None: it did not come to that, or not yet."""

    alert: str
    severity: str
    pending_at: float
    firing_at: float | None = None
    resolved_at: float | None = None


class Alerts:
    """The alerts of one target, evaluated at each scrape."""

    def __init__(self, rules: Iterable[Rule] = RULES) -> None:
        self._rules = tuple(rules)
        self._scrapes = Scrapes()
        self._active: dict[str, Episode] = {}
        self._ended: list[Episode] = []

    def observe(self, scrape: Scrape) -> None:
        """Evaluate every rule at the time of this scrape."""
        self._scrapes.add(scrape)
        for rule in self._rules:
            episode = self._active.get(rule.alert)
            if not rule.holds(self._scrapes):
                if episode is not None:
                    self._ended.append(replace(self._active.pop(rule.alert), resolved_at=scrape.at))
                continue
            episode = episode or Episode(rule.alert, rule.severity, scrape.at)
            if episode.firing_at is None and scrape.at - episode.pending_at >= rule.seconds:
                episode = replace(episode, firing_at=scrape.at)
            self._active[rule.alert] = episode

    def take(self) -> Iterator[Episode]:
        """The episodes that have ended since the last call, and then those that go on."""
        ended, self._ended = self._ended, []
        yield from ended
        yield from self._active.values()
