"""Groups of targets as Prometheus metrics, with the names of the fleet's recording rules."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from agent.export.metric_family_builders import TRUST, group_counter, group_gauge, trust_rows
from agent.groups.group_monitor import GroupState
from models.group.summary import GroupSummary
from models.group.usl_over_nodes import NodeScaling

GAUGES: tuple[tuple[str, str, Callable[[GroupSummary], float | None]], ...] = (
    (
        "group_up",
        "Targets of the group that were read over its latest interval; absent before the first.",
        lambda summary: float(len(summary.nodes) - len(summary.lost)),
    ),
    (
        "group_capacity_known",
        "Targets of the group whose capacity is known; absent before the first interval.",
        lambda summary: float(sum(node.used_share is not None for node in summary.nodes)),
    ),
    (
        "group_throughput_queries_per_second",
        "Throughput in queries per second of all targets of the group that could be read.",
        lambda summary: summary.throughput,
    ),
    (
        "group_capacity_queries_per_second",
        "Sum of the known capacities of the group's targets in queries per second; absent where "
        "none is known.",
        lambda summary: summary.capacity,
    ),
    (
        "group_balanced_headroom_ratio",
        "Unused share of the group's capacity if the load were divided in proportion to the "
        "capacities: 0.25 is a quarter left. Absent where no capacity is known.",
        lambda summary: summary.balanced_headroom,
    ),
    (
        "group_growth_to_bottleneck_ratio",
        "How much the group's load can grow, divided as today, until the first target reaches "
        "its capacity: 0.25 is a quarter more. Absent where no capacity is known.",
        lambda summary: summary.growth_to_bottleneck,
    ),
    (
        "group_capacity_used_imbalance_ratio",
        "Highest used share of capacity among the group's targets, divided by the mean of these "
        "shares; 1 is balanced. Absent where fewer than two capacities are known.",
        lambda summary: summary.imbalance,
    ),
    (
        "group_imbalance_loss_ratio",
        "Mean unused share of the group's targets when the busiest of them is full, 0 to 1, "
        "with the load divided as today: 0 is balanced. Absent where fewer than two capacities are "
        "known.",
        lambda summary: summary.imbalance_loss,
    ),
)
SCALING_GAUGES: tuple[tuple[str, str, Callable[[NodeScaling], float | None]], ...] = (
    (
        "group_scaling_sigma",
        "Contention (sigma) between the nodes of the group: the share of the work that cannot "
        "run in parallel, 0 is none. Absent until the number of nodes has varied at full load.",
        lambda scaling: scaling.fit.law.sigma if scaling.fit else None,
    ),
    (
        "group_scaling_kappa",
        "Coherency (kappa) between the nodes of the group: the cost of keeping each pair "
        "consistent, 0 is none. Absent until the number of nodes has varied at full load.",
        lambda scaling: scaling.fit.law.kappa if scaling.fit else None,
    ),
    (
        "group_scaling_max_nodes",
        "Number of nodes beyond which another one lowers the group's throughput; absent where "
        "there is no such number, or it is not known.",
        lambda scaling: scaling.fit.n_max if scaling.fit else None,
    ),
)


class GroupCollector(Collector):
    """The groups' latest states as metric families; both arguments are called at a scrape."""

    def __init__(
        self, states: Callable[[], Iterable[GroupState]], clock: Callable[[], float]
    ) -> None:
        self._states = states
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Yield every family that has a sample, in a fixed order."""
        for family in group_families(list(self._states()), self._clock()):
            if family.samples:
                yield family


def group_families(states: list[GroupState], now: float) -> Iterator[Metric]:
    """Yield the summary of each group, its clocks and how it scales."""
    known = [(s.name, summary) for s in states if (summary := s.current(now)) is not None]
    yield group_gauge(
        "group_targets",
        "Targets of the group in the configuration.",
        (((s.name,), float(len(s.targets))) for s in states),
    )
    for name, text, of_summary in GAUGES:
        yield group_gauge(name, text, [((group,), of_summary(summary)) for group, summary in known])
    yield group_gauge(
        "group_bottleneck_info",
        "Target of the group with the least headroom, which limits its growth first, in the "
        "label target; always 1. Absent where no headroom is known.",
        (((group, s.bottleneck), 1.0) for group, s in known if s.bottleneck is not None),
        "target",
    )
    yield group_gauge(
        "group_trust",
        f"Trust in the group's capacity: {TRUST}.",
        (row for group, summary in known for row in trust_rows((group,), summary.trust)),
        "trust",
    )
    yield group_gauge(
        "group_reason",
        "1 for each reason why the summary of the group is not complete, or not trusted; absent "
        "without one.",
        (((group, reason.value), 1.0) for group, summary in known for reason in summary.reasons),
        "reason",
    )
    yield group_counter(
        "group_intervals_lost",
        "Intervals of the group over which the target could not be read; absent before the first.",
        (((s.name, t), float(count)) for s in states for t, count in sorted(s.lost.items())),
        "target",
    )
    yield from _clock_families(states, now)
    yield from _scaling_families(states, now)


def _clock_families(states: list[GroupState], now: float) -> Iterator[Metric]:
    found = [
        ((state.name,), difference)
        for state in states
        if state.current(now) and (difference := state.clock_difference) is not None
    ]
    yield group_gauge(
        "group_clock_difference_seconds",
        "Difference in seconds between the clocks of the group's servers that are furthest "
        "ahead and furthest behind; absent where fewer than two are known.",
        ((labels, difference.seconds) for labels, difference in found),
    )
    yield group_gauge(
        "group_clock_difference_uncertainty_seconds",
        "Largest error in seconds of the difference between the group's clocks, either way; "
        "absent where fewer than two are known.",
        ((labels, difference.uncertainty) for labels, difference in found),
    )


def _scaling_families(states: list[GroupState], now: float) -> Iterator[Metric]:
    found = [(s.name, s.scaling) for s in states if s.current(now) and s.scaling is not None]
    for name, text, of_scaling in SCALING_GAUGES:
        yield group_gauge(name, text, [((group,), of_scaling(scaling)) for group, scaling in found])
    yield group_gauge(
        "group_scaling_trust",
        f"Trust in the law of scaling over the group's nodes: {TRUST}.",
        (row for group, scaling in found for row in trust_rows((group,), scaling.trust)),
        "trust",
    )
    yield group_gauge(
        "group_scaling_reason",
        "1 for each reason why there is no law of scaling over the group's nodes, or why it is "
        "not trusted; absent without one.",
        (((group, r.value), 1.0) for group, scaling in found for r in scaling.reasons),
        "reason",
    )
