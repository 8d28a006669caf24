"""The query classes of a target at one time, and what they used in one interval: immutable."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from agent.query_classes.class_registry import Name
from agent.query_classes.digest_deltas import Lost
from models.attribution.background_use import NOTHING_BESIDE, BesideClasses
from models.attribution.published_wlr import Line
from models.attribution.result import Method, PredictionError, Reason
from models.attribution.sliding_model import ClassShares

Shares = Mapping[str, ClassShares]
"""By resource."""


@dataclass(frozen=True, slots=True)
class ClassState:
    """One class that is shown, or those that are shown as one."""

    name: Name
    totals: Mapping[str, float]
    """Sums since it is shown, by quantity: calls, statement_time (s), resources in their units."""
    recent: Mapping[str, float]
    """The same, recently: older minutes count less."""
    error: float | None
    """Standard error of its CPU as a part of it; None where measured or unknown."""
    line: Line | None
    """Its CPU on its work time, both seconds; None for several classes."""
    waits: bool
    text: str | None
    """Normalised by the server, and cut; None unless texts are to be shown."""


@dataclass(frozen=True, slots=True)
class ResourceState:
    """How one resource was divided."""

    name: str
    source: Method | None
    unattributed: float | None
    """Σ of what no class explains, units of the resource; None where the whole is not known."""
    unattributed_share: float | None
    """The share of the resource's recent use that is attributed to no class."""
    held_out: PredictionError
    disagreement: float | None
    reasons: tuple[Reason, ...]
    total: float
    """Recent use by all classes and unattributed; older minutes count less."""
    beside_classes: BesideClasses = NOTHING_BESIDE
    """Of that, what is used beside the clients' classes."""


@dataclass(frozen=True, slots=True)
class ClassesState:
    """All classes of one target; `at` in Unix seconds."""

    at: float
    classes: tuple[ClassState, ...]
    resources: tuple[ResourceState, ...]
    lost: Mapping[Lost, int]
    known: int
    """How many classes were met."""
    seconds: float
    """How long the latest minute's fits took."""
    interval: float
    """Seconds from one state to the next."""
    recent_seconds: float
    """Seconds that the recent sums stand for, older minutes counting less."""

    def resource(self, name: str) -> ResourceState | None:
        """The resource of that name, if it is known."""
        return next((r for r in self.resources if r.name == name), None)


@dataclass(frozen=True, slots=True)
class IntervalUsage:
    """One interval; `at` is its end, in Unix seconds."""

    at: float
    seconds: float
    uses: Mapping[str, Mapping[str, float]]
    """By class (a key of the registry) and by quantity, as `ClassState.totals`; the classes that
    were shown, the others together, and what no class explains."""
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
