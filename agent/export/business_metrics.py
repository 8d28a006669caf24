"""Business metrics as Prometheus metrics: the value, and the headroom in its unit."""

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import Metric

from agent.assessment.snapshot import Snapshot
from agent.export.metric_family_builders import LOWER, TRUST, UPPER, gauge, trust_rows
from models.business_metric_headroom import UnitHeadroom
from models.what_if.predicted_value import PredictedValue

NAME = "business_metric"
AMOUNTS: tuple[tuple[str, str, Callable[[PredictedValue], float | None]], ...] = (
    (
        f"{NAME}_headroom",
        "How much more of the business metric, in its unit, is possible up to the capacity; 0 "
        "or less where nothing is left. Absent while it is not known: see "
        "business_metric_reason.",
        lambda amount: amount.value,
    ),
    (
        f"{NAME}_headroom_lower",
        "How much more of the business metric, in its unit, is possible up to the capacity, "
        f"{LOWER}; absent while it is not known: see business_metric_reason.",
        lambda amount: amount.lower,
    ),
    (
        f"{NAME}_headroom_upper",
        "How much more of the business metric, in its unit, is possible up to the capacity, "
        f"{UPPER}; absent while it is not known (see business_metric_reason), and where the "
        "capacity has no upper bound.",
        lambda amount: amount.upper,
    ),
)
"""Name, help text, and the amount or its bound."""


def business_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield a row for each business metric of each target; `business_metric_info` has its unit."""
    known = [((s.target, one.name), one) for s in snapshots for one in s.current_business(now)]
    yield gauge(
        f"{NAME}_info",
        "A business metric from the configuration, with its unit; always 1. Absent where the "
        "configuration has none.",
        (((*labels, one.unit), 1.0) for labels, one in known),
        NAME,
        "unit",
    )
    yield gauge(
        f"{NAME}_value",
        "Latest value of the business metric, in the unit of business_metric_info; absent "
        "without a recent value.",
        ((labels, one.value) for labels, one in known),
        NAME,
    )
    yield gauge(
        f"{NAME}_last_read_timestamp_seconds",
        "Unix time at which the business metric was last read; absent before the first time.",
        ((labels, one.at) for labels, one in known),
        NAME,
    )
    yield from _headroom_families([(labels, business.unit_headroom) for labels, business in known])


def _headroom_families(
    known: Sequence[tuple[tuple[str, str], UnitHeadroom]],
) -> Iterator[Metric]:
    """Yield the headroom of each business metric with bounds and trust, or why it is unknown."""
    found = [(labels, headroom.amount) for labels, headroom in known if headroom.amount]
    for name, text, value in AMOUNTS:
        yield gauge(name, text, ((labels, value(amount)) for labels, amount in found), NAME)
    yield gauge(
        f"{NAME}_trust",
        f"Trust in the headroom of the business metric: {TRUST}.",
        [row for labels, headroom in known for row in trust_rows(labels, headroom.trust)],
        NAME,
        "trust",
    )
    yield gauge(
        f"{NAME}_reason",
        "1 for the reason why the headroom of the business metric is not known, or is 0; absent "
        "while it is known.",
        (((*labels, h.reason.value), 1.0) for labels, h in known if h.reason),
        NAME,
        "reason",
    )
