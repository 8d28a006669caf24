"""Observations of one server's query classes over a period, divided as the agent divides them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agent.config.resources import ResourceSettings
from agent.query_classes.class_intervals import (
    ClassInterval,
    SaturatedPeriod,
    host_use,
    in_worst_period,
    saturated_periods,
)
from agent.query_classes.class_registry import ClassRegistry
from agent.query_classes.class_time_splits import split_over
from agent.query_classes.tracked_classes import TrackedClasses, is_cpu_sum, whole_use
from agent.window.intervals import Window
from agent.window.recent_time_split import TimeUse, time_use
from models.attribution.class_time_series import Array, ClassIntervals
from models.attribution.estimators import Target
from models.attribution.quality_gate import (
    DISK_RESOURCES,
    is_predicted_well,
    moved_as_predicted,
    withheld,
)
from models.attribution.resource_division import attribute
from models.attribution.result import Attribution, HostUse
from models.time_split.class_weights import first_known, read_weights, rows_of_tables
from models.time_split.per_class import ClassUse, class_splits
from models.time_split.split import TimeSplit

MAX_CLASSES = 300
MIN_TICKS = 3


@dataclass(frozen=True)
class ObservedClasses:
    """What was seen: intervals of the classes, and what each used of CPU and IO where known."""

    registry: ClassRegistry
    seconds: float
    intervals: ClassIntervals
    cpu: Attribution | None
    cpu_target: Array | None
    """CPU of the whole server, or of all classes where only that is known, s, shape (T,)."""
    cpu_is_sum: bool
    """The whole server's CPU is not known, only what the classes use."""
    disk: Mapping[str, Attribution]
    """Of the bytes `read` and `written`, those that are known."""
    saturated_periods: tuple[SaturatedPeriod, ...]
    """Periods in which the host was saturated or waited for IO."""
    network: Attribution | None = None
    """Of the bytes received and sent."""
    time: TimeUse | None = None
    """Where the statement time of the whole server went."""
    class_times: tuple[TimeSplit, ...] = ()
    """The same of each class of the intervals; empty where it is not known."""


def observed_classes(
    registry: ClassRegistry, intervals: Sequence[ClassInterval]
) -> ObservedClasses:
    """Divide CPU and bytes over the classes of these intervals."""
    whole = _alike([interval for interval in intervals if interval.changes is not None])
    tracked = TrackedClasses(registry, MAX_CLASSES)
    tracked.update(whole)
    table = tracked.table(whole)
    used = {name: whole_use(name, table, whole) for name in ("cpu", "network", *DISK_RESOURCES)}
    periods = saturated_periods(whole)
    host = host_use(whole)
    worst = in_worst_period(host, periods)
    bytes_of = {name: _bytes(table, used[name], worst) for name in ("network", *DISK_RESOURCES)}
    return ObservedClasses(
        registry=registry,
        seconds=float(table.seconds.sum()),
        intervals=table,
        cpu=_cpu(table, used["cpu"], host, worst),
        cpu_target=used["cpu"] if np.isfinite(used["cpu"]).all() else None,
        cpu_is_sum=is_cpu_sum(table, whole),
        disk={name: withheld(name, table, y) for name in DISK_RESOURCES if (y := bytes_of[name])},
        saturated_periods=periods,
        network=bytes_of["network"],
    )


def _alike(intervals: Sequence[ClassInterval]) -> list[ClassInterval]:
    """Take those with the server's CPU; where they are fewer than half it is known in none."""
    known = [interval for interval in intervals if "cpu" in interval.used]
    if 2 * len(known) >= len(intervals):
        return known
    without = ({k: v for k, v in i.used.items() if k != "cpu"} for i in intervals)
    return [replace(i, used=used) for i, used in zip(intervals, without, strict=True)]


def _cpu(table: ClassIntervals, y: Array, host: HostUse, worst: HostUse) -> Attribution | None:
    measured = table.cpu is not None and bool(table.cpu.any())
    enough = len(table) >= (1 if measured else MIN_TICKS)
    if not enough or not np.isfinite(y).all() or not y.any():
        return None
    return attribute(table, Target(y, cpu_seconds=True), host=host, worst=worst)


def _bytes(table: ClassIntervals, y: Array, host: HostUse) -> Attribution | None:
    """Divide a number of bytes by the intervals in which it is known."""
    known = np.flatnonzero(np.isfinite(y))
    if len(known) < MIN_TICKS or not y[known].any():
        return None
    return attribute(table.at(known), Target(y[known], time_like=False), host=host)


def with_times(
    observed: ObservedClasses, window: Window, resources: ResourceSettings
) -> ObservedClasses:
    """The same with the split of the target's statement time and of each class's."""
    spent = statement_times(observed)
    if len(window) == 0 or observed.seconds <= 0 or not spent.any():
        return observed
    statements = float(spent.sum()) / observed.seconds
    found = time_use(window, 0.0, resources, statements)
    if found is None:
        return observed
    classes = class_splits(split_over(found, observed.seconds), _uses(observed, spent))
    return replace(observed, time=found, class_times=tuple(classes))


def statement_times(observed: ObservedClasses) -> Array:
    """Sum up the time of each class's statements, those that still run included, s, shape (K,)."""
    intervals = observed.intervals
    spent = intervals.statement_time.sum(axis=0)
    if intervals.inflight_delta is not None:
        spent = spent + intervals.inflight_delta.sum(axis=0)
    at_least: Array = np.maximum(spent, 0.0)
    return at_least


def _uses(observed: ObservedClasses, spent: Array) -> ClassUse:
    intervals = observed.intervals
    sizes = {name: table.sum(axis=0) for name, table in intervals.sizes}
    read = observed.disk.get("read")
    locks = None if intervals.lock_time is None else intervals.lock_time.sum(axis=0)
    return ClassUse(
        statement_time=spent,
        cpu=_totals(observed.cpu),
        locks=locks,
        read_bytes=read_weights(
            _proven(read),
            0.0 if read is None or not read.total else 1.0 - read.unattributed / read.total,
            rows_of_tables(
                sizes.get("rows_examined"),
                None if intervals.count is None else intervals.count.sum(axis=0),
                locks,
            ),
        ),
        sent_bytes=first_known(_sent(observed.network), sizes.get("rows_sent")),
        on_disk=None if intervals.on_disk is None else intervals.on_disk.sum(axis=0),
        ready=None if intervals.ready is None else intervals.ready.sum(axis=0),
    )


def _sent(found: Attribution | None) -> Array | None:
    """Bytes by class, where the load has moved enough to know whose they are."""
    return _totals(found) if found is not None and moved_as_predicted(found.held_out) else None


def _totals(found: Attribution | None) -> Array | None:
    return None if found is None else np.array([use.total for use in found.classes])


def _proven(found: Attribution | None) -> Array | None:
    """Bytes by class, where the division has shown that it knows them."""
    if found is None or not is_predicted_well(found.held_out):
        return None
    return _totals(found)
