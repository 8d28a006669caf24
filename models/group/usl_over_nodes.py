"""The USL over nodes: how a group's throughput scales with the number of nodes that serve.

X(k) = λk / (1 + σ(k−1) + κk(k−1)) with k nodes in the place of concurrent statements (N. Gunther,
*Guerrilla Capacity Planning*, 2007, chapter 4: scalability over processors follows the same law).
It describes nodes that are fully used: intervals with less load show the demand, not how the group
scales, and are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.numerics import median
from models.reason_enum import ReasonEnum
from models.shared_constants import MIN_POINTS
from models.trust import FULL_LOAD, Reason, Trust
from models.usl.fit import UslFit, fit_bayes
from models.usl.points_and_scatter import LAW_PARAMETERS


class ScalingReason(ReasonEnum):
    """Why there is no law over the nodes."""

    FEW_NODES = "few_nodes", "a law over nodes needs at least three nodes"
    NODES_DID_NOT_VARY = (
        "nodes_did_not_vary",
        "fewer than three different numbers of nodes have served",
    )
    NEVER_AT_FULL_LOAD = (
        "never_at_full_load",
        "fewer than three different numbers of nodes have served at full load",
    )


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """The load of a group while a certain number of its nodes served."""

    nodes: int
    throughput: float
    """Of all nodes, queries/s."""
    used_share: float | None
    """ΣX/ΣC of those that served; None: not known."""

    @property
    def is_full(self) -> bool:
        """Whether the serving nodes were at full load."""
        return self.used_share is not None and self.used_share >= FULL_LOAD


@dataclass(frozen=True, eq=False)
class NodeScaling:
    """The law over nodes, or why there is none."""

    fit: UslFit | None
    reason: ScalingReason | None
    points: Mapping[int, float]
    """The median throughput at full load, queries/s, by the number of nodes that served."""

    @property
    def trust(self) -> Trust:
        """The trust of the fit; not identifiable where there is none."""
        return self.fit.trust if self.fit else Trust.NOT_IDENTIFIABLE

    @property
    def reasons(self) -> tuple[Reason | ScalingReason, ...]:
        """Why there is no law, or why it is not trusted."""
        if self.fit is None:
            return () if self.reason is None else (self.reason,)
        return self.fit.reasons


def fit_scaling(loads: Sequence[GroupLoad], nodes: int) -> NodeScaling:
    """Fit the law to the loads of a group of `nodes` nodes, if they are sufficient."""
    full: dict[int, list[float]] = {}
    for load in loads:
        if load.nodes > 0 and load.is_full:
            full.setdefault(load.nodes, []).append(load.throughput)
    known = {k: full[k] for k in sorted(full) if len(full[k]) >= MIN_POINTS}
    reason = _reason_against_fit(
        nodes, {load.nodes for load in loads if load.nodes > 0}, len(known)
    )
    n = [k for k, throughputs in known.items() for _ in throughputs]
    x = [throughput for throughputs in known.values() for throughput in throughputs]
    medians = {k: median(np.array(throughputs)) for k, throughputs in known.items()}
    return NodeScaling(None if reason else fit_bayes(n, x), reason, medians)


def _reason_against_fit(nodes: int, served: set[int], full: int) -> ScalingReason | None:
    if nodes < LAW_PARAMETERS:
        return ScalingReason.FEW_NODES
    if len(served) < LAW_PARAMETERS:
        return ScalingReason.NODES_DID_NOT_VARY
    return ScalingReason.NEVER_AT_FULL_LOAD if full < LAW_PARAMETERS else None
