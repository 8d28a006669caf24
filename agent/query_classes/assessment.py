"""The query classes of a target, assessed once a minute: samples in, a new state out.

`assess_classes` has the steps: intervals → table → models → shares → counters → state. Samples
become intervals in `class_intervals`; the time is an argument. `ClassMonitor.append` is called by
the workers that read, `advance` by the one that assesses.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from agent.config.query_class_settings import ClassSettings
from agent.query_classes.attribution_snapshot import (
    ClassesState,
    ClassState,
    IntervalUsage,
    ResourceState,
    SharesByResource,
)
from agent.query_classes.class_intervals import (
    ClassInterval,
    ClassIntervalMaker,
    host_use,
    saturated_periods,
    use_in_worst_period,
)
from agent.query_classes.class_registry import ClassRegistry, class_name_of
from agent.query_classes.digest_deltas import LossReason
from agent.query_classes.exported_class_totals import ALWAYS_SHOWN, ClassUsage
from agent.query_classes.resource_meter import RESOURCES, USUAL_SAMPLING
from agent.query_classes.tracked_classes import TrackedClasses, server_use
from agent.support.compact_numbers import CompactNumbers
from agent.support.queue_drain import take_all
from collectors.base import Sample
from collectors.digest_table import MAX_ROWS
from models.attribution.class_interval_table import OTHER, ClassIntervals
from models.attribution.result import DivisionMethod, HostUse, ReasonInputs, find_reasons
from models.attribution.sliding_model import ClassShares, SlidingModel
from models.attribution.weighted_linear_regression import Line

MAX_TRACKED, TRACKED_PER_SHOWN = 200, 6
"""Classes that have a column of their own in the models, and how many of them for each displayed
class; the others share one. The time of a fit grows with the cube of their number, its memory with
the square."""
MAX_KNOWN_CLASSES = MAX_ROWS + 10_000
"""Classes that are remembered, those of the largest table and some more; beyond that, all but the
tracked ones are forgotten."""
MAX_KEPT_USES = 60
"""Intervals whose use is kept until the history takes it."""


class ClassModels:
    """A sliding model of each resource, over a number of blocks."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._models = {resource.name: SlidingModel(resource, blocks) for resource in RESOURCES}
        self._unknown = dict.fromkeys(self._models, 0)  # blocks since a resource was known
        self._worst = HostUse()

    def divide(self, table: ClassIntervals, intervals: Sequence[ClassInterval]) -> SharesByResource:
        """Divide each resource over the classes of a block, in the intervals in which it is known.

        The table has the intervals in which the classes' changes are known. What was not known in
        a whole window is forgotten.
        """
        shares: dict[str, ClassShares] = {}
        host = host_use(intervals)
        self._worst = use_in_worst_period(host, saturated_periods(intervals))
        for name, model in self._models.items():
            used = server_use(name, table, intervals)
            known = np.flatnonzero(np.isfinite(used))
            self._unknown[name] = 0 if len(known) else self._unknown[name] + 1
            if len(known):
                part = table if len(known) == len(table) else table.at(known)
                shares[name] = model.add_block(part, used[known], host)
            elif self._unknown[name] == self._blocks:
                self._models[name] = SlidingModel(model.resource, self._blocks)
        return shares

    def recent_uses(self) -> dict[str, Mapping[str, float]]:
        """Return the recent use of each resource, by class; older blocks count less."""
        return {name: model.recent_use() for name, model in self._models.items()}

    def recent_cpu(self) -> dict[str, float]:
        """Return the recent CPU by class; older blocks count less."""
        return self._models["cpu"].recent_use()

    def cpu_line(self, key: str) -> Line | None:
        """Return the line of a class's CPU over its work time; None if it has no column."""
        names, lines = self._models["cpu"].lines()
        return lines.line(names.index(key)) if key in names else None

    def state(
        self, name: str, shares: SharesByResource, unattributed: float | None
    ) -> ResourceState:
        """Describe how a resource was divided; `unattributed` is None if its whole is not known."""
        model, source = self._models[name], shares[name].source if name in shares else None
        signs = ReasonInputs(
            intervals=model.intervals,
            held_out_mape=model.held_out.mape,
            level=model.level if model.resource.is_cpu else None,
            host=self._worst,
            time_is_work=False,
            is_measured=source is DivisionMethod.MEASURED,
        )
        return ResourceState(
            name=name,
            source=source,
            unattributed=unattributed,
            unattributed_share=None if unattributed is None else model.unattributed_share,
            held_out=model.held_out,
            disagreement=model.disagreement,
            reasons=find_reasons(signs),
            total=model.recent_total,
            unattributed_use=model.unattributed_use,
        )


@dataclass(frozen=True)
class ClassWindow:
    """The state kept between the intervals of a window."""

    settings: ClassSettings
    tracked: TrackedClasses
    models: ClassModels
    usage: ClassUsage

    @classmethod
    def empty(cls, settings: ClassSettings, registry: ClassRegistry) -> Self:
        """Return a window without any interval."""
        blocks = max(1, round(settings.window / settings.interval))
        keep = 1 - 1 / blocks
        most = min(MAX_TRACKED, TRACKED_PER_SHOWN * settings.top)
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


def _state(
    window: ClassWindow, shares: SharesByResource, names: tuple[str, ...], at: float
) -> ClassesState:
    """Describe the window up to `at` (Unix s): the displayed classes and the divided resources."""
    usage, recent = window.usage, window.models.recent_uses()
    return ClassesState(
        at=at,
        classes=tuple(
            _class_state(key, window, shares, names, recent) for key in usage.counters.shown
        ),
        resources=tuple(
            window.models.state(name, shares, usage.unattributed(name))
            for name in usage.divided_resources()
        ),
        lost={},
        known=len(window.tracked.registry),
        seconds=0.0,
        interval=window.settings.interval,
        recent_seconds=usage.recent.seconds,
    )


def _class_state(
    key: str,
    window: ClassWindow,
    shares: SharesByResource,
    names: tuple[str, ...],
    recent: Mapping[str, Mapping[str, float]],
) -> ClassState:
    """Describe one displayed class.

    `names` are the columns of the models, `recent` is the recent use of each resource, by class.
    """
    cpu = shares.get("cpu")
    column = names.index(key) if cpu is not None and key in names else None
    texts, together = window.settings.digest_text, _shown_as(key, window, names)
    is_part = np.array([name in together for name in names])
    used = {resource: sum(use.get(k, 0.0) for k in together) for resource, use in recent.items()}
    return ClassState(
        name=class_name_of(key),
        totals=window.usage.totals(key),
        recent=CompactNumbers({**used, **window.usage.recent_of(together)}),
        error=None if cpu is None else cpu.relative_error(is_part),
        line=None if key in ALWAYS_SHOWN else window.models.cpu_line(key),
        waits=bool(cpu and column is not None and cpu.waits[column]),
        text=window.tracked.registry.text(key) if texts else None,
    )


def _shown_as(key: str, window: ClassWindow, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the classes of a table that are displayed under a key: one, or all the others."""
    shown = window.usage.counters.shown
    return tuple(n for n in names if n == OTHER or n not in shown) if key == OTHER else (key,)


class ClassMonitor:
    """The monitor of one target's query classes.

    `sampling`: seconds between two samples of the host and of the status, those of the slower one.
    """

    def __init__(self, settings: ClassSettings, sampling: float = USUAL_SAMPLING) -> None:
        self.state: ClassesState | None = None
        self.settings, self.sampling = settings, sampling
        registry = ClassRegistry()
        self._maker = ClassIntervalMaker(registry, sampling)
        self._window = ClassWindow.empty(settings, registry)
        self._pending: list[ClassInterval] = []
        self._block_end: float | None = None
        self._new_usage: deque[IntervalUsage] = deque(maxlen=MAX_KEPT_USES)

    def restarted(self) -> "ClassMonitor":
        """Return a monitor with the same settings that has seen nothing yet."""
        return ClassMonitor(self.settings, self.sampling)

    def continues(self, before: "ClassMonitor") -> bool:
        """Return whether it may be replaced by one of before, which has the same settings."""
        return (self.settings, self.sampling) == (before.settings, before.sampling)

    def take_new_usage(self) -> list[IntervalUsage]:
        """Return what was used in the intervals since the last call, oldest first."""
        return take_all(self._new_usage)

    def append(self, sample: Sample) -> None:
        """Add a sample of any collector."""
        self._maker.append(sample)

    def advance(self, now: float, unix: float) -> None:
        """Process the samples up to `now` (monotonic seconds; `unix` is the same instant)."""
        renumbered = False
        for completed in self._maker.intervals(now):
            interval = self._without_changes(completed) if renumbered else completed
            if self._block_end is None:
                self._block_end = interval.end - interval.seconds + self.settings.interval
            self._pending.append(interval)
            if interval.end >= self._block_end:
                self._assess(unix - (now - interval.end))
                renumbered |= self._forget_untracked()
                self._block_end = max(self._block_end + self.settings.interval, interval.end)

    def _assess(self, at: float) -> None:
        """Assess the intervals of the minute that ended at `at` (Unix seconds)."""
        started = time.perf_counter()
        intervals, self._pending = self._pending, []
        state, used = assess_classes(intervals, self._window, at)
        self._new_usage.append(used)
        seconds = time.perf_counter() - started
        self.state = replace(state, lost=dict(self._maker.deltas.lost), seconds=seconds)

    def _forget_untracked(self) -> bool:
        """Forget all but the tracked classes if there are too many; the rest is renumbered."""
        tracked = self._window.tracked
        if len(tracked.registry) <= MAX_KNOWN_CLASSES:
            return False
        tracked.forget_others()
        self._maker.deltas.forget(LossReason.CHURN)
        return True

    def _without_changes(self, interval: ClassInterval) -> ClassInterval:
        """Drop the changes of an interval, which have class numbers that are no longer valid."""
        if interval.changes is not None:
            self._maker.deltas.lost[LossReason.CHURN] += 1
        return replace(interval, changes=None)
