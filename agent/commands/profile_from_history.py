"""A profile from the history of an agent, which may be running."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from agent.export.profile_rows import (
    NO_PREDICTION_ERROR,
    IoBytes,
    Profile,
    ProfileRow,
    ranked_profile,
)
from agent.history.class_uses import (
    StoredClassUse,
    StoredSpan,
    cpu_methods,
    latest_gains,
    latest_span,
    uses,
)
from agent.history.failures import StoreError, as_store_error
from agent.history.open_database import open_to_read
from agent.query_classes.capacity_gain import CapacityGain
from agent.query_classes.class_registry import UNATTRIBUTED, ClassName, class_name_of
from models.attribution.quality_gate import DISK_RESOURCES
from models.attribution.result import DivisionMethod

RECENT_SECONDS = 900.0  # seconds for which a class's capacity gain is current
WORST_FIRST = (
    DivisionMethod.WLR,
    DivisionMethod.LEARNED,
    DivisionMethod.WORK_TIME,
    DivisionMethod.MEASURED,
)


def recorded_profile(
    path: Path, target: str, since: float, until: float, sort: str
) -> Profile | None:
    """Return the profile between two times (Unix seconds), or None if no rows are from then.

    Raises `StoreError` if the history cannot be read.
    """
    try:
        with closing(open_to_read(path)) as connection:
            span = latest_span(connection, target, round(1000 * since), round(1000 * until))
            if span is None:
                return None
            found = {use.name: use for use in uses(connection, span)}
            gains = _gains_by_class(connection, span)
            source_names = cpu_methods(connection, span)
    except sqlite3.Error as error:
        raise as_store_error(path, error) from error
    unattributed = found.pop(UNATTRIBUTED, None)
    known = [use for use in (*found.values(), unattributed) if use and use.cpu is not None]
    methods = [method for method in WORST_FIRST if method.value in source_names]
    profile = Profile(
        rows=tuple(_row(use) for use in found.values()),
        sort=sort,
        seconds=span.seconds,
        cpu_source=methods[0] if methods else None,
        cpu_total=sum(use.cpu or 0.0 for use in known) if known else None,
        cpu_unattributed=unattributed.cpu if unattributed else None,
        cpu_held_out_mape=None,
        disagreement=None,
        compared_with=None,
        reasons=(),
        io=_io(found.values(), unattributed),
        recorded=(span.begin / 1000, span.last / 1000),
    )
    return ranked_profile(profile, gains)


def _io(
    classes: Iterable[StoredClassUse], unattributed: StoredClassUse | None
) -> dict[str, IoBytes]:
    """Return the total and unattributed bytes; their prediction errors are not in the history."""
    io = {}
    for name in DISK_RESOURCES:
        left = getattr(unattributed, name) if unattributed else None
        parts = [part for use in classes if (part := getattr(use, name)) is not None]
        if left is not None or parts:
            io[name] = IoBytes(sum(parts) + (left or 0.0), left or 0.0, NO_PREDICTION_ERROR, ())
    return io


def latest_capacity_gains(path: Path, target: str, now: float) -> dict[ClassName, CapacityGain]:
    """Return the capacity gain of each class that an agent wrote recently; empty if none did."""
    try:
        with closing(open_to_read(path)) as connection:
            since, until = round(1000 * (now - RECENT_SECONDS)), round(1000 * now)
            span = latest_span(connection, target, since, until)
            return _gains_by_class(connection, span) if span else {}
    except (sqlite3.Error, StoreError):
        return {}


def _gains_by_class(
    connection: sqlite3.Connection, span: StoredSpan
) -> dict[ClassName, CapacityGain]:
    return {class_name_of(key): gain for key, gain in latest_gains(connection, span).items()}


def _row(use: StoredClassUse) -> ProfileRow:
    name, calls, seconds = class_name_of(use.name), use.calls or 0.0, use.statement_time or 0.0
    moved = [part for part in (use.read, use.written) if part is not None]
    return ProfileRow(
        schema=name.schema,
        digest=name.digest,
        calls=calls,
        seconds=seconds,
        cpu=use.cpu,
        cpu_stderr=use.cpu_error,
        io=sum(moved) if moved else None,
        latency=seconds / calls if calls else None,
        rows_examined=None,
        rows_sent=None,
        waits=(use.waits or 0.0) > 0.5,
        text=None,
    )
