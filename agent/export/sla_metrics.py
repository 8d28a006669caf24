"""The SLA as Prometheus metrics: how far the load is from where residence times break it."""

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from agent.assessment.snapshot import SlaState, Snapshot
from agent.export.families import BOUND, gauge, states_of
from models.what_if.predict import Estimate

ESTIMATES: tuple[tuple[str, str, str, Callable[[SlaState], Estimate | None]], ...] = (
    (
        "sla_throughput_{}queries_per_second",
        "Throughput at which the mean residence time reaches the SLA, or the capacity",
        "Throughput where the SLA ends",
        lambda state: state.found.throughput,
    ),
    (
        "sla_concurrency_{}",
        "Concurrency at which the mean residence time reaches the SLA",
        "Concurrency where the SLA ends",
        lambda state: state.found.concurrency,
    ),
    (
        "sla_headroom_{}ratio",
        "The unused share of the throughput that the SLA allows; below 0 it is broken",
        "Headroom up to the SLA",
        lambda state: state.found.headroom,
    ),
    (
        "capacity_residence_time_{}seconds",
        "Mean residence time of a query at the capacity",
        "Residence time at the capacity",
        lambda state: state.at_capacity,
    ),
)


def sla_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Residence time, and for targets with an SLA where it ends."""
    yield gauge(
        "residence_time_seconds",
        "Mean time from a statement's begin to its end over the latest interval, N/X.",
        (((s.target,), s.residence_time(now)) for s in snapshots),
    )
    known = [(s.target, state) for s in snapshots if (state := s.current_sla(now))]
    yield gauge(
        "sla_seconds",
        "The mean residence time that the configuration allows.",
        (((target,), state.seconds) for target, state in known),
    )
    for name, text, short, of in ESTIMATES:
        found = [((target,), one) for target, state in known if (one := of(state)) is not None]
        yield gauge(_name(name), f"{text}.", ((t, one.value) for t, one in found))
        lower = ((t, one.lower) for t, one in found)
        yield gauge(_name(name, "lower_"), f"{short}, lower {BOUND}", lower)
        upper = ((t, one.upper) for t, one in found)
        yield gauge(_name(name, "upper_"), f"{short}, upper {BOUND}", upper)
    yield gauge(
        "sla_capacity_first_probability",
        "The probability that the capacity is met before the SLA is broken.",
        (((target,), state.found.capacity_first) for target, state in known),
    )
    yield gauge(
        "sla_trust",
        "1 for how far the load at which the SLA is reached may be believed.",
        [row for target, state in known for row in states_of((target,), state.trust)],
        "trust",
    )
    yield gauge(
        "sla_reason",
        "1 for the reason why the load that reaches the SLA is not known.",
        (
            ((target, state.found.reason.value), 1.0)
            for target, state in known
            if state.found.reason
        ),
        "reason",
    )


def _name(name: str, bound: str = "") -> str:
    """The bound stands before the unit, and last where there is none."""
    return name.format(bound).rstrip("_")
