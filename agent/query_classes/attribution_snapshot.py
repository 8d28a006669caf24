"""The query classes of a target at one time, and what they used in one interval: immutable."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from agent.query_classes.class_registry import ClassName
from agent.query_classes.digest_deltas import LossReason
from models.attribution.background_use import NOTHING_UNATTRIBUTED, UnattributedUse
from models.attribution.class_interval_table import OTHER
from models.attribution.result import AttributionReason, DivisionMethod, PredictionError
from models.attribution.sliding_model import ClassShares
from models.attribution.weighted_linear_regression import Line

SharesByResource = Mapping[str, ClassShares]
"""The shares of the classes, by resource."""


@dataclass(frozen=True, slots=True)
class ClassState:
    """One displayed class, or several that are displayed as one."""

    name: ClassName
    totals: Mapping[str, float]
    """Sums since it is displayed: calls, statement_time (s), each resource in its unit."""
    recent: Mapping[str, float]
    """Recent sums by the same quantities; older minutes count less."""
    error: float | None
    """Standard error of its CPU as a share of it; None if measured or unknown."""
    line: Line | None
    """The line of its CPU over its work time, both in seconds; None for several classes."""
    waits: bool
    text: str | None
    """The text as the server normalised it, truncated; None unless texts are to be shown."""


@dataclass(frozen=True, slots=True)
class ResourceState:
    """How one resource was divided over the classes."""

    name: str
    source: DivisionMethod | None
    unattributed: float | None
    """Sum of what no class explains, in units of the resource; None if the whole is not known."""
    unattributed_share: float | None
    """The share of the resource's recent use that is attributed to no class."""
    held_out: PredictionError
    disagreement: float | None
    reasons: tuple[AttributionReason, ...]
    total: float
    """Recent use by all classes and unattributed; older minutes count less."""
    unattributed_use: UnattributedUse = NOTHING_UNATTRIBUTED
    """The part of the total that no client's class explains."""


@dataclass(frozen=True, slots=True)
class ClassesState:
    """All classes of one target; `at` in Unix seconds."""

    at: float
    classes: tuple[ClassState, ...]
    resources: tuple[ResourceState, ...]
    lost: Mapping[LossReason, int]
    known: int
    """Number of classes seen so far."""
    seconds: float
    """Seconds that the latest assessment took."""
    interval: float
    """Seconds from one state to the next."""
    recent_seconds: float
    """Seconds that the recent sums cover, without lost ones; older minutes count less."""

    def resource(self, name: str) -> ResourceState | None:
        """Return the resource of that name; None if it is not known."""
        return next((r for r in self.resources if r.name == name), None)


@dataclass(frozen=True, slots=True)
class IntervalUsage:
    """The use by class in one interval; `at` is its end, in Unix seconds."""

    at: float
    seconds: float
    """Its length, without time of which nothing is known."""
    uses: Mapping[str, Mapping[str, float]]
    """By class (a key of the registry) and by quantity, as `ClassState.totals`: the displayed
    classes, the others together, and what no class explains."""
    cpu_source: DivisionMethod | None
    cpu_error: Mapping[str, float]
    """Standard error of the CPU, s, if it was estimated."""
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
        """Build it from the uses and the division of CPU, if any, over the classes `names`.

        Those that have no use of their own are part of the others.
        """
        if cpu is None:
            return cls(at, seconds, uses, None, {}, frozenset())
        shown_as = np.array([name if name in uses else OTHER for name in names])
        errors = {
            name: error * used.get("cpu", 0.0)
            for name, used in uses.items()
            if (error := cpu.relative_error(shown_as == name)) is not None
        }
        return cls(at, seconds, uses, cpu.source, errors, cpu.waiting(names))
