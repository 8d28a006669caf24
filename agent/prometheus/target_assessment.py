"""The assessment of a fleet from a Prometheus: one target after the other, in bounded memory."""

import math
from dataclasses import replace

from msgspec import structs

from agent.assessment.forecaster import forecast_state
from agent.assessment.hour_ahead_load import RecentLoad
from agent.assessment.hourly_load import HourlyLoad
from agent.assessment.snapshot import FitState, Health, Snapshot
from agent.config.settings import FitSettings
from agent.pipeline import assess
from agent.prometheus.client import Client
from agent.prometheus.server_recordings import FleetQuery, FleetTarget, readings, sampling_of
from agent.replay.long_recording_intervals import fill
from agent.replay.recording_opener import interval_for
from agent.support.clock_pair import Now
from agent.window.interval_buffer import IntervalBuffer


def analyse(
    client: Client,
    target: FleetTarget,
    query: FleetQuery,
    settings: FitSettings,
    requested: float | None = None,
) -> Snapshot:
    """Assess a target at the end of the query; `requested` is the intervals' width (s), if given.

    Raises `PrometheusError`, or `SourceError` if the samples are too far apart.
    """
    sampling = sampling_of(client, target, query)
    width = interval_for(sampling, requested, target.instance)
    settings = structs.replace(settings, interval=width)
    history = IntervalBuffer(width, settings.window, sampling)
    load, recent = HourlyLoad(), RecentLoad(-math.inf)
    last = fill(history, readings(client, target, query, sampling), load, recent)
    now = Now(query.end, query.end)
    is_heard = last is not None and query.end - last <= history.max_gap
    window = history.window(query.end)
    health = Health(up=is_heard or None)
    known = assess(target.instance, window, health, FitState(), settings, now)
    forecast = forecast_state(load, known.capacity(now.unix), now.unix)
    return replace(known, forecast=forecast, outlook=recent.outlook(now))
