"""Other thresholds for the alerts on saturation, to choose from."""

from collections.abc import Callable

from agent.replay.alert_rules import (
    CLOSE_LOAD,
    CLOSE_PROBABILITY,
    RULES,
    SHORT_RANGE,
    SHORTEST_RANGE,
    Rule,
    Scrape,
    Scrapes,
)
from models.capacity.resource_and_limit import FULL_UTILISATION


def by_probability(growth: float, least: float) -> Callable[[Scrapes], bool]:
    """P(capacity ≤ growth · load) is at least so much, by the median of five minutes."""

    def likely(scrape: Scrape) -> float | None:
        return scrape.saturation_by_growth.get(growth)

    return lambda scrapes: scrapes.median(SHORT_RANGE, likely) >= least


def by_the_hour(seconds: float, least: float) -> Callable[[Scrapes], bool]:
    """The load reaches the capacity within that time with at least that probability, likewise."""
    return lambda scrapes: (
        scrapes.median(SHORTEST_RANGE, lambda s: s.saturation_by_time.get(seconds)) >= least
    )


def is_full(scrapes: Scrapes) -> bool:
    """A resource is full, by the median of five minutes."""
    return scrapes.most_used(SHORT_RANGE) >= FULL_UTILISATION


def is_overloaded(scrapes: Scrapes) -> bool:
    """The server is past its peak."""
    return scrapes.median(SHORT_RANGE, lambda scrape: scrape.overloaded) == 1


def both(*conditions: Callable[[Scrapes], bool]) -> Callable[[Scrapes], bool]:
    """All of these conditions hold."""
    return lambda scrapes: all(holds(scrapes) for holds in conditions)


def variants() -> dict[str, list[Rule]]:
    """Rules by what they are called in the table."""
    found: dict[str, Callable[[Scrapes], bool]] = {"full": is_full, "overloaded": is_overloaded}
    for growth in (1.0, 1.1, 1.25, 1.5):
        for least in (0.3, 0.5, 0.7, 0.9, 0.95):
            found[f"P(·{growth:g}) ≥ {least}"] = by_probability(growth, least)
    rules = {n: [Rule("x", "critical", holds, 120.0, 1800.0)] for n, holds in found.items()}
    full = Rule("full", "critical", is_full, 300.0, 1800.0)
    for seconds in (900.0, 1800.0, 3600.0):
        for least in (0.3, 0.4, 0.5, 0.6, 0.7):
            for held, kept in ((0.0, 1800.0), (0.0, 3600.0), (120.0, 3600.0)):
                name = f"within {seconds:g} s ≥ {least}, for {held:g} s, kept {kept:g} s"
                holds = by_the_hour(seconds, least)
                rules[name] = [Rule("x", "critical", holds, held, kept), full]
    for least in (0.3, 0.4, 0.5):
        for still in (0.1, 0.2, 0.3):
            goes_on = Rule(
                "x", "critical", by_the_hour(3600.0, least), 0.0, 3600.0, by_the_hour(3600.0, still)
            )
            rules[f"within an hour ≥ {least}, goes on while ≥ {still}"] = [goes_on, full]
    pages = [rule for rule in RULES if rule.severity == "critical"]
    close = by_probability(CLOSE_LOAD, CLOSE_PROBABILITY)
    for least in (0.06, 0.1, 0.2):
        soon = by_the_hour(3600.0, least)
        for name, holds in (("", soon), (", and close", both(soon, close))):
            warning = Rule("x", "warning", holds, 0.0, 3600.0)
            rules[f"pages; a warning within an hour ≥ {least}{name}"] = [*pages, warning]
    return rules
