"""A profile: query classes ranked by resource use, from a live server or the history."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from agent.query_classes.capacity_gain import CapacityGain
from agent.query_classes.class_intervals import SaturatedPeriod
from agent.query_classes.class_registry import COMBINED_CLASSES, ClassName, class_name_of
from agent.query_classes.period_attribution import ObservedClasses
from agent.window.recent_time_split import TimeUse
from models.arrays import Array
from models.attribution.quality_gate import is_predicted_well
from models.attribution.result import (
    Attribution,
    AttributionReason,
    DivisionMethod,
    PredictionError,
)
from models.time_split.limiting_resource import LimitedBy
from models.time_split.time_parts import TimeSplit

NO_GAINS: Mapping[ClassName, CapacityGain] = {}


@dataclass(frozen=True)
class ProfileRow:
    """One class; what is not known is None."""

    schema: str
    digest: str
    calls: float
    seconds: float
    """Statement time in seconds, including that of statements still running."""
    cpu: float | None
    cpu_stderr: float | None
    io: float | None
    """Bytes read and written, estimated; None if they cannot be attributed."""
    latency: float | None
    """Mean time of a statement, in seconds."""
    rows_examined: float | None
    rows_sent: float | None
    waits: bool
    text: str | None
    share: float | None = None
    """Share of all classes' use of the quantity by which the rows are sorted."""
    removed_gain: float | None = None
    """More of all other queries that would fit without the class, as a share of what fits now."""
    halved_gain: float | None = None
    """The same at half the class's cost."""
    time: TimeSplit | None = None
    """The time split of its statements."""

    @property
    def limited_by(self) -> LimitedBy | None:
        """The limit on which it spends most of its time."""
        return LimitedBy.of(self.time) if self.time else None


@dataclass(frozen=True)
class IoBytes:
    """Bytes read or written, and how well they can be attributed to classes."""

    total: float
    unattributed: float
    held_out: PredictionError
    reasons: tuple[AttributionReason, ...]


NO_PREDICTION_ERROR = PredictionError(None, None, None)


@dataclass(frozen=True)
class Profile:
    """Query classes, the greatest first, and how their resource use was determined."""

    rows: tuple[ProfileRow, ...]
    sort: str
    seconds: float
    """Seconds observed, without gaps; for a profile of sums, seconds since the oldest began."""
    cpu_source: DivisionMethod | None
    cpu_total: float | None
    cpu_unattributed: float | None
    cpu_held_out_mape: float | None
    """Mean relative error of an interval's CPU as predicted from other intervals."""
    disagreement: float | None
    compared_with: DivisionMethod | None
    reasons: tuple[AttributionReason, ...]
    saturated_periods: tuple[SaturatedPeriod, ...] = ()
    """Periods in which the host was saturated or waited for IO."""
    io: Mapping[str, IoBytes] = field(default_factory=dict)
    """The bytes `read` and `written`, where they are known."""
    recorded: tuple[float, float] | None = None
    """Start and end (Unix seconds) of a profile from the history."""
    time: TimeUse | None = None
    """The time split of the whole server."""
    unknown_sort: str | None = None
    """The requested order where no class has that quantity; the classes are sorted by time then."""
    unclassified_share: float | None = None
    """Share of all statement time that is in no class; None: not known, or a class has it."""
    is_of_sums: bool = False
    """True if no interval was observed, and the server's own sums were read once."""

    def digests(self, top: int) -> list[str]:
        """Return the digests among the first `top` rows that are of a single class."""
        return [row.digest for row in self.rows[:top] if row.digest not in COMBINED_CLASSES]


SORT_KEYS: dict[str, Callable[[ProfileRow], float | None]] = {
    "cpu": lambda row: row.cpu,
    "time": lambda row: row.seconds,
    "count": lambda row: row.calls,
    "io": lambda row: row.io,
    "latency": lambda row: None if row.digest in COMBINED_CLASSES else row.latency,
}


def profile_of(
    observed: ObservedClasses,
    sort: str,
    *,
    with_text: bool,
    gains: Mapping[ClassName, CapacityGain] = NO_GAINS,
) -> Profile:
    """Build a profile sorted as requested, or by time if that quantity is not known."""
    cpu = observed.cpu
    is_total_known = cpu is not None and not observed.cpu_is_sum
    profile = Profile(
        rows=tuple(_rows(observed, with_text=with_text)),
        sort=sort,
        seconds=observed.seconds,
        cpu_source=cpu.method if cpu else None,
        cpu_total=cpu.total if cpu else None,
        cpu_unattributed=cpu.unattributed if cpu and is_total_known else None,
        cpu_held_out_mape=cpu.held_out.mape if cpu else None,
        disagreement=cpu.disagreement if cpu else None,
        compared_with=cpu.compared_with if cpu else None,
        reasons=cpu.reasons if cpu else (),
        saturated_periods=observed.saturated_periods,
        time=observed.time,
        unclassified_share=observed.unclassified_share,
        io={
            name: IoBytes(found.total, found.unattributed, found.held_out, found.reasons)
            for name, found in observed.disk.items()
        },
    )
    return ranked_profile(profile, gains)


def ranked_profile(profile: Profile, gains: Mapping[ClassName, CapacityGain]) -> Profile:
    """Return the profile sorted, with each class's share and its capacity gains."""
    rows = [row for row in profile.rows if row.calls or row.seconds > 0]
    is_known = any(SORT_KEYS[profile.sort](row) for row in rows) or not rows
    sort, unknown = (profile.sort, None) if is_known else ("time", profile.sort)
    value = SORT_KEYS[sort]
    total = 0.0 if sort == "latency" else sum(value(row) or 0.0 for row in rows)
    rows.sort(key=lambda row: (-(value(row) or 0.0), row.digest))
    with_shares = (_with_share(row, value(row), total) for row in rows)
    ranked = tuple(_with_gains(row, gains) for row in with_shares)
    return replace(profile, sort=sort, unknown_sort=unknown, rows=ranked)


def with_texts(profile: Profile, texts: Mapping[str, str]) -> Profile:
    """Return the profile with the statements' texts, given by digest."""
    rows = (replace(row, text=texts.get(row.digest)) for row in profile.rows)
    return replace(profile, rows=tuple(rows))


def _rows(observed: ObservedClasses, *, with_text: bool) -> list[ProfileRow]:
    intervals = observed.intervals
    completed_time = statement_time = intervals.statement_time.sum(axis=0)
    if intervals.inflight_delta is not None:
        statement_time = np.maximum(completed_time + intervals.inflight_delta.sum(axis=0), 0.0)
    count = (
        intervals.count.sum(axis=0)
        if intervals.count is not None
        else np.zeros(len(completed_time))
    )
    sizes = {name: table.sum(axis=0) for name, table in intervals.sizes}
    rows = []
    for k, key in enumerate(intervals.names):
        name = class_name_of(key)
        cpu, stderr, waits = _cpu_use(observed.cpu, k)
        rows.append(
            ProfileRow(
                schema=name.schema,
                digest=name.digest,
                calls=float(count[k]),
                seconds=float(statement_time[k]),
                cpu=cpu,
                cpu_stderr=stderr,
                io=_io_bytes(observed, k),
                latency=float(completed_time[k] / count[k]) if count[k] else None,
                rows_examined=_total_of(sizes.get("rows_examined"), k),
                rows_sent=_total_of(sizes.get("rows_sent"), k),
                waits=waits,
                text=observed.registry.text(key) if with_text else None,
                time=observed.class_times[k] if observed.class_times else None,
            )
        )
    return rows


def _total_of(totals: Array | None, k: int) -> float | None:
    return None if totals is None else float(totals[k])


def _cpu_use(found: Attribution | None, k: int) -> tuple[float | None, float | None, bool]:
    if found is None:
        return None, None, False
    use = found.classes[k]
    return use.total, use.stderr, use.waits


def _io_bytes(observed: ObservedClasses, k: int) -> float | None:
    """Sum the class's bytes that are predicted well enough to be attributed; None if none are."""
    well_predicted = [
        found for found in observed.disk.values() if is_predicted_well(found.held_out)
    ]
    return sum(found.classes[k].total for found in well_predicted) if well_predicted else None


def _with_share(row: ProfileRow, value: float | None, total: float) -> ProfileRow:
    return row if value is None or total <= 0 else replace(row, share=value / total)


def _with_gains(row: ProfileRow, gains: Mapping[ClassName, CapacityGain]) -> ProfileRow:
    gain = gains.get(ClassName(row.schema, row.digest))
    if gain is None:
        return row
    return replace(row, removed_gain=gain.removed, halved_gain=gain.halved)
