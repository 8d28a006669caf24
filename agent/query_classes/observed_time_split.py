"""Where the time of the query classes went that were observed for a while."""

from dataclasses import replace

import numpy as np

from agent.config.ceilings import ResourceSettings
from agent.intervals import Window
from agent.query_classes.observations import ObservedClasses
from agent.recent_time_split import time_use
from agent.time_split import first_known, read_weights, rows_beyond_calls
from models.attribution.class_intervals import Array
from models.attribution.divide import Attribution, Method
from models.attribution.quality_gate import is_proven
from models.time_split.per_class import ClassUse, class_splits
from models.time_split.split import TimeSplit


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
    scale = observed.seconds / found.seconds
    known = (part for part in found.split.seconds if part not in found.split.unknown)
    target = TimeSplit.of(
        found.split.statement_time * scale,
        {part: found.split.seconds[part] * scale for part in known},
    )
    classes = class_splits(target, _uses(observed, spent))
    return replace(observed, time=found, class_times=tuple(classes))


def statement_times(observed: ObservedClasses) -> Array:
    """Sum up the time of each class's statements, those that still run included, s, shape (K,)."""
    ticks = observed.ticks
    spent = ticks.statement_time.sum(axis=0)
    if ticks.inflight_delta is not None:
        spent = spent + ticks.inflight_delta.sum(axis=0)
    at_least: Array = np.maximum(spent, 0.0)
    return at_least


def _uses(observed: ObservedClasses, spent: Array) -> ClassUse:
    ticks = observed.ticks
    sizes = {name: table.sum(axis=0) for name, table in ticks.sizes}
    read, cpu = observed.disk.get("read"), observed.cpu
    return ClassUse(
        statement_time=spent,
        cpu=_totals(observed.cpu),
        locks=None if ticks.lock_time is None else ticks.lock_time.sum(axis=0),
        read_bytes=read_weights(
            _proven(read),
            0.0 if read is None or not read.total else 1.0 - read.unattributed / read.total,
            rows_beyond_calls(
                sizes.get("rows_examined"),
                None if ticks.count is None else ticks.count.sum(axis=0),
            ),
            cpu_is_measured=cpu is not None and cpu.method is Method.MEASURED,
        ),
        sent_bytes=first_known(_proven(observed.network), sizes.get("rows_sent")),
    )


def _totals(found: Attribution | None) -> Array | None:
    return None if found is None else np.array([use.total for use in found.classes])


def _proven(found: Attribution | None) -> Array | None:
    """Bytes by class, where the division has shown that it knows them."""
    if found is None or not is_proven(found.held_out):
        return None
    return _totals(found)
