"""Detection of a full resource that a heavier mix of statements than the usual one has filled.

A server at its limit and one on which a report takes what the others leave of the processor look
alike: the processor is full, a query costs more of it, and statements wait. But waiting makes no
query read more rows. So where queries at a full processor read more rows than others at such a
load, and cost more than these, which left a part of the processor idle, the mix was another one:
what was served does not show how much of the usual mix the server can serve.
"""

from dataclasses import dataclass, field
from math import log

import numpy as np

from models.arrays import Array, Mask
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import Resource
from models.numerics import median
from models.robust_regression import mad, persistence
from models.shared_constants import (
    CERTAIN_Z,
    FAR_RATIO,
    MIN_LASTING,
    MIN_NOISE,
    MIN_POINTS,
    NEAR_SHARE,
    SIGNIFICANT_Z,
    TOLERATED_CHANGE,
)


@dataclass(frozen=True, eq=False)
class HeavierMix:
    """Intervals in which a heavier mix filled a resource."""

    intervals: Mask = field(repr=False)
    """Shape (intervals,)."""
    ratio: float
    """The rows that a query read in them, over those in others at such a load."""
    at_any_load: Mask = field(repr=False)
    """The intervals with such a mix, whether or not it filled the resource; shape (intervals,)."""


def find_heavier_mix(seen: Observations) -> HeavierMix | None:
    """Find the intervals in which a heavier mix filled a resource; None without any."""
    if seen.rows_read is None:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        ln_rows = np.log(seen.rows_read / seen.throughput)
    found = (_filled_by_heavier(seen, resource, ln_rows) for resource in seen.resources)
    return next((one for one in found if one is not None), None)


def _filled_by_heavier(seen: Observations, resource: Resource, ln_rows: Array) -> HeavierMix | None:
    """Find the intervals in which a heavier mix filled this processor; ln_rows: ln rows a query.

    Shape (intervals,). A query of the usual mix may also read more by chance, or at another hour:
    of two workloads one reads half as much again.
    """
    if resource.own is None:
        return None
    x, used = seen.throughput, resource.relative_own_use
    known = np.isfinite(ln_rows) & (used > 0)
    full = known & resource.full & ~resource.filled_by_others
    if np.count_nonzero(full) < MIN_LASTING:
        return None
    near = known & (x >= NEAR_SHARE * median(x[full]))
    usual = near & (used < NEAR_SHARE)
    if np.count_nonzero(usual) < MIN_POINTS:
        return None
    middle = median(ln_rows[usual])
    is_more = ln_rows > middle + max(log(FAR_RATIO), CERTAIN_Z * mad(ln_rows[usual]))
    if np.count_nonzero(full & is_more) < MIN_LASTING:
        return None
    ln_cost = [np.log(used[which] / x[which]) for which in (full & is_more, usual)]
    if _certain_difference(*ln_cost) <= TOLERATED_CHANGE:
        return None
    heavier = (full | near) & is_more
    ratio = float(np.exp(median(ln_rows[heavier]) - middle))
    return HeavierMix(heavier, ratio, is_more)


def _certain_difference(some: Array, others: Array) -> float:
    """Compute the difference of two medians, less what may be chance; both in the order of time."""
    errors = [
        max(mad(part), MIN_NOISE) * np.sqrt(persistence(part) / len(part))
        for part in (some, others)
    ]
    return median(some) - median(others) - SIGNIFICANT_Z * float(np.hypot(*errors))
