"""A profile from the history of a running agent, read beside it."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from agent.export.profile_rows import NOT_JUDGED, Moved, Profile, Row, ranked
from agent.history.class_uses import Span, Use, latest_gains, latest_span, sources, uses
from agent.history.database import open_to_read
from agent.history.failures import StoreError, as_store_error
from agent.query_classes.capacity_gain import Saving
from agent.query_classes.class_registry import NOBODY, Name, name_of
from models.attribution.quality_gate import DISK_RESOURCES
from models.attribution.result import Method

RECENT_SECONDS = 900.0  # seconds within which what a class costs in capacity is still true
WORST_FIRST = (Method.WLR, Method.LEARNED, Method.WORK_TIME, Method.MEASURED)


def recorded(path: Path, target: str, since: float, until: float, sort: str) -> Profile | None:
    """What classes used between two moments (Unix seconds); None where nothing was written then.

    Raises `StoreError` where the history cannot be read.
    """
    try:
        with closing(open_to_read(path)) as connection:
            span = latest_span(connection, target, round(1000 * since), round(1000 * until))
            if span is None:
                return None
            found = {use.name: use for use in uses(connection, span)}
            savings = _savings(connection, span)
            named = sources(connection, span)
    except sqlite3.Error as error:
        raise as_store_error(path, error) from error
    nobody = found.pop(NOBODY, None)
    known = [use for use in (*found.values(), nobody) if use and use.cpu is not None]
    methods = [method for method in WORST_FIRST if method.value in named]
    profile = Profile(
        rows=tuple(_row(use) for use in found.values()),
        sort=sort,
        seconds=span.seconds,
        cpu_source=methods[0] if methods else None,
        cpu_total=sum(use.cpu or 0.0 for use in known) if known else None,
        cpu_unattributed=nobody.cpu if nobody else None,
        cpu_error=None,
        disagreement=None,
        compared_with=None,
        reasons=(),
        io=_io(found.values(), nobody),
        recorded=(span.begin / 1000, span.last / 1000),
    )
    return ranked(profile, savings)


def _io(classes: Iterable[Use], nobody: Use | None) -> dict[str, Moved]:
    """Bytes of all, and of no class; how good the divisions were is not written."""
    io = {}
    for name in DISK_RESOURCES:
        left = getattr(nobody, name) if nobody else None
        parts = [part for use in classes if (part := getattr(use, name)) is not None]
        if left is not None or parts:
            io[name] = Moved(sum(parts) + (left or 0.0), left or 0.0, NOT_JUDGED, ())
    return io


def latest_savings(path: Path, target: str, now: float) -> dict[Name, Saving]:
    """What each class costs in capacity, as an agent wrote lately; nothing where none did."""
    try:
        with closing(open_to_read(path)) as connection:
            since, until = round(1000 * (now - RECENT_SECONDS)), round(1000 * now)
            span = latest_span(connection, target, since, until)
            return _savings(connection, span) if span else {}
    except (sqlite3.Error, StoreError):
        return {}


def _savings(connection: sqlite3.Connection, span: Span) -> dict[Name, Saving]:
    gains = latest_gains(connection, span)
    return {name_of(key): Saving(gain.removed, gain.halved) for key, gain in gains.items()}


def _row(use: Use) -> Row:
    name, calls, seconds = name_of(use.name), use.calls or 0.0, use.statement_time or 0.0
    moved = [part for part in (use.read, use.written) if part is not None]
    return Row(
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
