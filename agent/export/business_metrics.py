"""Business metrics as Prometheus metrics: the value, and the headroom in its unit."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from agent.assessment.snapshot import Snapshot
from agent.export.families import BOUND, gauge, states_of

NAME = "business_metric"


def business_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """One row for each business metric of each target; its unit is in `business_metric_info`."""
    known = [((s.target, one.name), one) for s in snapshots for one in s.current_business(now)]
    yield gauge(
        f"{NAME}_info",
        "A business metric of the configuration, with its unit; always 1.",
        (((*labels, one.unit), 1.0) for labels, one in known),
        NAME,
        "unit",
    )
    yield gauge(
        f"{NAME}_value",
        "The latest value of the business metric, in its unit.",
        ((labels, one.value) for labels, one in known),
        NAME,
    )
    yield gauge(
        f"{NAME}_last_read_timestamp_seconds",
        "When the business metric was last read.",
        ((labels, one.at) for labels, one in known),
        NAME,
    )
    found = [(labels, one.found.headroom) for labels, one in known if one.found.headroom]
    yield gauge(
        f"{NAME}_headroom",
        "How much more of the unit the capacity leaves; at most 0 where none is left.",
        ((labels, left.value) for labels, left in found),
        NAME,
    )
    yield gauge(
        f"{NAME}_headroom_lower",
        f"Headroom in the unit, lower {BOUND}",
        ((labels, left.lower) for labels, left in found),
        NAME,
    )
    yield gauge(
        f"{NAME}_headroom_upper",
        f"Headroom in the unit, upper {BOUND}",
        ((labels, left.upper) for labels, left in found),
        NAME,
    )
    yield gauge(
        f"{NAME}_trust",
        "1 for how far the headroom in the unit may be believed.",
        [row for labels, one in known for row in states_of(labels, one.found.trust)],
        NAME,
        "trust",
    )
    yield gauge(
        f"{NAME}_reason",
        "1 for the reason why the headroom in the unit is not known, or is 0.",
        (((*labels, one.found.reason.value), 1.0) for labels, one in known if one.found.reason),
        NAME,
        "reason",
    )
