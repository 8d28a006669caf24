"""The alerts on saturation as they were, to compare with.

By trust, by a tenth more load, and by a probability of one half for the next hour.
"""

from candidate_alert_rules import by_probability, by_the_hour

from agent.replay import alert_rules
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


def is_a_quarter_too_much(scrapes: Scrapes) -> bool:
    """A quarter more load is probably too much."""
    return scrapes.median(LONG, lambda scrape: scrape.saturation_by_growth.get(1.25)) >= 0.9


BY_TRUST = (
    Rule("MysqlHeadroomSaturated", "critical", is_saturated, 300.0),
    Rule("MysqlHeadroomSaturationPredicted", "warning", is_saturation_predicted, 900.0),
)
BY_QUARTER = (
    *(rule for rule in alert_rules.RULES if rule.severity == "critical"),
    Rule("MysqlHeadroomSaturationPredicted", "warning", is_a_quarter_too_much, 900.0, 1800.0),
)
"""The pages of today, and the former warning."""
OTHERS = tuple(rule for rule in alert_rules.RULES if rule.alert != "MysqlHeadroomSaturated")
"""The measured page and the warnings, which are the same beside either of these pages."""
TENTH_MORE, WITHIN_AN_HOUR = by_probability(1.1, 0.95), by_the_hour(3600.0, 0.5)
BY_GROWTH = (Rule("MysqlHeadroomSaturated", "critical", TENTH_MORE, 300.0, 1800.0), *OTHERS)
BY_HALF = (Rule("MysqlHeadroomSaturated", "critical", WITHIN_AN_HOUR, 0.0, 3600.0), *OTHERS)
