"""The clients' connections as a limit: none is free once each of them has a statement.

By Little's law X·R statements run at once, and not more than there are connections: X ≤ m/R with m
of them (the asymptotic bounds of a closed network, P. Denning, J. Buzen 1978). With few of them
that comes before any resource is full, above all where a statement mostly waits, as a durable
commit does for the log: a MySQL served 4,000 updates/s over 8 connections, and 5,700 over 64.

Connections are a limit only as far as their number is fixed, as that of a pool is.
"""

import numpy as np

from models.arrays import Array
from models.capacity.resource_and_limit import FULL_UTILISATION, Resource
from models.numerics import median
from models.shared_constants import (
    CLEAR_RATIO,
    MAJORITY,
    MIN_LASTING,
    MIN_POINTS,
    NEAR_SHARE,
)
from models.trust import MAX_GROWTH

CLIENT_CONNECTIONS = "client_connections"
"""The name of the resource."""


def client_connections(
    throughput: Array, concurrency: Array, connections: Array
) -> Resource | None:
    """Return the connections as a resource, used by statements; None where they are no limit.

    Throughput in queries/s, concurrency in threads and open connections, all of shape (intervals,),
    NaN where not known. They are no limit where their number follows the load; where most of them
    always have a statement, because clients that send the next one at once, as a batch job does,
    are no arriving load; and where more statements do not complete more, because contention comes
    first. Where all have one the utilisation is NaN: throughput no longer follows the load.
    """
    known = connections[np.isfinite(connections)]
    most = float(known.max(initial=0.0))
    if most < 1 or median(known) < NEAR_SHARE * most:
        return None
    used = concurrency / most
    if np.count_nonzero(used < MAJORITY) < MIN_POINTS or _is_throughput_level(throughput, used):
        return None
    used = np.where(used < FULL_UTILISATION, used, np.nan)
    return Resource(CLIENT_CONNECTIONS, used, has_configured_limit=True)


def _is_throughput_level(x: Array, used: Array) -> bool:
    """Return whether throughput does not grow while the second half of the connections is taken.

    x in queries/s, both of shape (intervals,).
    """
    taken = (used >= MAJORITY) & (x > 0)
    if np.count_nonzero(taken) < MIN_LASTING:
        return False
    x, used = x[taken], used[taken]
    few = used <= median(used)
    if few.all():
        return False
    more = median(used[~few]) / median(used[few])
    growth = np.log(median(x[~few]) / median(x[few]))
    return bool(more >= CLEAR_RATIO and growth <= MAX_GROWTH * np.log(more))
