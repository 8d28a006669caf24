"""The conditions of the shipped alerts on saturation, as Prometheus evaluates them.

They follow deploy/prometheus/mysql-headroom.rules.yml; a test has promtool compare the two.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from agent.assessment.snapshot import Snapshot
from agent.config.resources import DISK, NETWORK
from agent.window.concurrency import ConcurrencySource
from models.capacity.resource_and_limit import FULL_UTILISATION
from models.trust import Trust

HORIZON_SECONDS, PAGE_PROBABILITY, WARNING_PROBABILITY = 3600.0, 0.35, 0.06
"""A page fires if the load reaches the capacity within these seconds with at least the first
probability, and keeps firing while that is at least the second; a warning needs the second."""
CLOSE_LOAD, CLOSE_PROBABILITY = 1.25, 0.2
"""A warning also needs that this factor of the load saturates the server, with this probability."""
MEASURED_RESOURCES = re.compile(
    f"cpu|server_cpu|connections|{DISK}.+:(operations|bytes)|{NETWORK}.+"
)
"""Resources that end the throughput's growth once they are full, whatever a model says."""
OVERLOAD_CONCURRENCY, OVERLOAD_THROUGHPUT = 1.5, 0.70
"""Factors of the concurrency and the throughput at the law's peak."""
SHORTEST_RANGE, SHORT_RANGE, LONGEST_RANGE = 180.0, 300.0, 600.0
"""Seconds that the rules look back; the last, at most."""


class Scrape(NamedTuple):
    """One scrape of a target by Prometheus; None where there is no series."""

    at: float
    headroom: float | None = None
    overloaded: float | None = None
    capacity_trusted: bool = False
    throughput: float | None = None
    concurrency: Mapping[ConcurrencySource, float] = {}
    source: ConcurrencySource | None = None
    law_trusted: bool = False
    n_max_upper: float | None = None
    x_max: float | None = None
    saturation_by_growth: Mapping[float, float] = {}
    """The probability of saturation, by the growth factor of the load."""
    saturation_by_time: Mapping[float, float] = {}
    """The probability of saturation, by seconds ahead."""
    resources: Mapping[str, float] = {}
    """Utilisations."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Scrape":
        """Return what a scrape of the snapshot reads at the snapshot's time."""
        now = snapshot.at
        found, load = snapshot.headroom(now), snapshot.current_load(now)
        capacity, law = snapshot.capacity(now), snapshot.current_law(now)
        return cls(
            at=now,
            headroom=None if found is None else found.ratio,
            overloaded=None if found is None else float(found.overloaded),
            capacity_trusted=capacity is not None and capacity.trust is Trust.TRUSTED,
            throughput=None if load is None else load.throughput,
            concurrency=load.concurrency if load else {},
            source=snapshot.assessed.source if law else None,
            law_trusted=law is not None and law.trust is Trust.TRUSTED,
            n_max_upper=law.n_max_interval.high if law and law.n_max_interval else None,
            x_max=law.x_max if law else None,
            saturation_by_growth=dict(snapshot.saturation_probability(now)),
            saturation_by_time=dict(snapshot.saturation_within(now)),
            resources=load.resources if load else {},
        )


class Scrapes:
    """The latest scrapes, as far as rules look back; the last one is the present."""

    def __init__(self) -> None:
        self._scrapes: deque[Scrape] = deque()

    def add(self, scrape: Scrape) -> None:
        """Add a scrape, and drop those that no rule looks back to."""
        self._scrapes.append(scrape)
        while self._scrapes[0].at < scrape.at - LONGEST_RANGE:
            self._scrapes.popleft()

    @property
    def now(self) -> Scrape:
        """The latest scrape."""
        return self._scrapes[-1]

    def median(self, seconds: float, value: Callable[[Scrape], float | None]) -> float:
        """Return quantile_over_time(0.5, …[seconds]); NaN, which meets no condition, if empty."""
        found = self._values_within(seconds, value)
        return float(np.median(found)) if found else np.nan

    def mean(self, seconds: float, value: Callable[[Scrape], float | None]) -> float:
        """Return avg_over_time(…[seconds]); NaN where nothing is known."""
        found = self._values_within(seconds, value)
        return float(np.mean(found)) if found else np.nan

    def most_used(self, seconds: float) -> float:
        """Return the highest median of all measured resources; NaN where none is known."""
        used: dict[str, list[float]] = {}
        for scrape in self._scrapes:
            if scrape.at >= self.now.at - seconds:
                for name, value in scrape.resources.items():
                    used.setdefault(name, []).append(value)
        found = [
            float(np.median(u)) for name, u in used.items() if MEASURED_RESOURCES.fullmatch(name)
        ]
        return max(found, default=np.nan)

    def _values_within(
        self, seconds: float, value: Callable[[Scrape], float | None]
    ) -> list[float]:
        since = self.now.at - seconds
        found = [value(scrape) for scrape in self._scrapes if scrape.at >= since]
        return [one for one in found if one is not None]


def _overloaded(scrape: Scrape) -> float | None:
    return scrape.overloaded


def is_saturated(scrapes: Scrapes) -> bool:
    """MysqlHeadroomSaturated: the load likely reaches the capacity within an hour."""
    return _saturation_probability(scrapes) >= PAGE_PROBABILITY


def may_saturate(scrapes: Scrapes) -> bool:
    """MysqlHeadroomSaturated while it fires: the load may still reach the capacity."""
    return _saturation_probability(scrapes) >= WARNING_PROBABILITY


def is_saturation_predicted(scrapes: Scrapes) -> bool:
    """MysqlHeadroomSaturationPredicted: it may, and is close to it."""
    likely = scrapes.median(SHORTEST_RANGE, lambda s: s.saturation_by_growth.get(CLOSE_LOAD))
    return likely >= CLOSE_PROBABILITY and may_saturate(scrapes)


def _saturation_probability(scrapes: Scrapes) -> float:
    return scrapes.median(SHORTEST_RANGE, lambda s: s.saturation_by_time.get(HORIZON_SECONDS))


def is_full(scrapes: Scrapes) -> bool:
    """MysqlHeadroomFull: a resource is full, or the server is past its peak."""
    return (
        scrapes.median(SHORT_RANGE, _overloaded) == 1
        or scrapes.most_used(SHORT_RANGE) >= FULL_UTILISATION
    )


def is_piled_up(scrapes: Scrapes) -> bool:
    """MysqlHeadroomPileUp: far more statements than at the peak, and much less throughput."""
    now = scrapes.now
    source = now.source
    if not now.law_trusted or source is None or now.n_max_upper is None or now.x_max is None:
        return False
    statements = scrapes.mean(SHORT_RANGE, lambda scrape: scrape.concurrency.get(source))
    done = scrapes.mean(SHORT_RANGE, lambda scrape: scrape.throughput)
    is_overload = scrapes.median(SHORT_RANGE, _overloaded) == 1
    return (
        statements > OVERLOAD_CONCURRENCY * now.n_max_upper
        and done <= OVERLOAD_THROUGHPUT * now.x_max
        and not is_overload
    )


class Rule(NamedTuple):
    """An alert: its name, its severity, its condition and for how long (s) that must hold."""

    alert: str
    severity: str
    holds: Callable[[Scrapes], bool]
    for_seconds: float
    keep_firing_seconds: float = 0.0
    """Seconds for which it keeps firing after the condition's end."""
    holds_while_firing: Callable[[Scrapes], bool] | None = None
    """The condition while it fires; None: the same."""


RULES = (
    Rule("MysqlHeadroomSaturated", "critical", is_saturated, 0.0, 3600.0, may_saturate),
    Rule("MysqlHeadroomFull", "critical", is_full, 300.0, 1800.0),
    Rule("MysqlHeadroomSaturationPredicted", "warning", is_saturation_predicted, 0.0, 3600.0),
    Rule("MysqlHeadroomPileUp", "warning", is_piled_up, 120.0, 600.0),
)


@dataclass(frozen=True, slots=True)
class Episode:
    """A period in which an alert's condition held; None: it has not fired, or not been resolved."""

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
        self._not_held_since: dict[str, float] = {}
        self._ended: list[Episode] = []

    def observe(self, scrape: Scrape) -> None:
        """Evaluate every rule at the time of this scrape."""
        self._scrapes.add(scrape)
        for rule in self._rules:
            episode = self._active.get(rule.alert)
            if not self._holds(rule, episode):
                if episode is not None and not self._keeps_firing(rule, episode):
                    self._ended.append(replace(self._active.pop(rule.alert), resolved_at=scrape.at))
                continue
            self._not_held_since.pop(rule.alert, None)
            episode = episode or Episode(rule.alert, rule.severity, scrape.at)
            if episode.firing_at is None and scrape.at - episode.pending_at >= rule.for_seconds:
                episode = replace(episode, firing_at=scrape.at)
            self._active[rule.alert] = episode

    def _holds(self, rule: Rule, episode: Episode | None) -> bool:
        """Return whether the alert's condition holds, which may be another one while it fires."""
        fires = episode is not None and episode.firing_at is not None
        condition = rule.holds_while_firing if fires and rule.holds_while_firing else rule.holds
        return condition(self._scrapes)

    def _keeps_firing(self, rule: Rule, episode: Episode) -> bool:
        """Return whether it fires although its condition does not hold, as by `keep_firing_for`."""
        now = self._scrapes.now.at
        since = self._not_held_since.setdefault(rule.alert, now)
        keeps_firing = episode.firing_at is not None and now - since < rule.keep_firing_seconds
        if not keeps_firing:
            del self._not_held_since[rule.alert]
        return keeps_firing

    @property
    def is_any_active(self) -> bool:
        """Whether an alert is pending or firing."""
        return bool(self._active)

    def take(self) -> Iterator[Episode]:
        """Yield the episodes that have ended since the last call, then those still active."""
        ended, self._ended = self._ended, []
        yield from ended
        yield from self._active.values()
