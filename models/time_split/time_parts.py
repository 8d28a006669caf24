"""The split of statement time over resources: parts that add up to it, and what is left over."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class TimePart(StrEnum):
    """A part of statement time."""

    CPU = "cpu"
    PROCESSOR_QUEUE = "processor_queue"
    """Ready to run, and waiting for a processor."""
    DISK_SEQUENTIAL = "disk_sequential"
    DISK_RANDOM = "disk_random"
    NETWORK = "network"
    LOCKS = "locks"
    NOT_ALLOCATED = "not_allocated"
    """The time that no resource explains: the DBMS's own waits, or a client's SLEEP."""


EXPLAINED_PARTS = tuple(part for part in TimePart if part is not TimePart.NOT_ALLOCATED)
MAX_EXCESS = 0.1
"""The share of the statement time by which the parts may exceed it: the paper's model explains
execution time within 10 % on average (section 4.1)."""


@dataclass(frozen=True, slots=True)
class TimeSplit:
    """Seconds of statement time by part; they add up to `statement_time`."""

    statement_time: float
    seconds: Mapping[TimePart, float]
    excess: float
    """By how much the measured parts exceeded the statement time, as a share of it; 0 if they did
    not. They were then scaled down to it."""
    unknown: frozenset[TimePart]
    """Parts that are not known: their time is in what is not allocated."""

    @classmethod
    def of(cls, statement_time: float, measured: Mapping[TimePart, float | None]) -> Self:
        """Split the statement time (s) by what was measured of each part (s; None: not known)."""
        total = max(statement_time, 0.0)
        known = {part: max(measured.get(part) or 0.0, 0.0) for part in EXPLAINED_PARTS}
        allocated = sum(known.values())
        scale = min(1.0, total / allocated) if allocated > 0 else 1.0
        seconds: dict[TimePart, float] = {part: value * scale for part, value in known.items()}
        seconds[TimePart.NOT_ALLOCATED] = max(total - sum(seconds.values()), 0.0)
        excess = max(allocated / total - 1.0, 0.0) if total > 0 else 0.0
        unknown = frozenset(part for part in EXPLAINED_PARTS if measured.get(part) is None)
        return cls(total, seconds, excess, unknown)

    @property
    def over_explained(self) -> bool:
        """Whether the parts exceed the statement time by more than the tolerance."""
        return self.excess > MAX_EXCESS

    @property
    def contradicted(self) -> bool:
        """Whether the parts are more than twice the statement time: then one of the two is wrong.

        Statements count only when they end, so those that end outside the interval are missing.
        """
        return self.excess > 1.0

    @property
    def shares(self) -> dict[TimePart, float]:
        """Each part of the statement time, 0..1; empty where there was none."""
        if self.statement_time <= 0:
            return {}
        return {part: value / self.statement_time for part, value in self.seconds.items()}

    @property
    def known_shares(self) -> dict[TimePart, float]:
        """The shares without the parts that are not known."""
        return {part: share for part, share in self.shares.items() if part not in self.unknown}
