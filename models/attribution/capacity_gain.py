"""What a query class costs in capacity: how much more of all other queries fits when it costs less.

A resource's utilisation is U = U0 + D·X; it is full (c) at X_w = (c − U0)/D. A class that makes the
share q of the queries and takes the share s of the demand D takes s·D/q for each of its queries.
When it costs the part f of that, the others' demand is as before, and the same mix costs
D' = D·(1 − s·(1 − f)), so the limit moves to X_w' = X_w / (1 − s·(1 − f)). Removed altogether
(f = 0) the remaining queries, 1 − q of the mix, cost D·(1 − s)/(1 − q) each: their limit is
X_w·(1 − q)/(1 − s), again 1/(1 − s) times what they had: q cancels, as long as one counts the work
that remains. Of several limits the lowest counts, before and after: what one limit gives back, the
next may keep. (Bottleneck analysis: Denning and Buzen, "The Operational Analysis of Queueing
Network Models", ACM Computing Surveys 10 (1978).)

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

from models.attribution.background_use import NOTHING_BESIDE, BesideClasses

MIN_LEFT = 1e-3
"""The least part of a resource's use that remains when classes get cheaper."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of the throughput: where it is (queries/s), the class's share of its demand."""

    x: float
    share: float | None
    """0..1; 0 where the class has no part in it, None where that is not known."""


@dataclass(frozen=True, slots=True)
class ClassUse:
    """A class's part of a resource's use at the load that was seen."""

    share: float
    """Of all use, 0..1."""
    calls: float
    """Of all calls, 0..1."""
    beside: BesideClasses = NOTHING_BESIDE


@dataclass(frozen=True, slots=True)
class DemandShare:
    """A class's share of the demand at a limit, 0..1."""

    value: float
    deviation: float = 0.0
    """Standard."""


def share_at_limit(use: ClassUse, waking: float, load: float) -> DemandShare:
    """Compute a class's share of the demand at the limit from its use at a lower load.

    `waking` is w/D: what waking costs a call as a part of the mean demand at the limit, and `load`
    u = X/X_w. What waking costs is known no better than that it is expected so.
    """
    beside = use.beside
    value = _without_waking(use, _of_demand(use, beside.background), waking, load)
    more = _without_waking(use, _of_demand(use, beside.background + beside.error), waking, load)
    asleep = _of_demand(use, beside.background)
    return DemandShare(value, hypot(more - value, value - asleep))


def _of_demand(use: ClassUse, background: float) -> float:
    """Compute the share of the demand, without background; calls share what is unattributed."""
    demand = max(1 - background, use.share, MIN_LEFT)
    return min((use.share + use.calls * use.beside.of_calls) / demand, 1.0)


def _without_waking(use: ClassUse, share: float, waking: float, load: float) -> float:
    """Take off what waking costs each call.

    With U = u·(1 + w/D)/(1 + u·w/D) waking takes the part
    φ = (w/D)·(1 − U)/(1 + (w/D)·(1 − U)) of all use at that load, each call as much as any other,
    so the share at the limit is (share − φ·calls)/(1 − φ).
    """
    idle = max(1 - load, 0.0) / (1 + waking * load)
    part = waking * idle / (1 + waking * idle)
    return min(max((share - part * use.calls) / (1 - part), 0.0), 1.0)


def gain(limits: Sequence[Limit], cost: float) -> float | None:
    """How many times as much of the work that remains the server can do, less 1.

    `cost` is what the class costs then as a part of what it costs now, 0 (removed) to 1. A limit of
    which the class's share is not known ends the gain where that limit is now. None where it is the
    lowest, where there is no limit, or where the class is all there is.
    """
    freed = [(limit.share or 0.0) * (1 - cost) for limit in limits]
    if not limits or max(freed) > 1 - MIN_LEFT:
        return None
    before = min(limit.x for limit in limits)
    if any(limit.share is None and limit.x <= before for limit in limits):
        return None
    after = min(limit.x / (1 - part) for limit, part in zip(limits, freed, strict=True))
    return after / before - 1
