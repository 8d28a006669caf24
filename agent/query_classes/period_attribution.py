"""One server's use over a period, divided over its query classes as the agent divides it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agent.config.resources import ResourceSettings
from agent.query_classes.class_intervals import (
    ClassInterval,
    SaturatedPeriod,
    host_use,
    saturated_periods,
    use_in_worst_period,
)
from agent.query_classes.class_registry import ClassRegistry
from agent.query_classes.class_time_splits import split_over
from agent.query_classes.tracked_classes import TrackedClasses, is_cpu_sum, server_use
from agent.window.intervals import Window
from agent.window.recent_time_split import TimeUse, time_use
from models.arrays import Array
from models.attribution.class_interval_table import ClassIntervals
from models.attribution.division_methods import DividedUse
from models.attribution.quality_gate import (
    DISK_RESOURCES,
    is_predicted_well,
    varied_as_predicted,
    withhold_failing,
)
from models.attribution.resource_division import attribute
from models.attribution.result import Attribution, HostUse
from models.time_split.class_weights import first_known, read_weights, rows_of_tables
from models.time_split.per_class import ClassColumns, class_splits
from models.time_split.time_parts import TimeSplit

MAX_CLASSES = 300
"""Classes that have a column of their own; the others share one."""
MIN_INTERVALS = 3
"""Intervals that are required to estimate the classes' use; measured CPU needs one."""


@dataclass(frozen=True)
class ObservedClasses:
    """The observations: intervals of the classes, and the CPU and IO of each if known."""

    registry: ClassRegistry
    seconds: float
    intervals: ClassIntervals
    cpu: Attribution | None
    cpu_target: Array | None
    """CPU of the whole server, or of all classes where only that is known, s, shape (T,)."""
    cpu_is_sum: bool
    """The whole server's CPU is not known, only that of the classes."""
    disk: Mapping[str, Attribution]
    """Attributions of the bytes `read` and `written`, those that are known."""
    saturated_periods: tuple[SaturatedPeriod, ...]
    """Periods in which the host was saturated or waited for IO."""
    network: Attribution | None = None
    """Attribution of the bytes received and sent."""
    time: TimeUse | None = None
    """Where the whole server's statement time went."""
    class_times: tuple[TimeSplit, ...] = ()
    """The same for each class of the intervals; empty if not known."""
    unclassified_share: float | None = None
    """Share of all statement time that is in no class; None: not known, or a class has it."""


def observed_classes(
    registry: ClassRegistry, intervals: Sequence[ClassInterval]
) -> ObservedClasses:
    """Divide CPU and bytes over the classes of these intervals."""
    complete = _with_consistent_cpu(
        [interval for interval in intervals if interval.changes is not None]
    )
    tracked = TrackedClasses(registry, MAX_CLASSES)
    tracked.update(complete)
    table = tracked.table(complete)
    used = {name: server_use(name, table, complete) for name in ("cpu", "network", *DISK_RESOURCES)}
    periods = saturated_periods(complete)
    host = host_use(complete)
    worst = use_in_worst_period(host, periods)
    bytes_of = {
        name: _divide_bytes(table, used[name], worst) for name in ("network", *DISK_RESOURCES)
    }
    return ObservedClasses(
        registry=registry,
        seconds=float(table.seconds.sum()),
        intervals=table,
        cpu=_divide_cpu(table, used["cpu"], host, worst),
        cpu_target=used["cpu"] if np.isfinite(used["cpu"]).all() else None,
        cpu_is_sum=is_cpu_sum(table, complete),
        disk={
            name: withhold_failing(name, table, y)
            for name in DISK_RESOURCES
            if (y := bytes_of[name])
        },
        saturated_periods=periods,
        network=bytes_of["network"],
    )


def _with_consistent_cpu(intervals: Sequence[ClassInterval]) -> list[ClassInterval]:
    """Keep the intervals with the server's CPU; if they are fewer than half, drop CPU from all."""
    known = [interval for interval in intervals if "cpu" in interval.used]
    if 2 * len(known) >= len(intervals):
        return known
    without = ({k: v for k, v in i.used.items() if k != "cpu"} for i in intervals)
    return [replace(i, used=used) for i, used in zip(intervals, without, strict=True)]


def _divide_cpu(
    table: ClassIntervals, y: Array, host: HostUse, worst: HostUse
) -> Attribution | None:
    measured = table.cpu is not None and bool(table.cpu.any())
    enough = len(table) >= (1 if measured else MIN_INTERVALS)
    if not enough or not np.isfinite(y).all() or not y.any():
        return None
    return attribute(table, DividedUse(y, is_cpu_seconds=True), host=host, worst=worst)


def _divide_bytes(table: ClassIntervals, y: Array, host: HostUse) -> Attribution | None:
    """Divide a number of bytes over the classes, using the intervals in which it is known."""
    known = np.flatnonzero(np.isfinite(y))
    if len(known) < MIN_INTERVALS or not y[known].any():
        return None
    return attribute(table.at(known), DividedUse(y[known], time_like=False), host=host)


def with_time_splits(
    observed: ObservedClasses, window: Window, resources: ResourceSettings
) -> ObservedClasses:
    """Add the split of the statement time of the target and of each class."""
    class_times = statement_times(observed)
    if len(window) == 0 or observed.seconds <= 0 or not class_times.any():
        return observed
    statements = float(class_times.sum()) / observed.seconds
    found = time_use(window, 0.0, resources, statements)
    if found is None:
        return observed
    classes = class_splits(split_over(found, observed.seconds), _class_use(observed, class_times))
    return replace(observed, time=found, class_times=tuple(classes))


def statement_times(observed: ObservedClasses) -> Array:
    """Sum each class's statement time, running statements included, s, shape (K,)."""
    intervals = observed.intervals
    spent = intervals.statement_time.sum(axis=0)
    if intervals.inflight_delta is not None:
        spent = spent + intervals.inflight_delta.sum(axis=0)
    at_least: Array = np.maximum(spent, 0.0)
    return at_least


def _class_use(observed: ObservedClasses, spent: Array) -> ClassColumns:
    """Collect the use by class, shape (K,) each; `spent` is its statement time, s."""
    intervals = observed.intervals
    sizes = {name: table.sum(axis=0) for name, table in intervals.sizes}
    read = observed.disk.get("read")
    locks = None if intervals.lock_time is None else intervals.lock_time.sum(axis=0)
    return ClassColumns(
        statement_time=spent,
        cpu=_totals(observed.cpu),
        locks=locks,
        read_bytes=read_weights(
            _totals_if_predicted_well(read),
            0.0 if read is None or not read.total else 1.0 - read.unattributed / read.total,
            rows_of_tables(
                sizes.get("rows_examined"),
                None if intervals.count is None else intervals.count.sum(axis=0),
                locks,
            ),
        ),
        sent_bytes=first_known(_sent_bytes(observed.network), sizes.get("rows_sent")),
        on_disk=None if intervals.on_disk is None else intervals.on_disk.sum(axis=0),
        ready=None if intervals.ready is None else intervals.ready.sum(axis=0),
    )


def _sent_bytes(found: Attribution | None) -> Array | None:
    """Return bytes by class, if the load varied enough to attribute them."""
    return _totals(found) if found is not None and varied_as_predicted(found.held_out) else None


def _totals(found: Attribution | None) -> Array | None:
    return None if found is None else np.array([use.total for use in found.classes])


def _totals_if_predicted_well(found: Attribution | None) -> Array | None:
    """Return bytes by class, if the division predicted held-out intervals well."""
    if found is None or not is_predicted_well(found.held_out):
        return None
    return _totals(found)
