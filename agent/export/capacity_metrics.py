"""The capacity, its limits and its inputs, as Prometheus metrics."""

from collections.abc import Callable, Iterator, Sequence
from math import isfinite

from prometheus_client.core import Metric

from agent.assessment.snapshot import Load, Snapshot
from agent.config.durations import duration_text
from agent.export.metric_family_builders import LOWER, TRUST, UPPER, counter, gauge, trust_rows
from agent.export.resource_labels import LABELS, cpu_part, resource_labels
from models.capacity.headroom import Headroom
from models.capacity.resource_and_limit import ResourceLimit
from models.capacity.result import Capacity
from models.usl.peak_posterior import CredibleInterval

HEADROOM_GAUGES: tuple[tuple[str, str, Callable[[Headroom], float]], ...] = (
    (
        "capacity_headroom_ratio",
        "Unused share of the capacity, 1 - X/C: 0.25 is a quarter left. Past the peak it is 1 - "
        "N/N*, at most 0, with N statements running at once and N* at the capacity. "
        "Absent while the capacity is not known.",
        lambda headroom: headroom.ratio,
    ),
    (
        "overloaded",
        "1 while the server is past its peak (more load gives no more throughput, or less), "
        "else 0; absent while the capacity is not known.",
        lambda headroom: float(headroom.overloaded),
    ),
    (
        "overload_loss_ratio",
        "Share of the capacity that is lost to overload, 1 - X/C past the peak; 0 below it. "
        "Absent while the capacity is not known.",
        lambda headroom: headroom.overload_loss,
    ),
)

CAPACITY_GAUGES: tuple[tuple[str, str, Callable[[Capacity], float | None]], ...] = (
    (
        "capacity_queries_per_second",
        "Throughput in queries per second that the server cannot exceed with the present mix of "
        "queries (the median); absent while no limit can be estimated.",
        lambda capacity: capacity.value,
    ),
    (
        "capacity_lower_queries_per_second",
        f"Capacity in queries per second, {LOWER}; known also where the capacity itself is not. "
        "Absent while nothing is assessed.",
        lambda capacity: capacity.lower,
    ),
    (
        "capacity_upper_queries_per_second",
        f"Capacity in queries per second, {UPPER}; absent where there is none.",
        lambda capacity: capacity.upper,
    ),
    (
        "capacity_concurrency",
        "Statements running at once at the capacity; absent unless the peak was observed or a "
        "trusted law has one.",
        lambda capacity: capacity.concurrency,
    ),
    (
        "capacity_concurrency_upper",
        "Statements running at once above which the server is past its peak: "
        "more of them give no more throughput, or less. Absent where capacity_concurrency is.",
        lambda capacity: capacity.concurrency_upper,
    ),
    (
        "capacity_settling_throughput_queries_per_second",
        "Load in queries per second at which a capacity that is not trusted yet could be "
        "determined; absent once it is trusted, and where more load would not help.",
        lambda capacity: capacity.settling_throughput,
    ),
)

LIMIT_GAUGES: tuple[tuple[str, str, Callable[[ResourceLimit], float | None]], ...] = (
    (
        "resource_service_demand_seconds",
        "Service demand: seconds of the whole resource that one query takes; absent while its "
        "utilisation does not follow the load.",
        lambda resource_limit: resource_limit.demand,
    ),
    (
        "resource_limit_queries_per_second",
        "Throughput in queries per second at which the resource is full; absent while its "
        "utilisation does not follow the load.",
        lambda resource_limit: resource_limit.x_max,
    ),
    (
        "resource_limit_lower_queries_per_second",
        f"Throughput in queries per second at which the resource is full, {LOWER}; absent while "
        "its utilisation does not follow the load.",
        lambda resource_limit: resource_limit.x_max_interval and resource_limit.x_max_interval.low,
    ),
    (
        "resource_limit_upper_queries_per_second",
        f"Throughput in queries per second at which the resource is full, {UPPER}; absent while "
        "its utilisation does not follow the load, and where it has no upper bound.",
        lambda resource_limit: _finite_upper_bound(resource_limit.x_max_interval),
    ),
)


def _finite_upper_bound(interval: CredibleInterval | None) -> float | None:
    return interval.high if interval and isfinite(interval.high) else None


def capacity_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield the capacity, its limits and its trust, and what it was assessed from."""
    yield from _headroom_families(snapshots, now)
    yield from _assessment_families(snapshots, now)
    yield from _utilisation_families(snapshots, now)
    yield from _limit_families(snapshots, now)
    yield from _interval_families(snapshots, now)


def _headroom_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield the headroom, and the probability that more load, or time, saturates the server."""
    headrooms = [
        (s.target, headroom) for s in snapshots if (headroom := s.headroom(now)) is not None
    ]
    for name, text, share in HEADROOM_GAUGES:
        yield gauge(name, text, [((target,), share(headroom)) for target, headroom in headrooms])
    yield gauge(
        "saturation_probability",
        "Probability, 0 to 1, that the present load times the label load reaches the capacity; "
        "absent while that is not known.",
        (
            ((s.target, f"{growth:g}"), probability)
            for s in snapshots
            for growth, probability in s.saturation_probability(now)
        ),
        "load",
    )
    yield gauge(
        "saturation_soon_probability",
        "Probability, 0 to 1, that the load (mean over five minutes) reaches the capacity "
        "within the time of the label horizon; absent while that is not known.",
        (
            ((s.target, duration_text(seconds)), probability)
            for s in snapshots
            for seconds, probability in s.saturation_within(now)
        ),
        "horizon",
    )


def _assessment_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield the capacity with its bounds, what limits it, its trust and the reasons."""
    known = [(s.target, capacity) for s in snapshots if (capacity := s.capacity(now)) is not None]
    for name, text, value in CAPACITY_GAUGES:
        yield gauge(name, text, [((target,), value(capacity)) for target, capacity in known])
    yield gauge(
        "capacity_limit_probability",
        "Probability, 0 to 1, that this resource, or contention (usl), is what ends the growth "
        "of throughput; they sum to 1. Absent while no limit can be estimated.",
        (
            ((target, *resource_labels(name)), share)
            for target, capacity in known
            for name, share in sorted(capacity.shares.items())
        ),
        *LABELS,
    )
    yield gauge(
        "capacity_trust",
        f"Trust in the capacity: {TRUST}; absent while nothing is assessed.",
        (row for target, c in known for row in trust_rows((target,), c.trust)),
        "trust",
    )
    yield gauge(
        "capacity_reason",
        "1 for each reason why the capacity is not trusted, and for each remark on it; absent "
        "without one.",
        (((target, reason.value), 1.0) for target, c in known for reason in c.reasons),
        "reason",
    )


def _utilisation_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield the utilisation of each resource, and what belongs to that of the CPUs."""
    loads = [(s.target, load) for s in snapshots if (load := s.current_load(now)) is not None]
    yield gauge(
        "resource_utilisation_ratio",
        "Utilisation of the resource over the latest interval: 0 is idle, 1 is full. Absent "
        "where it cannot be read or where no ceiling of the resource is known.",
        (
            ((target, *resource_labels(name)), used)
            for target, load in loads
            for name, used in sorted(load.resources.items())
            if cpu_part(name) is None
        ),
        *LABELS,
    )
    yield from _cpu_families(loads)


def _cpu_families(loads: Sequence[tuple[str, Load]]) -> Iterator[Metric]:
    """Yield the parts of the CPU's utilisation, its source, and the clock rate."""
    yield gauge(
        "cpu_part_utilisation_ratio",
        "Share of the host's CPU time that the server took, or the hypervisor gave to others "
        "(steal), over the latest interval, 0 to 1; both are in the utilisation of the resource "
        "cpu. Absent where it cannot be read.",
        (
            ((target, part), used)
            for target, load in loads
            for name, used in sorted(load.resources.items())
            if (part := cpu_part(name)) is not None
        ),
        "part",
    )
    yield gauge(
        "cpu_source_info",
        "Source of the CPU utilisation, in the label source: counters of this host, of a "
        "node_exporter, or of the server's statements; always 1. Absent where the CPU is not "
        "known.",
        (((t, load.cpu_source.value), 1.0) for t, load in loads if load.cpu_source is not None),
        "source",
    )
    yield gauge(
        "cpu_clock_ratio",
        "Clock rate of the server's CPUs as a share of the highest without turbo; 1 is full "
        "speed. Absent where the kernel does not show it.",
        (((t,), load.cpu_clock_rate) for t, load in loads),
    )


def _limit_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield the limit of each resource, with its trust and reasons."""
    resource_limits = [
        ((s.target, *resource_labels(resource_limit.resource)), resource_limit)
        for s in snapshots
        if (capacity := s.capacity(now)) is not None
        for resource_limit in sorted(
            capacity.resource_limits, key=lambda resource_limit: resource_limit.resource
        )
    ]
    for name, text, value in LIMIT_GAUGES:
        rows = [(labels, value(resource_limit)) for labels, resource_limit in resource_limits]
        yield gauge(name, text, rows, *LABELS)
    yield gauge(
        "resource_limit_trust",
        f"Trust in the throughput at which the resource is full: {TRUST}; absent where the "
        "resource is not known.",
        (
            row
            for labels, resource_limit in resource_limits
            for row in trust_rows(labels, resource_limit.trust)
        ),
        *LABELS,
        "trust",
    )
    yield gauge(
        "resource_limit_reason",
        "1 for each reason why the throughput at which the resource is full is not trusted, and "
        "for each remark on it; absent without one.",
        (
            ((*labels, reason.value), 1.0)
            for labels, resource_limit in resource_limits
            for reason in resource_limit.reasons
        ),
        *LABELS,
        "reason",
    )


def _interval_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield how many intervals were left out and kept, and when the mix changed last."""
    counts = [(s.target, s.assessed.outlier_counts) for s in snapshots]
    yield counter(
        "outliers",
        "Intervals that were left out of the assessment, by reason, each counted once; absent "
        "before the first of its kind.",
        (
            ((target, reason.value), float(count))
            for target, counted in counts
            for reason, count in counted.outliers.items()
        ),
        "reason",
    )
    yield gauge(
        "mix_changed_timestamp_seconds",
        "Unix time at which the latest change of the mix of queries was complete; older "
        "intervals are left out. Absent while none was seen.",
        (((target,), counted.mix_changed_at) for target, counted in counts),
    )
    known = [(s.target, s.assessed.intervals) for s in snapshots if s.capacity(now) is not None]
    yield gauge(
        "intervals_kept",
        "Intervals of the window that were assessed, at most 500; absent while nothing is "
        "assessed.",
        (
            ((target,), float(len(intervals)))
            for target, intervals in known
            if intervals is not None
        ),
    )
