"""Groups of targets as JSON: docs/groups.md lists the keys; null means not known."""

import json
from collections.abc import Iterable

from agent.export.snapshot_json import JsonObject, without_non_finite
from agent.groups.group_monitor import GroupState
from models.group.node_time_split import shares_by_layer
from models.group.ntp_clock_filter import ClockOffset
from models.group.summary import GroupSummary, Node
from models.group.usl_over_nodes import NodeScaling


def groups_as_json(states: Iterable[GroupState], now: float) -> str:
    """Return one JSON document; `now` in Unix seconds decides what is stale."""
    document = without_non_finite(
        {"at": now, "groups": [_group_object(state, now) for state in states]}
    )
    return json.dumps(document, allow_nan=False, ensure_ascii=False)


def _group_object(state: GroupState, now: float) -> JsonObject:
    summary = state.current(now)
    return {
        "group": state.name,
        "targets": list(state.targets),
        "at": state.at,
        "summary": summary and _summary_object(summary, state),
        "scaling": _scaling_object(state.scaling) if summary and state.scaling else None,
        "intervals_lost": dict(state.lost),
    }


def _summary_object(summary: GroupSummary, state: GroupState) -> JsonObject:
    return {
        "throughput": summary.throughput,
        "capacity": summary.capacity,
        "bottleneck": summary.bottleneck,
        "balanced_headroom": summary.balanced_headroom,
        "growth_to_bottleneck": summary.growth_to_bottleneck,
        "imbalance": summary.imbalance,
        "imbalance_loss": summary.imbalance_loss,
        "layer_shares": shares_by_layer(list(state.layers.values())),
        "lost": list(summary.lost),
        "trust": summary.trust,
        "reasons": [{"reason": r.value, "text": r.sentence} for r in summary.reasons],
        "clock_difference": _clock_object(state.clock_difference),
        "nodes": [_node_object(node, state) for node in summary.nodes],
    }


def _node_object(node: Node, state: GroupState) -> JsonObject:
    return {
        "target": node.name,
        "throughput": node.throughput,
        "capacity": node.capacity,
        "headroom": node.headroom,
        "capacity_used": node.used_share,
        "trust": node.trust,
        "clock_offset": _clock_object(state.clocks.get(node.name)),
        "layers": state.layers.get(node.name),
    }


def _clock_object(found: ClockOffset | None) -> JsonObject | None:
    if found is None:
        return None
    return {"seconds": found.seconds, "uncertainty": found.uncertainty}


def _scaling_object(scaling: NodeScaling) -> JsonObject:
    fit = scaling.fit
    return {
        "sigma": fit and fit.law.sigma,
        "kappa": fit and fit.law.kappa,
        "lambda": fit and fit.law.lam,
        "max_nodes": fit and fit.n_max,
        "trust": scaling.trust,
        "reasons": [{"reason": r.value, "text": r.sentence} for r in scaling.reasons],
        "points": [{"nodes": k, "throughput": x} for k, x in scaling.points.items()],
    }
