"""The capacity gain of each displayed class, from the resource limits of the snapshot."""

from dataclasses import dataclass

from agent.config.resources import DISK, NETWORK
from agent.query_classes.attribution_snapshot import ClassesState, ClassState
from agent.query_classes.class_registry import COMBINED_CLASSES, ClassName
from models.attribution.capacity_gain import (
    DemandShare,
    ObservedClassUse,
    ThroughputLimit,
    gain,
    share_at_limit,
)
from models.attribution.quality_gate import is_predicted_well
from models.attribution.result import AttributionReason
from models.capacity.resource_and_limit import ResourceLimit
from models.capacity.result import USL, Capacity
from models.numerics import TINY

CPU_LIMITS = ("cpu", "server_cpu")
RESOURCES_OF = (
    (CPU_LIMITS, ("cpu",)),
    ((DISK,), ("read", "written")),
    ((NETWORK,), ("network",)),
)
"""Limits, by the prefix of their names, and the resources of classes that fill them."""
REMOVED_SHARE, HALVED_SHARE = 0.0, 0.5


@dataclass(frozen=True, slots=True)
class CapacityGain:
    """How much more of everything else fits, as a share of what fits now; None if unknown."""

    removed: float | None
    halved: float | None


def capacity_gain(state: ClassesState, one: ClassState, capacity: Capacity | None) -> CapacityGain:
    """Return the capacity gain of one class; unknown for a target without a capacity.

    It is also unknown for several statements in one class, of which none can be improved alone.
    """
    if capacity is None or capacity.value is None or one.name.digest in COMBINED_CLASSES:
        return CapacityGain(None, None)
    limits = _limits(state, one, capacity)
    return CapacityGain(gain(limits, REMOVED_SHARE), gain(limits, HALVED_SHARE))


def capacity_gains(
    state: ClassesState | None, capacity: Capacity | None
) -> dict[ClassName, CapacityGain]:
    """Return the gains of all classes for which they are known."""
    if state is None:
        return {}
    found = {one.name: capacity_gain(state, one, capacity) for one in state.classes}
    return {name: gains for name, gains in found.items() if gains.removed is not None}


def _limits(state: ClassesState, one: ClassState, capacity: Capacity) -> list[ThroughputLimit]:
    """Return the limit that most likely binds, and those above it; a lower one hardly binds.

    Limits that the capacity itself left out, such as one whose interval is too wide, do not count.
    """
    x_max = {
        resource_limit.resource: resource_limit.x_max
        for resource_limit in capacity.resource_limits
        if resource_limit.x_max is not None and resource_limit.resource in capacity.shares
    }
    law = capacity.usl
    if law is not None and law.x_max is not None and USL in capacity.shares:
        x_max[USL] = law.x_max
    binding = x_max.get(capacity.limit or "")
    if binding is None:
        return []
    shares = {
        resource_limit.resource: demand_share(state, one, resource_limit)
        for resource_limit in capacity.resource_limits
        if x_max.get(resource_limit.resource, 0.0) >= binding
    }
    return [
        ThroughputLimit(throughput, _value(shares.get(resource)))
        for resource, throughput in x_max.items()
        if throughput >= binding
    ]


def _value(share: DemandShare | None) -> float | None:
    return None if share is None else share.value


def demand_share(
    state: ClassesState, one: ClassState, resource_limit: ResourceLimit
) -> DemandShare | None:
    """Compute the class's share of a limit's demand at the limit; None if unknown."""
    share = use_share(state, one, resource_limit.resource)
    if share is None:
        return None
    cpu = state.resource("cpu") if resource_limit.resource.startswith(CPU_LIMITS) else None
    if cpu is None or resource_limit.x_max is None:
        return DemandShare(share)
    calls = sum(each.recent.get("calls", 0.0) for each in state.classes)
    if calls <= 0:
        return DemandShare(share)
    use = ObservedClassUse(share, one.recent.get("calls", 0.0) / calls, cpu.unattributed_use)
    load = calls / max(state.recent_seconds, TINY) / resource_limit.x_max
    return share_at_limit(use, resource_limit.waking, load)


def use_share(state: ClassesState, one: ClassState, resource_limit: str) -> float | None:
    """Compute the class's share of a limit's demand in the server's recent use; None if unknown."""
    names = next(
        (resources for limits, resources in RESOURCES_OF if resource_limit.startswith(limits)), ()
    )
    known = [r for name in names if (r := state.resource(name)) is not None]
    whole = sum(r.total for r in known)
    if any(r.name != "cpu" and r.total > 0 and not is_predicted_well(r.held_out) for r in known):
        return None
    if any(AttributionReason.FEW_INTERVALS in r.reasons for r in known):
        return None
    if whole <= 0:
        return None
    return min(sum(one.recent.get(r.name, 0.0) for r in known) / whole, 1.0)
