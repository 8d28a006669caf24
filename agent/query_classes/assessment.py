"""The story of the query classes: intervals → table → models → shares → counters → state.

Readings become intervals in `class_intervals`; time comes in as an argument.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from agent.config.query_classes import ClassSettings
from agent.query_classes.class_counters import ALWAYS
from agent.query_classes.class_intervals import ClassInterval
from agent.query_classes.class_models import ClassModels, Shares
from agent.query_classes.class_registry import ClassRegistry, name_of
from agent.query_classes.class_usage import ClassUsage
from agent.query_classes.state import ClassesState, ClassState, IntervalUsage
from agent.query_classes.tracked_classes import TrackedClasses

TRACKED, TRACKED_PER_SHOWN = 200, 6
"""Classes that have a column of their own in the models, and how many of them for each that is
shown; the others are one. A fit's time grows with their third power, its memory with the second."""


@dataclass(frozen=True)
class ClassWindow:
    """The state kept between the intervals of a window."""

    settings: ClassSettings
    tracked: TrackedClasses
    models: ClassModels
    usage: ClassUsage

    @classmethod
    def empty(cls, settings: ClassSettings, registry: ClassRegistry) -> Self:
        """No interval yet."""
        blocks = max(1, round(settings.window / settings.interval))
        keep = 1 - 1 / blocks
        most = min(TRACKED, TRACKED_PER_SHOWN * settings.top)
        return cls(
            settings,
            TrackedClasses(registry, most, keep),
            ClassModels(blocks),
            ClassUsage(settings.top, keep),
        )


def assess_classes(
    intervals: Sequence[ClassInterval], window: ClassWindow, at: float
) -> tuple[ClassesState, IntervalUsage]:
    """Divide what was used in these intervals, and describe the window up to `at` (Unix seconds).

    An interval whose changes were lost has no part in the models, but its use is counted.
    """
    tracked, models, usage = window.tracked, window.models, window.usage
    tracked.update(intervals)
    table = tracked.table([interval for interval in intervals if interval.changes is not None])
    shares = models.divide(table, intervals)
    used = usage.add(at, table, tracked, intervals, shares)
    usage.show_greatest(models.recent_cpu())
    return _state(window, shares, table.names, at), used


def _state(window: ClassWindow, shares: Shares, names: tuple[str, ...], at: float) -> ClassesState:
    usage = window.usage
    return ClassesState(
        at=at,
        classes=tuple(_class(key, window, shares, names) for key in usage.counters.shown),
        resources=tuple(
            window.models.state(name, shares, usage.left_over(name)) for name in usage.divided()
        ),
        lost={},
        known=len(window.tracked.registry),
        seconds=0.0,
        interval=window.settings.interval,
        recent_seconds=usage.recent.seconds,
    )


def _class(key: str, window: ClassWindow, shares: Shares, names: tuple[str, ...]) -> ClassState:
    cpu = shares.get("cpu")
    place = names.index(key) if cpu is not None and key in names else None
    error = float(cpu.error[place]) if cpu is not None and place is not None else np.nan
    texts = window.settings.digest_text
    return ClassState(
        name=name_of(key),
        totals=window.usage.totals(key),
        recent={**window.models.recent(key), **window.usage.recent_of(key)},
        error=error if np.isfinite(error) and cpu and not cpu.is_measured else None,
        line=None if key in ALWAYS else window.models.cpu_line(key),
        waits=bool(cpu and place is not None and cpu.waits[place]),
        text=window.tracked.registry.text(key) if texts else None,
    )
