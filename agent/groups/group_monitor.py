"""The monitor of a group of targets, which updates a summary after each interval.

It uses their latest snapshots and sends nothing to a server. A node that could not be read is lost
for that interval and counted, and the summary covers the others.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.assessment.snapshot import Snapshot
from agent.groups.common_intervals import CommonIntervals, TargetInterval
from models.capacity.headroom import headroom_of
from models.group.node_time_split import Layer
from models.group.ntp_clock_filter import ClockOffset, clock_difference
from models.group.summary import GroupSummary, Node, summarise
from models.group.usl_over_nodes import GroupLoad, NodeScaling, fit_scaling
from models.trust import Trust

MAX_LOADS = 100
"""Intervals that are kept for each number of serving nodes, at full load and below it."""
MIN_SERVING_SHARE = 0.01
"""A node serves when its throughput is at least this share of the busiest node's."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """The latest summary of a group; `at` is the end of its interval, in Unix seconds."""

    name: str
    targets: tuple[str, ...]
    stale_after: float
    at: float | None = None
    summary: GroupSummary | None = None
    scaling: NodeScaling | None = None
    lost: Mapping[str, int] = field(default_factory=dict)
    """Intervals in which each node could not be read."""
    clocks: Mapping[str, ClockOffset] = field(default_factory=dict)
    """Each server's clock minus the agent's, if it is known."""
    layers: Mapping[str, Mapping[Layer, float]] = field(default_factory=dict)
    """Where the time of each node goes, in threads, if it is known."""

    @property
    def clock_difference(self) -> ClockOffset | None:
        """How far the nodes' clocks are apart; None if fewer than two are known."""
        return clock_difference(list(self.clocks.values()))

    def current(self, now: float) -> GroupSummary | None:
        """Return the summary, unless there is none or it is stale at `now` (Unix seconds)."""
        is_fresh = self.at is not None and abs(now - self.at) <= self.stale_after
        return self.summary if is_fresh else None


class GroupMonitor:
    """The monitor of one group.

    `observe` is called by the worker that assesses; it replaces `state` as a whole.
    """

    def __init__(self, name: str, targets: tuple[str, ...], width: float, stale: float) -> None:
        self.settings = name, targets, width, stale
        self.state = GroupState(name, targets, stale)
        self._intervals = CommonIntervals(targets, width)
        self._loads: dict[tuple[int, bool], deque[GroupLoad]] = {}
        self._lost: Counter[str] = Counter()

    def observe(self, snapshots: Sequence[Snapshot], now: float) -> None:
        """Update `state` from the targets' latest snapshots at `now` (Unix seconds)."""
        known = {s.target: s for s in snapshots if s.target in self.state.targets}
        self._intervals.forget_future(now)
        for name, snapshot in known.items():
            load = snapshot.load
            if load is not None and not self._intervals.is_future(load.end, now):
                self._intervals.add(name, TargetInterval(load.end, load.throughput))
        taken = self._intervals.take_next(name for name, s in known.items() if s.health.up)
        if taken is None:
            return
        end, throughputs = taken
        nodes = [
            _node(name, throughputs.get(name), known.get(name), now) for name in self.state.targets
        ]
        summary = summarise(nodes)
        self._lost.update(summary.lost)
        total = group_load(summary)
        alike = self._loads.setdefault((total.nodes, total.is_full), deque(maxlen=MAX_LOADS))
        alike.append(total)
        loads = [load for kept in self._loads.values() for load in kept]
        scaling = fit_scaling(loads, len(nodes))
        clocks = {s.target: clock for s in known.values() if (clock := s.current_clock_offset())}
        layers = {s.target: found for s in known.values() if (found := s.layers(now))}
        self.state = replace(
            self.state,
            at=end,
            summary=summary,
            scaling=scaling,
            lost=dict(self._lost),
            clocks=clocks,
            layers=layers,
        )


def group_load(summary: GroupSummary) -> GroupLoad:
    """Return the number of serving nodes, their throughput, and their common utilisation."""
    busiest = max((node.throughput or 0.0 for node in summary.nodes), default=0.0)
    serving = [n for n in summary.nodes if (n.throughput or 0.0) > MIN_SERVING_SHARE * busiest]
    x = sum(node.throughput or 0.0 for node in serving)
    if not serving or any(not node.capacity for node in serving):
        return GroupLoad(len(serving), x, None)
    return GroupLoad(len(serving), x, x / sum(node.capacity or 0.0 for node in serving))


def _node(name: str, throughput: float | None, snapshot: Snapshot | None, now: float) -> Node:
    """Return a target over the common interval, with the capacity of its own latest assessment.

    Its own latest interval may be a later one, but only there is it known to be past its peak.
    """
    capacity = snapshot.capacity(now) if snapshot and throughput is not None else None
    if snapshot is None or capacity is None or capacity.trust is Trust.NOT_IDENTIFIABLE:
        return Node(name, throughput)
    left = snapshot.headroom(now)
    if left is not None and not left.overloaded:
        left = headroom_of(capacity, throughput or 0.0)
    return Node(name, throughput, capacity.value, left.ratio if left else None, capacity.trust)
