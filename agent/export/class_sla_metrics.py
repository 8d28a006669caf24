"""The SLAs of query classes as Prometheus metrics: which breaks first, at how much more load."""

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from agent.assessment.snapshot import ClassSlaState, Snapshot
from agent.export.families import BOUND, gauge, states_of

GAUGES: tuple[tuple[str, str, Callable[[ClassSlaState], float | None]], ...] = (
    (
        "query_sla_seconds",
        "What the configuration allows for this quantile of the class's response times.",
        lambda one: one.seconds,
    ),
    (
        "query_response_time_seconds",
        "This quantile of the class's response times in the last minutes.",
        lambda one: one.present.value if one.present else None,
    ),
    (
        "query_sla_load_ratio",
        "The present throughput times this is where the class breaks its SLA, or the capacity.",
        lambda one: one.found.load_ratio.value if one.found.load_ratio else None,
    ),
    (
        "query_sla_load_lower_ratio",
        f"Load where the class breaks its SLA, lower {BOUND}",
        lambda one: one.found.load_ratio.lower if one.found.load_ratio else None,
    ),
    (
        "query_sla_load_upper_ratio",
        f"Load where the class breaks its SLA, upper {BOUND}",
        lambda one: one.found.load_ratio.upper if one.found.load_ratio else None,
    ),
    (
        "query_sla_first_probability",
        "The probability that the class is the first to break its SLA, before the capacity.",
        lambda one: one.found.first,
    ),
)


def class_sla_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """A series of each for every class that has an SLA."""
    known = [(s.target, state) for s in snapshots if (state := s.current_class_slas(now))]
    each = [
        ((t, c.digest, f"{100 * c.quantile:g}"), c) for t, state in known for c in state.classes
    ]
    for name, text, value in GAUGES:
        rows = [(labels, value(one)) for labels, one in each]
        yield gauge(name, text, rows, "digest", "percentile")
    yield gauge(
        "query_sla_trust",
        "1 for how far the loads at which classes break their SLAs may be believed.",
        [row for target, state in known for row in states_of((target,), state.trust)],
        "trust",
    )
    yield gauge(
        "query_sla_reason",
        "1 for the reason why the load at which the class breaks its SLA is not known.",
        [((*labels, one.found.reason.value), 1.0) for labels, one in each if one.found.reason],
        "digest",
        "percentile",
        "reason",
    )
