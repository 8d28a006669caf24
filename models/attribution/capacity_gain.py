"""The capacity gain of a class: how much more of all other queries fits when it costs less.

A resource's utilisation is U = U0 + D·X; it is full (c) at X_w = (c − U0)/D. A class that makes the
share q of the queries and takes the share s of the demand D takes s·D/q for each of its queries.
When it costs the part f of that, the others' demand is as before, and the same mix costs
D' = D·(1 − s·(1 − f)), so the limit moves to X_w' = X_w / (1 − s·(1 − f)). Removed altogether
(f = 0) the remaining queries, 1 − q of the mix, cost D·(1 − s)/(1 − q) each: their limit is
X_w·(1 − q)/(1 − s), again 1/(1 − s) times their present throughput: q cancels, as long as only the
remaining work is counted. Of several limits the lowest counts, before and after: when one moves up,
the next may become the lowest. (Bottleneck analysis: Denning and Buzen, "The Operational Analysis
of Queueing Network Models", ACM Computing Surveys 10 (1978).)

s is the share of the demand at the limit. It differs from the class's share of all use at a lower
load for three reasons (`share_at_limit`). The background, U0, is not demand. Unattributed use that
grows with the calls is the same for each call. And far below the limit each call, heavy or light,
also pays for waking an idle processor, w·(1 − U) (`models.capacity.utilisation_fit`, equation 2),
and light calls are many: a class of few and heavy calls has a smaller share there than at the
limit.
`bench/class_removal.py` measures the remaining error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

from models.attribution.background_use import NOTHING_UNATTRIBUTED, UnattributedUse

MIN_LEFT = 1e-3
"""The least part of a resource's use that remains when classes get cheaper."""


@dataclass(frozen=True, slots=True)
class ThroughputLimit:
    """One limit of the throughput (queries/s), and the class's share of the demand at it."""

    throughput: float
    share: float | None
    """0..1; 0 where the class has no part in it, None where that is not known."""


@dataclass(frozen=True, slots=True)
class ObservedClassUse:
    """A class's part of a resource's use at the observed load."""

    share: float
    """Of all use, 0..1."""
    calls: float
    """Of all calls, 0..1."""
    unattributed: UnattributedUse = NOTHING_UNATTRIBUTED


@dataclass(frozen=True, slots=True)
class DemandShare:
    """A class's share of the demand at a limit, 0..1."""

    value: float
    deviation: float = 0.0
    """Standard deviation."""


def share_at_limit(use: ObservedClassUse, waking: float, load: float) -> DemandShare:
    """Compute a class's share of the demand at the limit from its use at a lower load.

    `waking` is w/D, the cost of waking for a call as a part of the mean demand at the limit; `load`
    is u = X/X_w. The cost of waking is a mere expectation, so all of its effect is uncertain.
    """
    unattributed = use.unattributed
    value = _share_without_waking(use, _share_of_demand(use, unattributed.background), waking, load)
    with_more_background = _share_without_waking(
        use, _share_of_demand(use, unattributed.background + unattributed.error), waking, load
    )
    with_waking = _share_of_demand(use, unattributed.background)
    return DemandShare(value, hypot(with_more_background - value, value - with_waking))


def _share_of_demand(use: ObservedClassUse, background: float) -> float:
    """Compute the share of the demand, without background; calls share the unattributed part."""
    demand = max(1 - background, use.share, MIN_LEFT)
    return min((use.share + use.calls * use.unattributed.uncounted_calls) / demand, 1.0)


def _share_without_waking(use: ObservedClassUse, share: float, waking: float, load: float) -> float:
    """Subtract what waking costs each call from the share.

    With U = u·(1 + w/D)/(1 + u·w/D) waking takes the part
    φ = (w/D)·(1 − U)/(1 + (w/D)·(1 − U)) of all use at that load, each call as much as any other,
    so the share at the limit is (share − φ·calls)/(1 − φ).
    """
    idle = max(1 - load, 0.0) / (1 + waking * load)
    part = waking * idle / (1 + waking * idle)
    return min(max((share - part * use.calls) / (1 - part), 0.0), 1.0)


def gain(limits: Sequence[ThroughputLimit], cost: float) -> float | None:
    """Compute the factor by which the server can do more of the remaining work, less 1.

    `cost` is the later cost of the class as a part of the present one, 0 (removed) to 1. A limit at
    which the class's share is not known does not move, and one is none where the class made all of
    the demand. None if the share of the lowest limit is not known, or no limit is left.
    """
    freed = [(limit.share or 0.0) * (1 - cost) for limit in limits]
    then = [
        limit.throughput / (1 - part)
        for limit, part in zip(limits, freed, strict=True)
        if part <= 1 - MIN_LEFT
    ]
    if not then:
        return None
    before = min(limit.throughput for limit in limits)
    if any(limit.share is None and limit.throughput <= before for limit in limits):
        return None
    return min(then) / before - 1
