"""A profile: query classes ranked by resource use, from a live server or the history."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from agent.query_classes.capacity_gain import Saving
from agent.query_classes.class_intervals import SaturatedPeriod
from agent.query_classes.class_registry import SEVERAL, Name, name_of
from agent.query_classes.period_attribution import ObservedClasses
from agent.window.recent_time_split import TimeUse
from models.attribution.quality_gate import is_predicted_well
from models.attribution.result import Attribution, Method, PredictionError, Reason
from models.time_split.limiting_resource import LimitedBy
from models.time_split.split import TimeSplit

NO_ROWS: Mapping[Name, Saving] = {}


@dataclass(frozen=True)
class Row:
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
class Moved:
    """Bytes read or written, and how well they can be attributed to classes."""

    total: float
    unattributed: float
    held_out: PredictionError
    reasons: tuple[Reason, ...]


NOT_JUDGED = PredictionError(None, None, None)


@dataclass(frozen=True)
class Profile:
    """Query classes, the greatest first, and how their resource use was determined."""

    rows: tuple[Row, ...]
    sort: str
    seconds: float
    """Seconds observed, without gaps; for a profile of sums, seconds since the oldest began."""
    cpu_source: Method | None
    cpu_total: float | None
    cpu_unattributed: float | None
    cpu_error: float | None
    """Mean relative error of an interval's CPU as predicted from other intervals."""
    disagreement: float | None
    compared_with: Method | None
    reasons: tuple[Reason, ...]
    saturated_periods: tuple[SaturatedPeriod, ...] = ()
    """Periods in which the host was saturated or waited for IO."""
    io: Mapping[str, Moved] = field(default_factory=dict)
    """The bytes `read` and `written`, where they are known."""
    recorded: tuple[float, float] | None = None
    """Start and end (Unix seconds) of a profile from the history."""
    time: TimeUse | None = None
    """The time split of the whole server."""
    of_sums: bool = False
    """True if no interval was observed, and the server's own sums were read once."""

    def digests(self, top: int) -> list[str]:
        """Return the digests among the first `top` rows that are of a single class."""
        return [row.digest for row in self.rows[:top] if row.digest not in SEVERAL]


SORTS: dict[str, Callable[[Row], float | None]] = {
    "cpu": lambda row: row.cpu,
    "time": lambda row: row.seconds,
    "count": lambda row: row.calls,
    "io": lambda row: row.io,
    "latency": lambda row: None if row.digest in SEVERAL else row.latency,
}


def profile_of(
    observed: ObservedClasses,
    sort: str,
    *,
    with_text: bool,
    savings: Mapping[Name, Saving] = NO_ROWS,
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
        cpu_error=cpu.held_out.mape if cpu else None,
        disagreement=cpu.disagreement if cpu else None,
        compared_with=cpu.compared_with if cpu else None,
        reasons=cpu.reasons if cpu else (),
        saturated_periods=observed.saturated_periods,
        time=observed.time,
        io={
            name: Moved(found.total, found.unattributed, found.held_out, found.reasons)
            for name, found in observed.disk.items()
        },
    )
    return ranked(profile, savings)


def ranked(profile: Profile, savings: Mapping[Name, Saving]) -> Profile:
    """Return the profile sorted, with each class's share and its capacity gains."""
    rows = [row for row in profile.rows if row.calls or row.seconds > 0]
    sort = profile.sort if any(SORTS[profile.sort](row) for row in rows) else "time"
    value = SORTS[sort]
    total = 0.0 if sort == "latency" else sum(value(row) or 0.0 for row in rows)
    rows.sort(key=lambda row: (-(value(row) or 0.0), row.digest))
    with_shares = (_with_share(row, value(row), total) for row in rows)
    return replace(profile, sort=sort, rows=tuple(_with_gains(row, savings) for row in with_shares))


def with_texts(profile: Profile, texts: Mapping[str, str]) -> Profile:
    """Return the profile with the statements' texts, given by digest."""
    rows = (replace(row, text=texts.get(row.digest)) for row in profile.rows)
    return replace(profile, rows=tuple(rows))


def _rows(observed: ObservedClasses, *, with_text: bool) -> list[Row]:
    intervals = observed.intervals
    statement_time = intervals.statement_time.sum(axis=0)
    if intervals.inflight_delta is not None:
        statement_time = np.maximum(statement_time + intervals.inflight_delta.sum(axis=0), 0.0)
    count = (
        intervals.count.sum(axis=0)
        if intervals.count is not None
        else np.zeros(len(statement_time))
    )
    completed_time = intervals.statement_time.sum(axis=0)
    sizes = {name: table.sum(axis=0) for name, table in intervals.sizes}
    rows = []
    for k, key in enumerate(intervals.names):
        name = name_of(key)
        cpu, stderr, waits = _cpu_use(observed.cpu, k)
        rows.append(
            Row(
                schema=name.schema,
                digest=name.digest,
                calls=float(count[k]),
                seconds=float(statement_time[k]),
                cpu=cpu,
                cpu_stderr=stderr,
                io=_io_bytes(observed, k),
                latency=float(completed_time[k] / count[k]) if count[k] else None,
                rows_examined=float(sizes["rows_examined"][k])
                if "rows_examined" in sizes
                else None,
                rows_sent=float(sizes["rows_sent"][k]) if "rows_sent" in sizes else None,
                waits=waits,
                text=observed.registry.text(key) if with_text else None,
                time=observed.class_times[k] if observed.class_times else None,
            )
        )
    return rows


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


def _with_share(row: Row, value: float | None, total: float) -> Row:
    return row if value is None or total <= 0 else replace(row, share=value / total)


def _with_gains(row: Row, savings: Mapping[Name, Saving]) -> Row:
    saving = savings.get(Name(row.schema, row.digest))
    if saving is None:
        return row
    return replace(row, removed_gain=saving.removed, halved_gain=saving.halved)
