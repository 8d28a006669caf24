"""The alerts on saturation as they were before probability decided them, to compare with."""

from agent.replay.alert_rules import Rule, Scrape, Scrapes

NEARLY_FULL, CLOSE, REFUTED = 0.05, 0.20, -0.15
"""Headroom."""
SHORT, LONG = 120.0, 600.0


def _headroom(scrape: Scrape) -> float | None:
    return scrape.headroom


def _overloaded(scrape: Scrape) -> float | None:
    return scrape.overloaded


def is_saturated(scrapes: Scrapes) -> bool:
    """Less than 5 % of a trusted capacity is left, or the server is past its peak."""
    if not scrapes.now.capacity_trusted:
        return False
    left = scrapes.median(SHORT, _headroom)
    return scrapes.median(SHORT, _overloaded) == 1 or REFUTED <= left < NEARLY_FULL


def is_saturation_predicted(scrapes: Scrapes) -> bool:
    """Less than 20 % of a trusted capacity is left."""
    if not scrapes.now.capacity_trusted:
        return False
    left = scrapes.median(LONG, _headroom)
    return left < CLOSE and (left >= REFUTED or scrapes.median(LONG, _overloaded) == 1)


RULES = (
    Rule("MysqlHeadroomSaturated", "critical", is_saturated, 300.0),
    Rule("MysqlHeadroomSaturationPredicted", "warning", is_saturation_predicted, 900.0),
)
