"""The SLA as Prometheus metrics: the load at which residence times break it, and the headroom."""

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import Metric

from agent.assessment.snapshot import SlaState, Snapshot
from agent.export.metric_family_builders import LOWER, TRUST, UPPER, gauge, trust_rows
from models.what_if.predicted_value import PredictedValue

ESTIMATES: tuple[tuple[str, str, Callable[[SlaState], PredictedValue | None]], ...] = (
    (
        "sla_throughput_{}queries_per_second",
        "Throughput in queries per second at which the mean residence time reaches the SLA, at "
        "most the capacity{}; absent while it is not known: see sla_reason.",
        lambda state: state.headroom.throughput,
    ),
    (
        "sla_concurrency_{}",
        "Statements running at once where the mean residence time reaches the SLA{}; absent "
        "while it is not known (see sla_reason), and where the capacity is more likely reached "
        "first.",
        lambda state: state.headroom.concurrency,
    ),
    (
        "sla_headroom_{}ratio",
        "Unused share of the throughput that the SLA allows{}: 0.25 is a quarter left, "
        "at 0 or less the SLA is broken. Absent while it is not known.",
        lambda state: state.headroom.ratio,
    ),
    (
        "capacity_residence_time_{}seconds",
        "Mean time in seconds from a statement's start to its end at the capacity{}; absent "
        "without an SLA, and where it is not known or grows without bound.",
        lambda state: state.at_capacity,
    ),
)
"""Name with a place for the bound, help text with a place for its description, and estimate."""


def sla_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield the residence time, and for targets with an SLA the load that reaches it."""
    yield gauge(
        "residence_time_seconds",
        "Mean time in seconds from a statement's start to its end over the latest interval "
        "(concurrency divided by throughput); absent while no statement runs.",
        (((s.target,), s.residence_time(now)) for s in snapshots),
    )
    known = [(s.target, state) for s in snapshots if (state := s.current_sla(now))]
    yield gauge(
        "sla_seconds",
        "Mean residence time in seconds that the configuration allows; absent without an SLA, "
        "and while the server is down.",
        (((target,), state.seconds) for target, state in known),
    )
    yield from _estimates(known)
    yield gauge(
        "sla_capacity_first_probability",
        "Probability, 0 to 1, that a growing load reaches the capacity before it breaks the "
        "SLA; absent while it is not known: see sla_reason.",
        (((target,), state.headroom.capacity_first) for target, state in known),
    )
    yield gauge(
        "sla_trust",
        f"Trust in the load at which the SLA is reached: {TRUST}; absent without an SLA.",
        [row for target, state in known for row in trust_rows((target,), state.trust)],
        "trust",
    )
    yield gauge(
        "sla_reason",
        "1 for the reason why the load that reaches the SLA is not known; absent while it is "
        "known.",
        (
            ((target, state.headroom.reason.value), 1.0)
            for target, state in known
            if state.headroom.reason
        ),
        "reason",
    )


def _estimates(known: Sequence[tuple[str, SlaState]]) -> Iterator[Metric]:
    """Yield each estimate and its bounds."""
    for name, text, estimate_of in ESTIMATES:
        found = [
            ((target,), one) for target, state in known if (one := estimate_of(state)) is not None
        ]
        yield gauge(_metric_name(name), text.format(""), ((t, one.value) for t, one in found))
        lower = ((t, one.lower) for t, one in found)
        yield gauge(_metric_name(name, "lower_"), text.format(f", {LOWER}"), lower)
        upper = ((t, one.upper) for t, one in found)
        yield gauge(_metric_name(name, "upper_"), text.format(f", {UPPER}"), upper)


def _metric_name(name: str, bound: str = "") -> str:
    """Return the name with the bound before the unit, or at the end where there is no unit."""
    return name.format(bound).rstrip("_")
