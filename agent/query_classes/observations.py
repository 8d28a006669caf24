"""Observations of one server's query classes over a period."""

from collections.abc import Mapping
from dataclasses import dataclass

from agent.query_classes.class_registry import ClassRegistry
from agent.query_classes.saturated_intervals import SaturatedPeriod
from agent.time_split import TimeUse
from models.attribution.class_intervals import Array, ClassIntervals
from models.attribution.divide import Attribution
from models.time_split.split import TimeSplit


@dataclass(frozen=True)
class ObservedClasses:
    """What was seen: ticks of the classes, and what each used of CPU and IO where that is known."""

    book: ClassRegistry
    seconds: float
    ticks: ClassIntervals
    cpu: Attribution | None
    cpu_target: Array | None
    """CPU of the whole server, or of all classes where only that is known, s, shape (T,)."""
    cpu_is_sum: bool
    """The whole server's CPU is not known, only what the classes use."""
    disk: Mapping[str, Attribution]
    """Of the bytes `read` and `written`, those that are known."""
    spells: tuple[SaturatedPeriod, ...]
    """Spells in which the host was saturated or waited for IO."""
    network: Attribution | None = None
    """Of the bytes received and sent."""
    time: TimeUse | None = None
    """Where the statement time of the whole server went."""
    class_times: tuple[TimeSplit, ...] = ()
    """The same of each class of the ticks; empty where it is not known."""
