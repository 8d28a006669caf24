"""Headroom: how far a load is from the server's capacity, on either side of the peak.

Below the peak it is the share of the capacity that is unused, 1 − X/C. Past the peak throughput
does not show the load: a server that completes 80 % of its capacity because it is overloaded has
no fifth of it left. There headroom is 1 − N/N*, at most 0: how many more statements run at once
than at the capacity, as a share of those. docs/capacity.md defines it for users.
"""

from dataclasses import dataclass
from math import isfinite

from models.capacity.resource_and_limit import FULL_UTILISATION
from models.capacity.result import USL, Capacity
from models.shared_constants import CLEAR_RATIO, FAR_RATIO, MIN_MEETING_CONCURRENCY, NEAR_SHARE
from models.trust import FULL_LOAD
from models.usl.fit import UslFit


@dataclass(frozen=True)
class Headroom:
    """Where a load lies relative to the capacity."""

    ratio: float
    """Below the peak 1 − X/C; past it 1 − N/N*, at most 0."""
    overloaded: bool
    """True past the peak: a further statement lowers throughput, or only waits."""
    overload_loss: float
    """1 − X/C while overloaded, the share of the capacity that is lost to it; else 0."""


def headroom_of(
    capacity: Capacity,
    throughput: float,
    concurrency: float | None = None,
    utilisation: float | None = None,
    utilisation_by_server: float | None = None,
) -> Headroom | None:
    """Compare a load with the capacity; None where the side of the peak is not known.

    throughput X in queries/s, concurrency N in threads, None: not known; utilisation of the
    limiting resource, 1 is its ceiling, None: not known; `utilisation_by_server`
    likewise, None also where other programs use the resource.
    """
    if capacity.value is None:
        return None
    unused = 1 - throughput / capacity.value
    if concurrency is None:
        return Headroom(unused, overloaded=False, overload_loss=0.0)
    if _is_far_beyond_seen_concurrency(capacity, concurrency):
        return None
    is_queueing = _is_queueing(capacity, concurrency, utilisation_by_server)
    if not is_queueing and not _is_past_peak(capacity, throughput, concurrency, utilisation):
        return Headroom(unused, overloaded=False, overload_loss=0.0)
    return _headroom_past_peak(unused, concurrency, capacity.concurrency)


def headroom_on_curve(fitted: UslFit, concurrency: float) -> Headroom | None:
    """Compare a point of a fitted law with its peak; None where the law has none.

    concurrency N in threads.
    """
    upper = peak_upper(fitted)
    if upper is None or fitted.x_max is None:
        return None
    unused = 1 - float(fitted.law.throughput(concurrency)) / fitted.x_max
    if concurrency <= upper:
        return Headroom(unused, overloaded=False, overload_loss=0.0)
    return _headroom_past_peak(unused, concurrency, fitted.n_max)


def peak_upper(fitted: UslFit) -> float | None:
    """Compute the concurrency (threads) that is surely past the law's peak; None: it has none."""
    if fitted.n_max is None:
        return None
    high = fitted.n_max_interval.high if fitted.n_max_interval else 0.0
    return max(high, CLEAR_RATIO * fitted.n_max)


def _headroom_past_peak(unused: float, n: float, at_peak: float | None) -> Headroom:
    beyond = min(1 - n / (at_peak or n), 0.0)
    return Headroom(beyond, overloaded=True, overload_loss=max(unused, 0.0))


def _is_far_beyond_seen_concurrency(capacity: Capacity, n: float) -> bool:
    """Return whether contention limits at an unknown N*, and N is far above that near the top."""
    top = capacity.concurrency_seen
    unknown = capacity.limit == USL and capacity.concurrency_upper is None
    return unknown and top is not None and n > FAR_RATIO * top


def _is_past_peak(capacity: Capacity, x: float, n: float, utilisation: float | None) -> bool:
    """Return whether more statements run than at the capacity, and wait for what limits it."""
    upper = capacity.concurrency_upper
    if upper is None or not isfinite(n) or n <= upper:
        return False
    if capacity.limit != USL:
        return utilisation is not None and utilisation >= FULL_LOAD
    # past contention's peak the law predicts the throughput; what completes far less piles up
    return capacity.usl is None or x >= NEAR_SHARE * float(capacity.usl.law.throughput(n))


def _is_queueing(capacity: Capacity, n: float, utilisation: float | None) -> bool:
    """Return whether the limit is a full processor, and far more statements run than fill it.

    Where other programs use it too this is not known: clients on the same host yield what the
    server needs.
    """
    filling = capacity.filling_concurrency
    if filling is None or utilisation is None or not isfinite(n):
        return False
    return utilisation >= FULL_UTILISATION and n > MIN_MEETING_CONCURRENCY * filling
