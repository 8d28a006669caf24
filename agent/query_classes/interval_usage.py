"""What was used in one interval, class by class, for whoever writes it down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from models.attribution.class_shares import ClassShares
from models.attribution.divide import Method


@dataclass(frozen=True, slots=True)
class IntervalUsage:
    """One interval; `at` is its end, in Unix seconds."""

    at: float
    seconds: float
    uses: Mapping[str, Mapping[str, float]]
    """By class (a key of the book) and by quantity, as `ClassState.totals`; the classes that were
    shown, the others together, and what no class explains."""
    cpu_source: Method | None
    cpu_error: Mapping[str, float]
    """Standard error of the CPU, s, where it was estimated."""
    waits: frozenset[str]

    @classmethod
    def of(
        cls,
        at: float,
        seconds: float,
        uses: Mapping[str, Mapping[str, float]],
        cpu: ClassShares | None,
        names: Sequence[str],
    ) -> Self:
        """`names` are the classes of the division of CPU, which there may be none of."""
        if cpu is None:
            return cls(at, seconds, uses, None, {}, frozenset())
        return cls(at, seconds, uses, cpu.source, cpu.errors(names), cpu.waiting(names))
