"""Where a target's statement time goes, and each query class's."""

from dataclasses import dataclass

import numpy as np

from agent.query_classes.state import ClassesState, ClassState
from models.attribution.divide import Method
from models.rates import Array
from models.time_split.limiting_resource import LimitedBy
from models.time_split.per_class import ClassUse, class_splits
from models.time_split.resource_times import DiskProfile
from models.time_split.split import TimeSplit


@dataclass(frozen=True, slots=True)
class TimeUse:
    """The split of one target's statement time; `at` is its end in Unix seconds."""

    at: float
    seconds: float
    """Over how many seconds."""
    split: TimeSplit
    limited_by: LimitedBy | None
    learnt: DiskProfile | None
    """The calibration of the disk that was read most, where its own figures show one."""


def class_time_splits(state: ClassesState, time: TimeUse) -> dict[str, TimeSplit]:
    """The split of each class that is shown, over what is remembered of it, by its digest's key."""
    if state.recent_seconds <= 0:
        return {}
    scale = state.recent_seconds / time.seconds
    seconds = {part: value * scale for part, value in time.split.seconds.items()}
    known = {part: v for part, v in seconds.items() if part not in time.split.unknown}
    target = TimeSplit.of(time.split.statement_time * scale, known)
    splits = class_splits(target, _class_use(state))
    pairs = zip(state.classes, splits, strict=True)
    return {class_key(one): split for one, split in pairs if split.statement_time > 0}


def class_key(one: ClassState) -> str:
    """A class's schema and digest in one word."""
    return f"{one.name.schema}|{one.name.digest}"


def _class_use(state: ClassesState) -> ClassUse:
    """Collect what the models attribute to each class over the remembered time."""

    def column(name: str) -> Array | None:
        values = [one.recent.get(name, 0.0) for one in state.classes]
        return np.array(values) if any(values) else None

    statement_time = column("statement_time")
    cpu, read = state.resource("cpu"), state.resource("read")
    return ClassUse(
        statement_time=np.zeros(len(state.classes)) if statement_time is None else statement_time,
        cpu=column("cpu"),
        locks=column("lock_time"),
        read_bytes=read_weights(
            column("read"),
            1.0 - (1.0 if read is None else read.unattributed_share or 0.0),
            rows_beyond_calls(column("rows_examined"), column("calls")),
            cpu_is_measured=cpu is not None and cpu.source is Method.MEASURED,
        ),
        sent_bytes=first_known(column("network"), column("rows_sent")),
    )


LEAST_ATTRIBUTED = 0.5
"""Of a resource's bytes: where less is attributed to classes, it is not known whose they are."""


def read_weights(
    read: Array | None, attributed: float, rows_examined: Array | None, *, cpu_is_measured: bool
) -> Array | None:
    """By what the time on disk is divided over classes; None where it cannot be told.

    `attributed` is the part of the bytes read that the classes explain. Rows examined serve in
    their place where the CPU of each class is measured: then who computes has no room for more.
    """
    if read is not None and attributed >= LEAST_ATTRIBUTED:
        return read
    return rows_examined if cpu_is_measured else None


def rows_beyond_calls(rows: Array | None, calls: Array | None) -> Array | None:
    """Rows examined beyond one for each call, which MySQL counts of a SELECT without a table."""
    if rows is None or calls is None:
        return rows
    beyond: Array = np.maximum(rows - calls, 0.0)
    return beyond


def first_known(*columns: Array | None) -> Array | None:
    """The first column that is known."""
    return next((column for column in columns if column is not None), None)
