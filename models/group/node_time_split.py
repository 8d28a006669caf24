"""The split of a node's time over layers: the system, the distribution, the application.

The layers are those of M. Taufer, T. Stricker and R. Weber, "Scalability and resource usage of an
OLAP benchmark on clusters of PCs", SPAA 2002, section 3.1, for servers that replicate or share a
load. The paper measures with them; here each statement's time is assigned to one. Time on the
resources of a node belongs to the system (table 1), the cost of being several nodes to the
distribution, and what no resource explains to the application, here the DBMS (section 4.1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from models.group.ntp_clock_filter import ROUND_TRIP_LIFETIME
from models.time_split.limiting_resource import REQUIRED_PARTS
from models.time_split.time_parts import TimePart, TimeSplit


class Layer(StrEnum):
    """The layer in which time is spent."""

    SYSTEM = "system"
    """On processors, disks and links of the node, and waiting for them."""
    DISTRIBUTION = "distribution"
    """Applying what another node wrote, and commits that wait for a replica's acknowledgement."""
    APPLICATION = "application"
    """Locks, and what no resource explains."""


SYSTEM = (
    TimePart.CPU,
    TimePart.PROCESSOR_QUEUE,
    TimePart.DISK_SEQUENTIAL,
    TimePart.DISK_RANDOM,
    TimePart.NETWORK,
)


@dataclass(frozen=True, slots=True)
class Replication:
    """The activity of replication in one sample, or the mean of several, in threads."""

    at: float
    """Monotonic seconds."""
    applying: float
    """Threads that applied what another server wrote."""
    waiting: float
    """Statements that waited for a replica's acknowledgement."""


def add_replication(known: Sequence[Replication], new: Replication) -> tuple[Replication, ...]:
    """Add a sample, and drop those that are too old."""
    return (*(sample for sample in known if new.at - sample.at < ROUND_TRIP_LIFETIME), new)


def mean_replication(known: Sequence[Replication], now: float) -> Replication | None:
    """Average the samples of the minutes before `now` (monotonic seconds); None without any."""
    recent = [sample for sample in known if now - sample.at < ROUND_TRIP_LIFETIME]
    if not recent:
        return None
    return Replication(
        recent[-1].at,
        float(np.mean([sample.applying for sample in recent])),
        float(np.mean([sample.waiting for sample in recent])),
    )


def split_into_layers(
    split: TimeSplit, seconds: float, replication: Replication | None
) -> Mapping[Layer, float]:
    """Divide a node's statement time in `seconds`, and the time of its appliers, over the layers.

    The result is in threads: seconds per second. Waits for replicas are part of what no resource
    explains, and at most all of it; appliers work beside all statements. It is empty if CPU, disk
    or replication is not known, or if the parts contradict the statement time.
    """
    if replication is None or seconds <= 0 or split.contradicted or split.unknown & REQUIRED_PARTS:
        return {}
    threads = {part: spent / seconds for part, spent in split.seconds.items()}
    waiting = min(replication.waiting, threads[TimePart.NOT_ALLOCATED])
    return {
        Layer.SYSTEM: sum(threads[part] for part in SYSTEM),
        Layer.DISTRIBUTION: waiting + replication.applying,
        Layer.APPLICATION: threads[TimePart.LOCKS] + threads[TimePart.NOT_ALLOCATED] - waiting,
    }


def shares_by_layer(nodes: Sequence[Mapping[Layer, float]]) -> Mapping[Layer, float]:
    """Return each layer's share of the time of all nodes, 0..1; empty if there was none."""
    sums = {layer: sum(node.get(layer, 0.0) for node in nodes) for layer in Layer}
    total = sum(sums.values())
    return {layer: value / total for layer, value in sums.items()} if total > 0 else {}
