"""The present use of resources by other programs, compared with the intervals of an estimate.

Another program may have started since. By the utilisation law a full resource serves in proportion
to what others leave of it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import (
    FULL_UTILISATION,
    OTHER_PROGRAMS_SHARE,
    Resource,
    ResourceLimit,
)
from models.shared_constants import LATEST_INTERVALS


def lower_bound_at_present(
    limits: Sequence[ResourceLimit], seen: Observations, kept: NDArray[np.intp]
) -> float:
    """Find the lowest limit (queries/s) at the present use by others, where that has grown.

    Infinity where it has not. kept are the indices of those intervals of `seen`
    from which the limits were estimated. Where the server may use only some of the processors,
    others are assumed to use the rest.
    """
    counts = [count for r in seen.resources if (count := r.count) is not None]
    fewest = min(counts, default=None)
    lowered = [np.inf]
    for limit in limits:
        resource = seen.resource(limit.resource)
        if limit.x_max is None or resource.count not in (None, fewest):
            continue
        left = remaining_share_at_present(resource, seen.throughput, kept)
        if left < 1:
            lowered.append(left * limit.x_max)
    return min(lowered)


def remaining_share_at_present(resource: Resource, x: Array, kept: NDArray[np.intp]) -> float:
    """Compute what other programs leave of the resource now, over what they left in `kept`.

    x in queries/s, shape (intervals,), in the order of time; kept are indices of these intervals. 1
    where others use about as much now, or less, or where that is not known.
    """
    if resource.own is None:
        return 1.0
    use = resource.use_by_other_programs(x)
    latest, earlier = (part[np.isfinite(part)] for part in (use[-LATEST_INTERVALS:], use[kept]))
    if len(latest) == 0 or len(earlier) == 0:
        return 1.0
    now, before = min(float(latest[-1]), FULL_UTILISATION), float(np.mean(earlier))
    return (1 - now) / (1 - before) if now - before > OTHER_PROGRAMS_SHARE else 1.0
