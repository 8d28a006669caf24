"""The alerts on saturation as they were, to compare with.

By trust, by a tenth more load, and by a probability of one half for the next hour.
"""

from agent.replay import alert_rules
from agent.replay.alert_rules import Rule, Scrape, Scrapes

NEARLY_FULL, CLOSE, REFUTED = 0.05, 0.20, -0.15
"""Headroom."""
SHORT, HALF, LONG = 120.0, 300.0, 600.0
SURELY, LIKELY = 0.95, 0.5
HOUR_MEDIAN = 180.0


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


def is_too_much_more(scrapes: Scrapes) -> bool:
    """A tenth more load is too much, nearly for sure."""
    return scrapes.median(HALF, lambda s: s.likely.get(1.1)) >= SURELY


def is_likely(scrapes: Scrapes) -> bool:
    """More likely than not the load meets the capacity within an hour."""
    return scrapes.median(HOUR_MEDIAN, lambda s: s.soon.get(3600.0)) >= LIKELY


BY_TRUST = (
    Rule("MysqlHeadroomSaturated", "critical", is_saturated, 300.0),
    Rule("MysqlHeadroomSaturationPredicted", "warning", is_saturation_predicted, 900.0),
)
BY_GROWTH = (
    Rule("MysqlHeadroomSaturated", "critical", is_too_much_more, 300.0, 1800.0),
    *(rule for rule in alert_rules.RULES if rule.alert != "MysqlHeadroomSaturated"),
)
BY_HALF = (
    Rule("MysqlHeadroomSaturated", "critical", is_likely, 0.0, 3600.0),
    *(rule for rule in alert_rules.RULES if rule.alert != "MysqlHeadroomSaturated"),
)
"""Beside them the measured page and the warnings are the same."""
