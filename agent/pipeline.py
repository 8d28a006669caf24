"""Assess a target: window → observations → capacity → snapshot. The time is an argument."""

from dataclasses import replace

import numpy as np

from agent.assessment.assessed_points import Points
from agent.assessment.snapshot import STALE_INTERVALS, FitState, Health, Load, Snapshot
from agent.config.resources import ResourceSettings
from agent.config.settings import FitSettings
from agent.support.clock_pair import Now
from agent.window.concurrency import Source, best_source, concurrency, idle_baseline, n_variance
from agent.window.intervals import EXCLUDED, Window
from agent.window.recent_time_split import TimeUse, time_use
from agent.window.resource_utilisation import (
    CLOCK,
    COUNTS,
    CPU,
    OPEN_CONNECTIONS,
    PARTS,
    CpuSource,
    cpu_source,
    limiting,
    log_writes,
    with_ceilings,
)
from models.capacity.assess import assess_capacity
from models.capacity.client_connections import client_connections
from models.capacity.observations import Observations
from models.capacity.oversubscription_loss import ASSUMED_CONNECTIONS
from models.capacity.thinning import thin
from models.rates import Array

IDLE_BASELINE = "idle_baseline"
"""The kind of the excluded threads that have neither a client nor a name."""
NO_CEILINGS = ResourceSettings()
TIME_SPLIT_SECONDS = 300.0
"""Seconds of the window whose statement time is split over the resources."""


def assess(
    target: str,
    window: Window,
    health: Health,
    previous: FitState,
    settings: FitSettings,
    now: Now,
    ceilings: ResourceSettings = NO_CEILINGS,
    *,
    again: bool = True,
) -> Snapshot:
    """Return a snapshot of all that is known about a target now.

    The capacity is assessed `again`, or else remains that of `previous`.
    """
    return Snapshot(
        target=target,
        at=now.unix,
        stale_after=max(settings.stale_after, STALE_INTERVALS * settings.interval),
        health=health,
        load=latest_load(window, now, ceilings),
        fitted=fit(window, previous, settings, now, ceilings) if again else previous,
        time_use=recent_time_use(window, now, ceilings),
    )


def recent_time_use(
    window: Window, now: Now, ceilings: ResourceSettings = NO_CEILINGS
) -> TimeUse | None:
    """Split the statement time of the latest intervals; None without an interval."""
    if len(window) == 0:
        return None
    recent = window.select(window["end"] > window["end"][-1] - TIME_SPLIT_SECONDS)
    return time_use(recent, now.to_unix(float(window["end"][-1])), ceilings)


def latest_load(window: Window, now: Now, ceilings: ResourceSettings = NO_CEILINGS) -> Load | None:
    """Return the load of the latest complete interval, None without one."""
    if len(window) == 0:
        return None
    known = {source: float(concurrency(window, source)[-1]) for source in Source}
    excluded = {kind: float(window[f"excluded_{kind}"][-1]) for kind in EXCLUDED}
    excluded[IDLE_BASELINE] = idle_baseline(window)
    used = with_ceilings(window.utilisations, window.rates, ceilings)
    busy = {r.name: float(r.utilisation[-1] / r.ceiling) for r in used}
    busy |= {name: float(u[-1]) for name, u in window.utilisations.items() if name in PARTS}
    clock = float(window.utilisations.get(CLOCK, np.array([np.nan]))[-1])
    return Load(
        end=now.to_unix(float(window["end"][-1])),
        throughput=float(window["throughput"][-1]),
        concurrency={source: n for source, n in known.items() if np.isfinite(n)},
        excluded={kind: n for kind, n in excluded.items() if np.isfinite(n)},
        resources={name: u for name, u in busy.items() if np.isfinite(u)},
        clock=clock if np.isfinite(clock) else None,
        cpus=_processor_counts(window, ceilings),
        cpu_source=cpu_source(window.utilisations, window.rates, ceilings),
    )


def _processor_counts(window: Window, ceilings: ResourceSettings) -> dict[str, float]:
    """Return the latest number of processors behind each resource, where it is known."""
    if cpu_source(window.utilisations, window.rates, ceilings) is CpuSource.STATEMENTS:
        return {CPU: ceilings.vcpus or 0.0}
    known = {name: window.utilisations.get(key) for name, key in COUNTS.items()}
    return {
        name: float(count[-1])
        for name, count in known.items()
        if count is not None and np.isfinite(count[-1])
    }


def fit(
    window: Window,
    previous: FitState,
    settings: FitSettings,
    now: Now,
    ceilings: ResourceSettings = NO_CEILINGS,
) -> FitState:
    """Assess the capacity of the window, once per interval, or state what data is missing."""
    if len(window) == 0:
        return FitState(waiting="no complete interval yet", record=previous.record)
    end = now.to_unix(float(window["end"][-1]))
    if previous.at is not None and abs(previous.at - end) < settings.interval / 2:
        return previous
    source = best_source(window)
    observed = observations(window, source, ceilings)
    if len(observed) == 0:
        waiting = f"none of {len(window)} intervals had a query"
        return FitState(end, source=source, record=previous.record, waiting=waiting)
    capacity = assess_capacity(observed)
    points = Points.of(observed, capacity, now.to_unix)
    record = previous.record.after(observed, capacity, now.to_unix)
    return FitState(end, capacity, source, points, record)


def observations(
    window: Window, source: Source, ceilings: ResourceSettings = NO_CEILINGS
) -> Observations:
    """Return the window's intervals with a load, thinned, and all resources of known ceiling."""
    end, x = window["end"], window["throughput"]
    n = concurrency(window, source)
    resources = limiting(
        with_ceilings(window.utilisations, window.rates, ceilings), window.utilisations
    )
    pool = client_connections(x, n, window.used(OPEN_CONNECTIONS))
    observed = Observations.of(
        end,
        x,
        n,
        n_variance=n_variance(window, source),
        connections=_connection_counts(window),
        resources=resources if pool is None else [*resources, pool],
        log_counted=log_writes(window.rates) is not None,
    )
    kept = thin(end, x, now=float(end[-1]) if len(end) else 0.0, counts=window["stands_for"])
    loaded = x[kept.indices] > 0
    thinned = replace(observed.select(kept.indices), weights=kept.weights)
    return thinned.select(loaded)


def _connection_counts(window: Window) -> Array:
    """Return the clients' open connections, shape (intervals,); an assumption if never counted."""
    open_connections = window.used(OPEN_CONNECTIONS)
    return (
        open_connections
        if np.isfinite(open_connections).any()
        else np.full(len(window), ASSUMED_CONNECTIONS)
    )
