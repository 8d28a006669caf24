"""Where the statement time goes, of a target and of each of its query classes."""

import numpy as np

from agent.query_classes.attribution_snapshot import ClassesState, ClassState
from agent.window.recent_time_split import TimeUse
from models.arrays import Array
from models.attribution.quality_gate import (
    varied_as_predicted,
)
from models.time_split.class_weights import first_known, read_weights, rows_of_tables
from models.time_split.per_class import ClassColumns, class_splits
from models.time_split.time_parts import TimeSplit


def class_time_splits(state: ClassesState, time: TimeUse) -> dict[str, TimeSplit]:
    """Return the split of each displayed class over its recent time, by the class's key."""
    if state.recent_seconds <= 0:
        return {}
    splits = class_splits(split_over(time, state.recent_seconds), _class_use(state))
    pairs = zip(state.classes, splits, strict=True)
    return {class_key(one): split for one, split in pairs if split.statement_time > 0}


def split_over(time: TimeUse, seconds: float) -> TimeSplit:
    """Scale the target's split to a number of seconds; unknown parts stay unknown."""
    scale = seconds / time.seconds
    known = (part for part in time.split.seconds if part not in time.split.unknown)
    parts = {part: time.split.seconds[part] * scale for part in known}
    return TimeSplit.of(time.split.statement_time * scale, parts)


def class_key(one: ClassState) -> str:
    """Return a class's schema and digest as one word."""
    return f"{one.name.schema}|{one.name.digest}"


def _class_use(state: ClassesState) -> ClassColumns:
    """Collect what the models attribute to each class over the remembered time."""

    def column(name: str) -> Array | None:
        values = [one.recent.get(name, 0.0) for one in state.classes]
        return np.array(values) if any(values) else None

    statement_time = column("statement_time")
    read, network = state.resource("read"), state.resource("network")
    is_known = network is not None and varied_as_predicted(network.held_out)
    return ClassColumns(
        statement_time=np.zeros(len(state.classes)) if statement_time is None else statement_time,
        cpu=column("cpu"),
        locks=column("lock_time"),
        read_bytes=read_weights(
            column("read"),
            1.0 - (1.0 if read is None else read.unattributed_share or 0.0),
            rows_of_tables(column("rows_examined"), column("calls"), column("lock_time")),
        ),
        sent_bytes=first_known(column("network") if is_known else None, column("rows_sent")),
        on_disk=column("on_disk"),
        ready=column("ready"),
    )
