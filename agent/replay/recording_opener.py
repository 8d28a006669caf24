"""Opening a recording: a CSV file of samples, or the history that an agent writes."""

import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from msgspec import structs

from agent.config.business_metrics import BusinessMetric
from agent.config.durations import duration_text, format_duration
from agent.config.resources import ResourceSettings
from agent.config.settings import FitSettings
from agent.config.timestamps import time_text
from agent.csv_input.table_file import STANDARD_INPUT
from agent.history.history_file import SQLITE_HEADER
from agent.history.open_database import open_to_read
from agent.history.row_access import (
    MAX_TIME,
    Extent,
    RowFilter,
    extents,
    numbers_of,
    samples_by_time,
    select_rows,
    target_names,
)
from agent.history.row_kinds import BUSINESS, INTERVALS, Row
from agent.history.row_mapping import interval_from_row
from agent.history.window_reader import MAX_WIDTH_DIFFERENCE
from agent.pipeline import NO_CEILINGS
from agent.replay.recorded_samples import Reading
from agent.replay.recording_player import (
    IntervalRecording,
    Recording,
    SampleRecording,
    measure_sampling,
)
from agent.replay.sample_csv_checks import LoneSamples
from agent.replay.sample_csv_reader import SampleFile
from agent.support.clock_pair import UNIX
from agent.support.counted import counted
from agent.support.errors import InputError
from agent.window.interval_buffer import IntervalBuffer
from agent.window.intervals import Interval
from collectors.base import Sample

INTERVAL_SECONDS = (15.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Seconds of an interval if none is requested: the first that holds two samples."""
DEFAULTS = FitSettings()


class SourceError(InputError):
    """The recording cannot be replayed as requested; the message is one line with the remedy."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Options of a replay, None where not requested; times in seconds."""

    target: str | None = None
    server: str | None = None
    sampling: float | None = None
    interval: float | None = None
    settings: FitSettings = DEFAULTS
    """The other settings."""
    ceilings: ResourceSettings = NO_CEILINGS
    sla_seconds: float | None = None
    """The configured target's SLA; None: it has none."""
    business_metrics: tuple[BusinessMetric, ...] = ()
    """Those of the configured target."""
    has_class_slas: bool = False
    """Whether the target has class SLAs, which need histograms that no recording has."""
    since: float = -math.inf
    """Data before it is not read, nor data after `until`; on the recording's clock."""
    until: float = math.inf

    @property
    def period_text(self) -> str:
        """The period in words."""
        if not math.isfinite(self.since):
            return "at any time"
        return f"from {time_text(self.since)} to {time_text(self.until)}"

    def includes(self, at: float) -> bool:
        """Return whether data of that time is to be read."""
        return self.since <= at <= self.until


@dataclass(frozen=True, slots=True)
class RecordingSource:
    """A recording, ready to be played once."""

    target: str
    title: str
    recording: Recording
    settings: FitSettings
    notes: Callable[[], list[str]]
    """Returns remarks on the recording, once it was played."""
    server: str | None = None
    """Of a history: the identity of the server, as a target may have had several."""
    business: Iterator[Row] = field(default_factory=lambda: iter(()))
    """Of a history: the values of business metrics, in the order of time."""
    unused_samples: Callable[[], str | None] = lambda: None
    """Returns the remark on samples that are in no interval, if any, once it was played."""

    def no_interval_error(self) -> SourceError:
        """Return why a recording that was played to its end has no complete interval."""
        if unused := self.unused_samples():
            return SourceError(f"{unused}, if t_s and uptime_s are in seconds, as they must be")
        lasted = self.recording.end - self.recording.buffer.grace - self.recording.start
        width = self.settings.interval
        problem = "t_s and uptime_s must be in seconds, and rows at most an interval apart"
        if lasted < 2 * width:
            lengths = f"it lasts {format_duration(lasted)}, and an interval is {width:g} s"
            problem = f"{lengths}; give a longer one, or a shorter --interval"
        return SourceError(f"{self.title}; no complete interval: {problem}")


@contextmanager
def open_recording(path: str, options: ReplayOptions) -> Iterator[RecordingSource]:
    """Open a recording of either kind, detected by its content.

    Raises `TableFileError`, `StoreError` or `SourceError` if it cannot be used.
    """
    if is_history(path):
        with closing(open_to_read(Path(path))) as connection:
            yield _history_source(connection, path, options)
    else:
        yield _csv_source(path, options)


def is_history(path: str) -> bool:
    """Return whether the file is a database; False if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return path != STANDARD_INPUT and file.read(len(SQLITE_HEADER)) == SQLITE_HEADER
    except (OSError, ValueError):
        return False


def interval_for(sampling: float, requested: float | None, name: str) -> float:
    """Return the width of intervals (s) for samples that far apart (s); raises `SourceError`."""
    min_width = 2 * sampling
    if requested is not None and requested < min_width:
        problem = f"--interval ({requested:g} s) is less than twice the time between two samples"
        raise SourceError(
            f"{name}: {problem} ({sampling:g} s); give --interval {duration_text(min_width)}"
        )
    fitting = next((width for width in INTERVAL_SECONDS if width >= min_width), None)
    if requested is None and fitting is None:
        problem = (
            f"its samples are {sampling:g} s apart, and an interval of {INTERVAL_SECONDS[-1]:g} s"
        )
        raise SourceError(f"{name}: {problem} must contain two; sample more often")
    return requested if requested is not None else fitting or INTERVAL_SECONDS[-1]


def _csv_source(path: str, options: ReplayOptions) -> RecordingSource:
    file = SampleFile(path)
    measured, readings = measure_sampling(r for r in file.readings() if options.includes(r.at))
    if measured is None and math.isfinite(options.since):
        problem = f"fewer than two samples {options.period_text}"
        raise SourceError(f"{file.name}: {problem}; choose another period")
    if measured is None:
        problem = "fewer than two rows have questions, threads_running and uptime_s"
        raise SourceError(f"{file.name}: {problem}; record a longer period")
    sampling = options.sampling or measured
    settings = _settings_with_width(options, interval_for(sampling, options.interval, file.name))
    buffer = IntervalBuffer(settings.interval, settings.window, sampling)
    lone = LoneSamples(file.name, sampling)
    target = options.target or Path(file.name).name.split(".")[0]
    title = f"{file.name}: samples {sampling:g} s apart"

    def notes() -> list[str]:
        found = []
        if file.unused_columns:
            found.append(f"{file.name}: ignored columns: {', '.join(file.unused_columns)}")
        if file.duplicates:
            found.append(f"{file.name}: {counted(file.duplicates, 'row')} with a duplicate time")
        if unused := file.unused_cpu_columns:
            found.append(f"{file.name}: {', '.join(unused)}: not used, as no row has cpus")
        return [*found, *filter(None, [lone.note()])]

    recording = SampleRecording(lone.watched(readings), buffer)
    return RecordingSource(target, title, recording, settings, notes, unused_samples=lone.note)


def _history_source(
    connection: sqlite3.Connection, path: str, options: ReplayOptions
) -> RecordingSource:
    extent, others = _choose_server(connection, path, options)
    choice = _choice_of_rows(extent, options)
    is_all = math.isinf(options.until)
    search = replace(choice, since=extent.last) if is_all else choice
    reference = next(select_rows(connection, INTERVALS, search), None)
    if reference is None:
        also = f" ({'; '.join(others)})" if others else ""
        problem = f"no intervals of {extent.target} {options.period_text}{also}"
        raise SourceError(f"{path}: {problem}; `history show` lists what is available")
    width = options.interval or interval_from_row(reference, 1.0, UNIX).seconds
    settings = _settings_with_width(options, width)
    found = (
        interval_from_row(row, 1.0, UNIX) for row in select_rows(connection, INTERVALS, choice)
    )
    unused = Counter[float]()
    same = _of_width(width, found, unused)
    recording: Recording = IntervalRecording(same, IntervalBuffer(width, settings.window, width))
    title = f"{path}: {extent.target} on {extent.server}"
    if math.isnan(recording.start):
        which = "latest" if is_all else "first"
        mismatch = f"no intervals of {width:g} s; the {which} are of {reference.cells[0]:g} s"
        recording = _history_samples(connection, choice, settings, f"{path}: {mismatch}")
        title += ", from its samples"
        unused.clear()
    business = select_rows(connection, BUSINESS, choice)

    def notes() -> list[str]:
        return [*others, *(f"{path}: {note}" for note in _unused_widths(unused, width))]

    return RecordingSource(
        extent.target, title, recording, settings, notes, extent.server, business
    )


def _of_width(
    width: float, found: Iterable[Interval], unused: Counter[float]
) -> Iterator[Interval]:
    """Yield the intervals of that width (s); count the others, by their width."""
    for one in found:
        if math.isclose(one.seconds, width, rel_tol=MAX_WIDTH_DIFFERENCE):
            yield one
        else:
            unused[round(one.seconds, 3)] += 1


def _unused_widths(unused: Counter[float], width: float) -> Iterator[str]:
    """Yield a remark on the intervals of each other width (s): the configuration was changed."""
    for other, count in sorted(unused.items()):
        found = f"{counted(count, 'interval')} of {duration_text(other)}"
        text = f"{found} {'is' if count == 1 else 'are'} not used, only those of"
        yield f"{text} {duration_text(width)}; --interval {duration_text(other)} uses them instead"


def _history_samples(
    connection: sqlite3.Connection, choice: RowFilter, settings: FitSettings, mismatch: str
) -> SampleRecording:
    """Return a recording of the history's samples, for intervals of another width than written."""
    rows = groupby(samples_by_time(connection, choice), key=lambda row: row.at)
    sampling, readings = measure_sampling(_reading(at, together) for at, together in rows)
    if sampling is None:
        raise SourceError(f"{mismatch}, and there are no samples to compute others from")
    interval_for(sampling, settings.interval, f"{mismatch}; of its samples")
    return SampleRecording(readings, IntervalBuffer(settings.interval, settings.window, sampling))


def _reading(at: int, rows: Iterable[Row]) -> Reading:
    """Return what was read at one time, ms since 1970."""
    seconds = at / 1000
    return Reading(
        seconds, tuple(Sample(row.labels[-1], seconds, numbers_of(row.cells[0])) for row in rows)
    )


def _choice_of_rows(extent: Extent, options: ReplayOptions) -> RowFilter:
    """Return the choice of that server's rows in the requested period."""
    since = 0 if math.isinf(options.since) else max(0, math.ceil(1000 * options.since))
    until = MAX_TIME if math.isinf(options.until) else math.floor(1000 * options.until)
    return RowFilter(extent.target, extent.server, since, until)


def _choose_server(
    connection: sqlite3.Connection, path: str, options: ReplayOptions
) -> tuple[Extent, list[str]]:
    """Choose the requested server of a target, or the latest of the only target.

    Returns it, and remarks on the others.
    """
    target_extents = list(extents(connection, INTERVALS, RowFilter(target=options.target)))
    targets = sorted({extent.target for extent in target_extents})
    if len(targets) > 1:
        raise SourceError(f"{path}: there are {', '.join(targets)}; choose one with --target NAME")
    if not target_extents:
        raise SourceError(
            f"{path}: {_no_intervals_message(target_names(connection), options.target)}"
        )
    name = targets[0]
    servers = [extent.server for extent in target_extents]
    if options.server is not None and options.server not in servers:
        raise SourceError(
            f"{path}: {name} has no server {options.server!r}; it has {', '.join(servers)}"
        )
    server_extents = [e for e in target_extents if options.server in (None, e.server)]
    chosen = max(server_extents, key=lambda extent: extent.last)
    others = [
        f"{path}: {name} also has data of server {e.server} (--server)"
        for e in target_extents
        if e != chosen
    ]
    return chosen, others if options.server is None else []


def _no_intervals_message(known: list[str], name: str | None) -> str:
    """Return why there are no intervals, and the remedy."""
    if name is not None and known and name not in known:
        return f"no target {name!r}; the history has {', '.join(known)}"
    return "no intervals yet; let the agent run for a minute"


def _settings_with_width(options: ReplayOptions, width: float) -> FitSettings:
    return structs.replace(options.settings, interval=width)
