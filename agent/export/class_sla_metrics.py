"""The SLAs of query classes as Prometheus metrics: which breaks first, and at what load."""

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from agent.assessment.snapshot import ClassSlaState, Snapshot
from agent.export.metric_family_builders import LOWER, TRUST, UPPER, gauge, trust_rows

GAUGES: tuple[tuple[str, str, Callable[[ClassSlaState], float | None]], ...] = (
    (
        "query_sla_seconds",
        "Seconds that the configuration allows for this percentile of the query class's "
        "response times; absent without an SLA, and while the server is down.",
        lambda one: one.seconds,
    ),
    (
        "query_response_time_seconds",
        "This percentile of the query class's response times in seconds, of the latest calls "
        "within five minutes; absent while it is not known: see query_sla_reason.",
        lambda one: one.present.value if one.present else None,
    ),
    (
        "query_sla_load_ratio",
        "Multiple of the present load at which the query class breaks its SLA, or the capacity "
        "is reached: below 1 it is broken now. Absent while it is not known: see "
        "query_sla_reason.",
        lambda one: one.headroom.load_ratio.value if one.headroom.load_ratio else None,
    ),
    (
        "query_sla_load_lower_ratio",
        f"Multiple of the present load at which the query class breaks its SLA, {LOWER}; absent "
        "while it is not known: see query_sla_reason.",
        lambda one: one.headroom.load_ratio.lower if one.headroom.load_ratio else None,
    ),
    (
        "query_sla_load_upper_ratio",
        f"Multiple of the present load at which the query class breaks its SLA, {UPPER}; absent "
        "while it is not known (see query_sla_reason), and where the capacity has no upper "
        "bound.",
        lambda one: one.headroom.load_ratio.upper if one.headroom.load_ratio else None,
    ),
    (
        "query_sla_first_probability",
        "Probability, 0 to 1, that the query class is the first to break its SLA, before the "
        "capacity is reached. 1 less the sum over all classes is the probability that the capacity "
        "is reached first. Absent while nothing is known of the class.",
        lambda one: one.headroom.first,
    ),
)


def class_sla_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield the metrics of every query class that has an SLA."""
    known = [(s.target, state) for s in snapshots if (state := s.current_class_slas(now))]
    each = [
        ((t, c.digest, f"{100 * c.quantile:g}"), c) for t, state in known for c in state.classes
    ]
    for name, text, value in GAUGES:
        rows = [(labels, value(one)) for labels, one in each]
        yield gauge(name, text, rows, "digest", "percentile")
    yield gauge(
        "query_sla_trust",
        f"Trust in the loads at which query classes break their SLAs: {TRUST}; absent without "
        "such SLAs.",
        [row for target, state in known for row in trust_rows((target,), state.trust)],
        "trust",
    )
    yield gauge(
        "query_sla_reason",
        "1 for the reason why the load at which the query class breaks its SLA is not known; "
        "absent while it is known.",
        [
            ((*labels, one.headroom.reason.value), 1.0)
            for labels, one in each
            if one.headroom.reason
        ],
        "digest",
        "percentile",
        "reason",
    )
