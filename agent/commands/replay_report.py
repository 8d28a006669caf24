"""A replay as a table and as lines of JSON, one for each step."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from agent.assessment.snapshot import Snapshot
from agent.commands.text_table import aligned
from agent.config.durations import duration_text, format_duration
from agent.config.timestamps import time_text
from agent.export.business_metric_sentences import business_metric_sentences
from agent.export.capacity_sentences import (
    doubt_sentences,
    headline,
    resource_display_name,
    why_no_prediction,
)
from agent.export.forecast_sentences import forecast_text
from agent.export.number_formats import (
    DASH,
    format_bounds,
    format_number,
    format_seconds,
    whole_percent,
)
from agent.export.sla_sentences import sla_sentences
from agent.export.snapshot_json import target_object, without_non_finite
from agent.replay.alert_rules import Episode
from agent.replay.recording_opener import RecordingSource
from agent.replay.replay import Step
from agent.support.safe_output import json_text, printable
from models.forecast.time_to_saturation import ForecastReason

HEADER = (
    "time",
    "queries/s",
    "concurrency",
    "capacity",
    "90 % interval",
    "headroom",
    "limit",
    "trust",
)
WIDTHS = (20, 10, 11, 10, 19, 8, 22, 16)
SLA_HEADER = ("residence", "SLA reached at", "SLA headroom")
SLA_WIDTHS = (9, 24, 12)
"""The last columns, which only a replay with an SLA has."""
RIGHT = range(1, 6)
"""The columns of numbers."""


def as_json(source: RecordingSource, steps: Iterable[Step]) -> Iterator[str]:
    """Yield for each step its time, the target as in /api/v1/snapshot, and the new alerts."""
    del source
    for step in steps:
        now = step.snapshot.at
        alerts = [asdict(episode) for episode in step.alerts]
        target = target_object(step.snapshot, now)
        yield json_text(without_non_finite({"at": now, **target, "alerts": alerts}))


def as_table(source: RecordingSource, steps: Iterable[Step]) -> Iterator[str]:
    """Yield a row for each step, the alerts between them, and at the end a summary in words."""
    settings = source.settings
    interval, window = duration_text(settings.interval), duration_text(settings.window)
    yield printable(f"{source.title}, intervals of {interval}, a window of {window}")
    log = _AlertLog()
    last: Snapshot | None = None
    for step in steps:
        if last is None:
            yield _row((*HEADER, *SLA_HEADER) if step.snapshot.sla else HEADER)
        last = step.snapshot
        yield from log.lines(step.alerts)
        yield _row((*_cells(last), *_sla_cells(last)))
    yield ""
    yield from log.summary()
    if last is not None:
        yield from map(printable, _as_text(last))


def _row(cells: Sequence[str]) -> str:
    return printable(aligned(cells, (*WIDTHS, *SLA_WIDTHS)[: len(cells)], RIGHT))


def _cells(snapshot: Snapshot) -> tuple[str, ...]:
    """Write load, capacity and headroom at that time; a dash for an unknown value."""
    now = snapshot.at
    load, capacity, headroom = (
        snapshot.current_load(now),
        snapshot.capacity(now),
        snapshot.headroom(now),
    )
    point = snapshot.operating_point(now)
    concurrency = format_number(point[0]) if point else DASH
    throughput = format_number(load.throughput) if load else DASH
    if capacity is None:
        return (time_text(now), throughput, concurrency, DASH, DASH, DASH, DASH, DASH)
    interval = format_bounds(capacity.lower, capacity.upper)
    return (
        time_text(now),
        throughput,
        concurrency,
        format_number(capacity.value),
        interval,
        whole_percent(headroom.ratio) if headroom else DASH,
        resource_display_name(capacity.limit) if capacity.limit else DASH,
        capacity.trust.value.replace("_", " "),
    )


def _sla_cells(snapshot: Snapshot) -> tuple[str, ...]:
    """Write R, the throughput that reaches the SLA or why none is named, and what is left."""
    known = snapshot.sla
    if known is None:
        return ()
    found, r = known.headroom, known.residence_time
    at = found.reason.value if found.reason else DASH
    if found.throughput is not None:
        throughput = found.throughput
        bounds = format_bounds(throughput.lower, throughput.upper)
        at = f"{format_number(throughput.value)} ({bounds})"
    left = whole_percent(found.ratio.value) if found.ratio else DASH
    return (DASH if r is None else format_seconds(r), at, left)


def _as_text(snapshot: Snapshot) -> list[str]:
    """Return the state at the end in words."""
    now = snapshot.at
    capacity = snapshot.capacity(now)
    also = [sla_sentences(snapshot.sla)] if snapshot.sla else []
    known = snapshot.current_forecast(now)
    if known and known.saturation.reason is not ForecastReason.HISTORY_TOO_SHORT:
        also.append(forecast_text(known.saturation))
    also += [business_metric_sentences(one) for one in snapshot.current_business(now)]
    if capacity is None:
        return [f"At the end: {why_no_prediction(snapshot, now)}.", *also]
    summary = headline(capacity, snapshot.headroom(now))
    return [summary, *(f"  - {t}" for t in doubt_sentences(capacity)), *also]


class _AlertLog:
    """Reports each alert once when it fires, and once when it ends."""

    def __init__(self) -> None:
        self._fired: dict[tuple[str, float], Episode] = {}
        self._over: set[tuple[str, float]] = set()

    def lines(self, episodes: Iterable[Episode]) -> Iterator[str]:
        """Yield a line for each alert that has fired or ended, in the order of time."""
        found: list[tuple[float, str]] = []
        for episode in episodes:
            if episode.firing_at is None:
                continue
            name = (episode.alert, episode.pending_at)
            if name not in self._fired:
                text = f"{episode.alert} fires ({episode.severity})"
                found.append((episode.firing_at, text))
            self._fired[name] = episode
            if episode.resolved_at is not None and name not in self._over:
                self._over.add(name)
                found.append((episode.resolved_at, f"{episode.alert} is resolved"))
        for at, text in sorted(found):
            yield f"{time_text(at):<20}  * {text}"

    def summary(self) -> Iterator[str]:
        """Yield how often and how long each alert would have fired."""
        if not self._fired:
            yield "No alert on saturation would have fired."
        for alert in sorted({alert for alert, _ in self._fired}):
            episodes = [e for (name, _), e in self._fired.items() if name == alert]
            lengths = [
                e.resolved_at - e.firing_at
                for e in episodes
                if e.resolved_at is not None and e.firing_at is not None
            ]
            goes_on = ", and still fires" if len(lengths) < len(episodes) else ""
            length = f", for {format_duration(sum(lengths))} in all" if lengths else ""
            yield f"{alert} would have fired {_times(len(episodes))}{length}{goes_on}."


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
