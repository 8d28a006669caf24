"""A fleet as a table and as CSV, the server with the least headroom first."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from agent.assessment.snapshot import Snapshot
from agent.commands.text_table import table_lines
from agent.export.capacity_sentences import resource_display_name, why_no_prediction
from agent.export.forecast_sentences import time_to_saturation_text
from agent.export.number_formats import DASH, format_bounds, format_number, whole_percent
from agent.support.safe_output import for_spreadsheet, printable

HEADER = (
    "target",
    "queries/s",
    "capacity",
    "90 % interval",
    "headroom",
    "at max load",
    "limit",
    "saturated in",
    "trust",
)
RIGHT = range(1, 6)
"""The columns of numbers."""
CSV_HEADER = (
    "target",
    "throughput",
    "concurrency",
    "capacity",
    "capacity_lower",
    "capacity_upper",
    "headroom",
    "headroom_at_peak",
    "overloaded",
    "limit",
    "time_to_saturation",
    "time_to_saturation_lower",
    "trust",
    "reasons",
)


class FleetRow(NamedTuple):
    """The result for one target; None where a value is not known."""

    target: str
    throughput: float | None
    concurrency: float | None
    capacity: float | None
    lower: float | None
    upper: float | None
    headroom: float | None
    headroom_at_peak: float | None
    """The headroom at the highest load in the window."""
    overloaded: bool | None
    limit: str | None
    time_to_saturation: float | None
    """The median time until the load reaches the capacity."""
    time_to_saturation_lower: float | None
    trust: str | None
    reasons: tuple[str, ...]
    missing_reason: str
    when: str

    @classmethod
    def of(cls, snapshot: Snapshot, now: float) -> "FleetRow":
        """Return the row of a snapshot at that time (Unix seconds)."""
        load, capacity, headroom = (
            snapshot.current_load(now),
            snapshot.capacity(now),
            snapshot.headroom(now),
        )
        point = snapshot.operating_point(now)
        value = capacity.value if capacity else None
        forecast = snapshot.current_forecast(now)
        return cls(
            target=snapshot.target,
            throughput=load.throughput if load else None,
            concurrency=point[0] if point else None,
            capacity=value,
            lower=capacity.lower if capacity else None,
            upper=capacity.upper if capacity else None,
            headroom=headroom.ratio if headroom else None,
            headroom_at_peak=1 - capacity.x_seen / value if capacity and value else None,
            overloaded=headroom.overloaded if headroom else None,
            limit=capacity.limit if capacity else None,
            time_to_saturation=forecast.saturation.seconds if forecast else None,
            time_to_saturation_lower=forecast.saturation.lower if forecast else None,
            trust=capacity.trust.value if capacity else None,
            reasons=tuple(reason.value for reason in capacity.reasons) if capacity else (),
            missing_reason="" if capacity else why_no_prediction(snapshot, now),
            when=time_to_saturation_text(forecast.saturation) if forecast else DASH,
        )

    @property
    def sort_key(self) -> tuple[float, str]:
        """Sort key: the lesser headroom, now or at the highest load; an unknown one comes last."""
        left = [h for h in (self.headroom, self.headroom_at_peak) if h is not None]
        return (min(left) - bool(self.overloaded) if left else math.inf), self.target


def least_headroom_first(snapshots: Iterable[Snapshot], now: float) -> list[Snapshot]:
    """Sort snapshots by headroom, the least first; overloaded ones come before all others."""
    return sorted(snapshots, key=lambda snapshot: FleetRow.of(snapshot, now).sort_key)


def as_table(snapshots: Sequence[Snapshot], now: float) -> Iterator[str]:
    """Yield the lines of a table, a row for each target; none without a target."""
    rows = [HEADER, *(_cells(FleetRow.of(snapshot, now)) for snapshot in snapshots)]
    if snapshots:
        yield from table_lines(rows, RIGHT)


def as_csv(snapshots: Sequence[Snapshot], now: float) -> Iterator[str]:
    """Yield a header and a line for each target; numbers in full precision, empty if unknown."""
    yield ",".join(CSV_HEADER)
    for snapshot in snapshots:
        row = FleetRow.of(snapshot, now)
        buffer = io.StringIO()
        *known, reasons, _, _ = row
        csv.writer(buffer, lineterminator="").writerow([*map(_csv_cell, known), ";".join(reasons)])
        yield buffer.getvalue()


def _cells(row: FleetRow) -> tuple[str, ...]:
    interval = format_bounds(row.lower, row.upper)
    trust = row.trust.replace("_", " ") if row.trust else printable(row.missing_reason)
    return (
        printable(row.target),
        format_number(row.throughput),
        format_number(row.capacity),
        interval,
        _percent(row.headroom),
        _percent(row.headroom_at_peak),
        resource_display_name(row.limit) if row.limit else DASH,
        row.when,
        f"{trust}, overloaded" if row.overloaded else trust,
    )


def _percent(value: float | None) -> str:
    return DASH if value is None else whole_percent(value)


def _csv_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    return for_spreadsheet(value) if isinstance(value, str) else repr(float(str(value)))
