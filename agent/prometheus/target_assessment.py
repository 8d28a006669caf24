"""The assessment of one target from a Prometheus, in bounded memory."""

import math
from dataclasses import replace
from typing import NamedTuple

from msgspec import structs

from agent.assessment.forecaster import forecast_saturation
from agent.assessment.hourly_load import HourlyLoad
from agent.assessment.recent_load import RecentLoad
from agent.assessment.snapshot import AssessmentState, Health, Snapshot
from agent.config.settings import FitSettings
from agent.pipeline import assess
from agent.prometheus.client import Client
from agent.prometheus.fleet_targets import FleetQuery, FleetTarget
from agent.prometheus.host_used_by_others import is_mostly_used_by_others
from agent.prometheus.server_recordings import (
    measure_samplings,
    readings,
    require_status_series,
    widest_sampling,
)
from agent.replay.bulk_intervals import add_readings
from agent.replay.recording_opener import interval_for
from agent.support.clock_pair import ClockPair
from agent.window.interval_buffer import IntervalBuffer
from agent.window.resource_utilisation import CPU


class Analysis(NamedTuple):
    """A target's assessment, and whether what fills its host's processors may not be the server."""

    snapshot: Snapshot
    is_beside_others: bool


def analyse(
    client: Client,
    target: FleetTarget,
    query: FleetQuery,
    settings: FitSettings,
    requested: float | None,
) -> Analysis:
    """Assess a target at the end of the query; `requested` is the intervals' width (s), if given.

    Raises `PrometheusError` or `MissingSeriesError`, or `SourceError` if the samples are too far
    apart.
    """
    sampling = widest_sampling(measure_samplings(client, target, query), requested)
    width = interval_for(sampling, requested, target.name)
    settings = structs.replace(settings, interval=width)
    buffer = IntervalBuffer(width, settings.window, sampling)
    load, recent = HourlyLoad(), RecentLoad(-math.inf)
    last = add_readings(buffer, readings(client, target, query, sampling), load, recent)
    if last is None:
        require_status_series(client, target, query)
    now = ClockPair(query.end, query.end)
    is_heard = last is not None and query.end - last <= buffer.max_gap
    window = buffer.window(query.end)
    health = Health(up=is_heard or None)
    known = assess(target.name, window, health, AssessmentState(), settings, now)
    forecast = forecast_saturation(load, known.capacity(now.unix), now.unix)
    snapshot = replace(known, forecast=forecast, outlook=recent.outlook(now))
    capacity = known.capacity(now.unix)
    return Analysis(
        snapshot,
        capacity is not None and capacity.limit == CPU and is_mostly_used_by_others(window),
    )
