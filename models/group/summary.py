"""A group of servers at one time: totals, imbalance, and which of them ends the growth first.

The terms are those of the recording rules over many agents (docs/fleet.md): X is a node's
throughput and C its capacity, both in queries/s.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

from models.reason_enum import ReasonEnum
from models.trust import Trust


class GroupReason(ReasonEnum):
    """Why the summary is not complete, or not trusted."""

    NODES_LOST = (
        "nodes_lost",
        "one or more nodes could not be read, and are not included in the totals",
    )
    CAPACITY_UNKNOWN = (
        "capacity_unknown",
        "the capacity of one or more nodes is not known; the sums do not include them",
    )
    CAPACITY_NOT_TRUSTED = (
        "capacity_not_trusted",
        "the capacity of one or more nodes is not trusted",
    )


@dataclass(frozen=True, slots=True)
class Node:
    """One server over the interval that all of the group have in common."""

    name: str
    throughput: float | None
    """None: lost, it could not be read over that interval."""
    capacity: float | None = None
    """None: not known."""
    headroom: float | None = None
    """1 − X/C, and below 0 past the peak; None: not known."""
    trust: Trust = Trust.NOT_IDENTIFIABLE
    """Of the capacity."""

    @property
    def used_share(self) -> float | None:
        """X/C, past the peak at least 1; None where either is not known.

        There overload lowers the throughput, which no longer shows the load.
        """
        if self.throughput is None or not self.capacity:
            return None
        is_past_peak = self.headroom is not None and self.headroom <= 0
        return max(self.throughput / self.capacity, 1.0 if is_past_peak else 0.0)


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """The sums over the nodes; ratios are over those whose capacity is known."""

    nodes: tuple[Node, ...]
    throughput: float | None
    """ΣX of those that could be read; None: none could."""
    capacity: float | None
    """ΣC of those whose capacity is known; None: of none."""
    bottleneck: str | None
    """The node with the least headroom, which ends the growth first; None: not known."""
    balanced_headroom: float | None
    """1 − ΣX/ΣC, of a node past its peak C for X: what would be unused if the load were
    divided in proportion to the capacities."""
    growth_to_bottleneck: float | None
    """The least C/X, less 1: by how much the load can grow, divided as it is, until the first node
    is at its capacity; at most 0 with a node past its peak."""
    imbalance: float | None
    """The greatest X/C over their mean: 1 if all use the same share; None: fewer than two known."""
    imbalance_loss: float | None
    """1 − the mean X/C over the greatest: the share of the nodes' time that stays unused when the
    busiest is full, 0..1, as long as the load is divided as it is."""
    trust: Trust
    """The lowest trust of the nodes, if all capacities are known."""
    reasons: tuple[GroupReason, ...] = field(default=())

    @property
    def lost(self) -> tuple[str, ...]:
        """The nodes that could not be read."""
        return tuple(node.name for node in self.nodes if node.throughput is None)


def summarise(nodes: Sequence[Node]) -> GroupSummary:
    """Summarise the nodes of one interval; a lost node is left out of the sums."""
    read = [node for node in nodes if node.throughput is not None]
    known = [(node, used) for node in read if (used := node.used_share) is not None]
    with_headroom = [node for node in read if node.headroom is not None]
    x = sum(used * (node.capacity or 0.0) for node, used in known)
    c = sum(node.capacity or 0.0 for node, _ in known)
    most = max((used for _, used in known), default=0.0)
    mean = sum(used for _, used in known) / len(known) if known else 0.0
    is_shared = len(known) > 1 and most > 0
    bottleneck = min(with_headroom, key=lambda node: node.headroom or 0.0, default=None)
    return GroupSummary(
        nodes=tuple(nodes),
        throughput=sum(node.throughput or 0.0 for node in read) if read else None,
        capacity=c if known else None,
        bottleneck=bottleneck.name if bottleneck else None,
        balanced_headroom=1 - x / c if known else None,
        growth_to_bottleneck=1 / most - 1 if most > 0 else None,
        imbalance=most / mean if is_shared else None,
        imbalance_loss=1 - mean / most if is_shared else None,
        trust=_lowest_trust(read, len(known)),
        reasons=tuple(_reasons(nodes, read, len(known))),
    )


def _lowest_trust(read: Sequence[Node], known: int) -> Trust:
    """Return the lowest trust of the nodes; not identifiable unless all capacities are known."""
    if not read or known < len(read):
        return Trust.NOT_IDENTIFIABLE
    return reduce(Trust.at_most, (node.trust for node in read))


def _reasons(nodes: Sequence[Node], read: Sequence[Node], known: int) -> list[GroupReason]:
    found = {
        GroupReason.NODES_LOST: len(read) < len(nodes),
        GroupReason.CAPACITY_UNKNOWN: known < len(read),
        GroupReason.CAPACITY_NOT_TRUSTED: any(
            node.trust is not Trust.TRUSTED for node in read if node.used_share is not None
        ),
    }
    return [reason for reason, holds in found.items() if holds]
