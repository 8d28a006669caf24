"""One server of a Prometheus as a recording to replay."""

import math

from msgspec import structs

from agent.config.timestamps import time_text
from agent.prometheus.client import Client, MissingSeriesError
from agent.prometheus.fleet_targets import (
    FleetQuery,
    FleetTarget,
    find_targets,
    missing_hosts,
    names_text,
)
from agent.prometheus.host_used_by_others import USED_BY_OTHERS, is_mostly_used_by_others
from agent.prometheus.server_recordings import (
    measure_samplings,
    readings,
    require_status_series,
    widest_sampling,
)
from agent.replay.recording_opener import RecordingSource, ReplayOptions, SourceError, interval_for
from agent.replay.recording_player import SampleRecording
from agent.window.interval_buffer import IntervalBuffer


def prometheus_source(
    client: Client, query: FleetQuery, options: ReplayOptions, how: str
) -> RecordingSource:
    """Return the query's only server, or that of `options.target`; raises as `Client` does.

    `how` is the option that chooses a server.

    Raises `MissingSeriesError` if there is none, `SourceError` if there is more than one, or no
    sample in that time.
    """
    target = choose_target(find_targets(client, query), options.target, how)
    require_status_series(client, target, query)
    sampling = options.sampling or widest_sampling(
        measure_samplings(client, target, query), options.interval
    )
    width = interval_for(sampling, options.interval, target.name)
    settings = structs.replace(options.settings, interval=width)
    buffer = IntervalBuffer(width, settings.window, sampling)
    recording = SampleRecording(readings(client, target, query, sampling), buffer)
    if math.isnan(recording.start):
        period = f"from {time_text(query.start)} to {time_text(query.end)}"
        raise SourceError(f"{target.name}: no samples {period}; choose another period")
    title = f"{target.name}: samples {sampling:g} s apart"

    def notes() -> list[str]:
        is_beside_others = is_mostly_used_by_others(buffer.window(-math.inf))
        beside_others = [f"{target.name}: {USED_BY_OTHERS}"] if is_beside_others else []
        return [*missing_hosts([target], query), *beside_others]

    return RecordingSource(target.name, title, recording, settings, notes)


def choose_target(found: list[FleetTarget], name: str | None, how: str) -> FleetTarget:
    """Return the server of that name, or the only one.

    Raises `SourceError`, with how to choose, or `MissingSeriesError` if there is none at all.
    """
    names = [target.name for target in found]
    shown = names_text(names)
    if not found:
        problem = "Prometheus has no such server in that time"
        raise MissingSeriesError(f"{problem}; check --selector and --by")
    if name is None and len(found) > 1:
        raise SourceError(f"several servers: {shown}; choose one with {how}")
    for target in found:
        if name in (None, target.name):
            return target
    raise SourceError(f"no server {name!r}; the servers are {shown}")
