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
    """Time that its statements took, those that still run included."""
    cpu: float | None
    cpu_stderr: float | None
    io: float | None
    """Bytes read and written, if they can be divided; estimated."""
    latency: float | None
    """Mean seconds of a statement."""
    rows_examined: float | None
    rows_sent: float | None
    waits: bool
    text: str | None
    share: float | None = None
    """Of all classes, by what the rows are sorted by."""
    removed_gain: float | None = None
    """How much more of all other queries fits without it, as a part of what fits now."""
    halved_gain: float | None = None
    """The same with it at half its cost."""
    time: TimeSplit | None = None
    """Where the time of its statements went."""

    @property
    def limited_by(self) -> LimitedBy | None:
        """The part that takes most of its time."""
        return LimitedBy.of(self.time) if self.time else None


@dataclass(frozen=True)
class Moved:
    """Bytes that were read or written, and how well they are divided."""

    total: float
    unattributed: float
    held_out: PredictionError
    reasons: tuple[Reason, ...]


NOT_JUDGED = PredictionError(None, None, None)


@dataclass(frozen=True)
class Profile:
    """Classes, the greatest first, and how their use was obtained."""

    rows: tuple[Row, ...]
    sort: str
    seconds: float
    """For how long the server was watched, all gaps left out; of sums, since the oldest began."""
    cpu_source: Method | None
    cpu_total: float | None
    cpu_unattributed: float | None
    cpu_error: float | None
    """Mean error of the CPU of an interval as predicted from other intervals, as a part of it."""
    disagreement: float | None
    compared_with: Method | None
    reasons: tuple[Reason, ...]
    saturated_periods: tuple[SaturatedPeriod, ...] = ()
    """Periods in which the host was saturated or waited for IO."""
    io: Mapping[str, Moved] = field(default_factory=dict)
    """Of the bytes `read` and `written`, those that are known."""
    recorded: tuple[float, float] | None = None
    """From when to when (Unix seconds), where it comes from the history."""
    time: TimeUse | None = None
    """Where the statement time of the whole server went."""
    of_sums: bool = False
    """Nothing was watched: the server's own sums were read once."""

    def digests(self, top: int) -> list[str]:
        """Those of the first classes that are one statement each."""
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
    """Rank the classes; by time where the requested order is not known."""
    cpu = observed.cpu
    known_whole = cpu is not None and not observed.cpu_is_sum
    profile = Profile(
        rows=tuple(_rows(observed, with_text=with_text)),
        sort=sort,
        seconds=observed.seconds,
        cpu_source=cpu.method if cpu else None,
        cpu_total=cpu.total if cpu else None,
        cpu_unattributed=cpu.unattributed if cpu and known_whole else None,
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
    """The same, the greatest first, with each class's share and what it costs in capacity."""
    rows = [row for row in profile.rows if row.calls or row.seconds > 0]
    sort = profile.sort if any(SORTS[profile.sort](row) for row in rows) else "time"
    value = SORTS[sort]
    whole = 0.0 if sort == "latency" else sum(value(row) or 0.0 for row in rows)
    rows.sort(key=lambda row: (-(value(row) or 0.0), row.digest))
    found = (_shared(row, value(row), whole) for row in rows)
    return replace(profile, sort=sort, rows=tuple(_costed(row, savings) for row in found))


def with_texts(profile: Profile, texts: Mapping[str, str]) -> Profile:
    """The same with the statements' texts, by digest."""
    rows = (replace(row, text=texts.get(row.digest)) for row in profile.rows)
    return replace(profile, rows=tuple(rows))


def _rows(observed: ObservedClasses, *, with_text: bool) -> list[Row]:
    intervals = observed.intervals
    spent = intervals.statement_time.sum(axis=0)
    if intervals.inflight_delta is not None:
        spent = np.maximum(spent + intervals.inflight_delta.sum(axis=0), 0.0)
    count = intervals.count.sum(axis=0) if intervals.count is not None else np.zeros(len(spent))
    ended = intervals.statement_time.sum(axis=0)
    sizes = {name: table.sum(axis=0) for name, table in intervals.sizes}
    rows = []
    for k, key in enumerate(intervals.names):
        name = name_of(key)
        cpu, stderr, waits = _use(observed.cpu, k)
        rows.append(
            Row(
                schema=name.schema,
                digest=name.digest,
                calls=float(count[k]),
                seconds=float(spent[k]),
                cpu=cpu,
                cpu_stderr=stderr,
                io=_moved(observed, k),
                latency=float(ended[k] / count[k]) if count[k] else None,
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


def _use(found: Attribution | None, k: int) -> tuple[float | None, float | None, bool]:
    if found is None:
        return None, None, False
    use = found.classes[k]
    return use.total, use.stderr, use.waits


def _moved(observed: ObservedClasses, k: int) -> float | None:
    """Bytes of the resources that are predicted well enough to be divided."""
    believed = [found for found in observed.disk.values() if is_predicted_well(found.held_out)]
    return sum(found.classes[k].total for found in believed) if believed else None


def _shared(row: Row, value: float | None, whole: float) -> Row:
    return row if value is None or whole <= 0 else replace(row, share=value / whole)


def _costed(row: Row, savings: Mapping[Name, Saving]) -> Row:
    saving = savings.get(Name(row.schema, row.digest))
    if saving is None:
        return row
    return replace(row, removed_gain=saving.removed, halved_gain=saving.halved)
