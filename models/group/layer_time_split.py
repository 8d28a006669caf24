"""Where the time of a server of several goes: the system, the distribution, the application.

The layers of M. Taufer, T. Stricker and R. Weber, "Scalability and resource usage of an OLAP
benchmark on clusters of PCs", SPAA 2002, section 3.1, for servers that replicate or share a load.
They measure with them; here each statement's time is given to one. What the resources of a node
take is the system's (table 1), what being several nodes takes the distribution's, and what no
resource explains the application's, which is the DBMS here (section 4.1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from models.group.ntp_clock_filter import ROUND_TRIP_LIFETIME
from models.time_split.limiting_resource import REQUIRED_PARTS
from models.time_split.split import Part, TimeSplit


class Layer(StrEnum):
    """What time is spent in."""

    SYSTEM = "system"
    """On processors, disks and links of the node, and waiting for them."""
    DISTRIBUTION = "distribution"
    """Applying what another node wrote, and commits that wait for a replica to have it."""
    APPLICATION = "application"
    """Locks, and what no resource explains."""


SYSTEM = (
    Part.CPU,
    Part.PROCESSOR_QUEUE,
    Part.DISK_SEQUENTIAL,
    Part.DISK_RANDOM,
    Part.NETWORK,
)


@dataclass(frozen=True, slots=True)
class Replication:
    """What replication did when it was looked at, or in the mean of several looks, in threads."""

    at: float
    """Monotonic seconds."""
    applying: float
    """Threads that applied what another server wrote."""
    waiting: float
    """Statements that waited for a replica's acknowledgement."""


def add_replication(known: Sequence[Replication], new: Replication) -> tuple[Replication, ...]:
    """Remember one more look, and forget those that are too old."""
    return (*(one for one in known if new.at - one.at < ROUND_TRIP_LIFETIME), new)


def mean_replication(known: Sequence[Replication], now: float) -> Replication | None:
    """Take the mean of the last minutes at `now` (monotonic seconds); None: nobody looked."""
    recent = [one for one in known if now - one.at < ROUND_TRIP_LIFETIME]
    if not recent:
        return None
    return Replication(
        recent[-1].at,
        float(np.mean([one.applying for one in recent])),
        float(np.mean([one.waiting for one in recent])),
    )


def layers_of(
    split: TimeSplit, seconds: float, replication: Replication | None
) -> Mapping[Layer, float]:
    """Divide a node's statement time of so many seconds, and what its appliers do, over the layers.

    The answer is in threads: seconds per second. Waits for replicas are part of what no resource
    explains, and no more than that; appliers work beside all statements. It is empty where CPU,
    disk or replication is not known, or the parts contradict the statement time.
    """
    if replication is None or seconds <= 0 or split.contradicted or split.unknown & REQUIRED_PARTS:
        return {}
    threads = {part: spent / seconds for part, spent in split.seconds.items()}
    waiting = min(replication.waiting, threads[Part.NOT_ALLOCATED])
    return {
        Layer.SYSTEM: sum(threads[part] for part in SYSTEM),
        Layer.DISTRIBUTION: waiting + replication.applying,
        Layer.APPLICATION: threads[Part.LOCKS] + threads[Part.NOT_ALLOCATED] - waiting,
    }


def shares_of(nodes: Sequence[Mapping[Layer, float]]) -> Mapping[Layer, float]:
    """Each layer's share of the time of all nodes, 0..1; empty where there was none."""
    sums = {layer: sum(node.get(layer, 0.0) for node in nodes) for layer in Layer}
    total = sum(sums.values())
    return {layer: value / total for layer, value in sums.items()} if total > 0 else {}
