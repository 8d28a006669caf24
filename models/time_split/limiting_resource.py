"""The resource that limits a query: the one on which most of its time is spent.

Section 4.1 of the paper (see `disk_time_formulas`) calls a query CPU-, disk- or network-limited by
its most critical resource, and limited by the DBMS where most of its time cannot be allocated to a
resource (query 8, of which a fifth to a quarter was explained). Locks are a class that we add.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from models.time_split.time_parts import TimePart, TimeSplit


class LimitingResource(StrEnum):
    """The limit of a target or of a query class."""

    CPU = "cpu"
    DISK = "disk"
    NETWORK = "network"
    LOCKS = "locks"
    DBMS = "dbms"


PARTS_OF = {
    LimitingResource.CPU: (TimePart.CPU, TimePart.PROCESSOR_QUEUE),
    LimitingResource.DISK: (TimePart.DISK_SEQUENTIAL, TimePart.DISK_RANDOM),
    LimitingResource.NETWORK: (TimePart.NETWORK,),
    LimitingResource.LOCKS: (TimePart.LOCKS,),
    LimitingResource.DBMS: (TimePart.NOT_ALLOCATED,),
}
"""The parts of each limit. A statement that waits for a processor is limited by the CPU."""
REQUIRED_PARTS = frozenset((TimePart.CPU, TimePart.DISK_SEQUENTIAL, TimePart.DISK_RANDOM))


@dataclass(frozen=True, slots=True)
class LimitedBy:
    """The dominant resource and its share of the statement time."""

    limit: LimitingResource
    share: float

    @classmethod
    def of(cls, split: TimeSplit) -> Self | None:
        """Classify a split; None if no statement ran, or if the limit is not known.

        Time that is not allocated is the DBMS's own only if CPU and disk are known.
        """
        shares = split.shares
        if not shares:
            return None
        sums = {limit: sum(shares[p] for p in parts) for limit, parts in PARTS_OF.items()}
        limit = max(sums, key=lambda one: sums[one])
        if limit is LimitingResource.DBMS and split.unknown & REQUIRED_PARTS:
            return None
        return cls(limit, sums[limit])
