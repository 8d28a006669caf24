"""Assess a target: window → observations → capacity → snapshot. The time is an argument."""

import numpy as np

from agent.assessment.assessed_intervals import AssessedIntervals
from agent.assessment.snapshot import STALE_INTERVALS, AssessmentState, Health, Load, Snapshot
from agent.config.resources import ResourceSettings
from agent.config.settings import FitSettings
from agent.support.clock_pair import ClockPair
from agent.support.counted import counted
from agent.window.concurrency import (
    ConcurrencySource,
    best_source,
    concurrency,
    concurrency_variance,
    idle_baseline,
)
from agent.window.intervals import EXCLUDED, Window
from agent.window.present_limits import by_present_limits
from agent.window.recent_time_split import TimeUse, time_use
from agent.window.resource_utilisation import (
    CLOCK,
    CPU,
    CPU_PARTS,
    OPEN_CONNECTIONS,
    PROCESSOR_COUNTS,
    ROWS_READ,
    CpuSource,
    cpu_source,
    limiting_resources,
    log_writes,
    resources_with_ceilings,
)
from models.arrays import Array
from models.capacity.assess import assess_capacity
from models.capacity.client_connections import client_connections
from models.capacity.observations import Observations
from models.capacity.oversubscription_loss import ASSUMED_CONNECTIONS

IDLE_BASELINE = "idle_baseline"
"""The kind of the excluded threads that have neither a client nor a name."""
NO_CEILINGS = ResourceSettings()
TIME_SPLIT_SECONDS = 300.0
"""Seconds of the window whose statement time is split over the resources."""


def assess(
    target: str,
    window: Window,
    health: Health,
    previous: AssessmentState,
    settings: FitSettings,
    now: ClockPair,
    ceilings: ResourceSettings = NO_CEILINGS,
    *,
    is_due: bool = True,
) -> Snapshot:
    """Return a snapshot of all that is known about a target now.

    The capacity is assessed if that `is_due`, else it remains that of `previous`.
    """
    return Snapshot(
        target=target,
        at=now.unix,
        stale_after=max(settings.stale_after, STALE_INTERVALS * settings.interval),
        health=health,
        load=latest_load(window, now, ceilings),
        assessed=assess_window(window, previous, settings, now, ceilings) if is_due else previous,
        time_use=recent_time_use(window, now, ceilings),
    )


def recent_time_use(window: Window, now: ClockPair, ceilings: ResourceSettings) -> TimeUse | None:
    """Split the statement time of the latest intervals; None without an interval."""
    if len(window) == 0:
        return None
    recent = window.select(window["end"] > window["end"][-1] - TIME_SPLIT_SECONDS)
    return time_use(recent, now.to_unix(float(window["end"][-1])), ceilings)


def latest_load(
    window: Window, now: ClockPair, ceilings: ResourceSettings = NO_CEILINGS
) -> Load | None:
    """Return the load of the latest complete interval, None without one."""
    if len(window) == 0:
        return None
    known = {source: float(concurrency(window, source)[-1]) for source in ConcurrencySource}
    excluded = {kind: float(window[f"excluded_{kind}"][-1]) for kind in EXCLUDED}
    excluded[IDLE_BASELINE] = idle_baseline(window)
    utilisations, rates = window.utilisations, window.rates
    used = resources_with_ceilings(utilisations, rates, ceilings)
    source = cpu_source(utilisations, rates, ceilings)
    busy = {r.name: float(r.utilisation[-1] / r.ceiling) for r in used}
    busy |= {name: float(u[-1]) for name, u in utilisations.items() if name in CPU_PARTS}
    clock = float(window.utilisation_or_rate(CLOCK)[-1])
    return Load(
        end=now.to_unix(float(window["end"][-1])),
        throughput=float(window["throughput"][-1]),
        concurrency={source: n for source, n in known.items() if np.isfinite(n)},
        excluded={kind: n for kind, n in excluded.items() if np.isfinite(n)},
        resources={name: u for name, u in busy.items() if np.isfinite(u)},
        cpu_clock_rate=clock if np.isfinite(clock) else None,
        cpus=_processor_counts(window, source, ceilings),
        cpu_source=source,
    )


def _processor_counts(
    window: Window, source: CpuSource | None, ceilings: ResourceSettings
) -> dict[str, float]:
    """Return the latest number of processors behind each resource, where it is known."""
    if source is CpuSource.STATEMENTS:
        return {CPU: ceilings.vcpus or 0.0}
    latest = {
        name: float(window.utilisation_or_rate(count)[-1])
        for name, count in PROCESSOR_COUNTS.items()
    }
    return {name: count for name, count in latest.items() if np.isfinite(count)}


def assess_window(
    window: Window,
    previous: AssessmentState,
    settings: FitSettings,
    now: ClockPair,
    ceilings: ResourceSettings = NO_CEILINGS,
) -> AssessmentState:
    """Assess the capacity of the window; return `previous` if that is of the same latest interval.

    Where the window is not enough, `waiting` of the result tells what is missing.
    """
    if len(window) == 0:
        return AssessmentState(
            waiting="no complete interval yet", outlier_counts=previous.outlier_counts
        )
    end = now.to_unix(float(window["end"][-1]))
    if previous.at is not None and abs(previous.at - end) < settings.interval / 2:
        return previous
    source = best_source(window)
    observed = observations(window, source, ceilings)
    if len(observed) == 0:
        waiting = f"no query in {counted(len(window), 'interval')}"
        return AssessmentState(
            end, source=source, outlier_counts=previous.outlier_counts, waiting=waiting
        )
    capacity = assess_capacity(observed)
    intervals = AssessedIntervals.of(observed, capacity, now.to_unix)
    counts = previous.outlier_counts.with_assessment(observed, capacity, now.to_unix)
    return AssessmentState(end, capacity, source, intervals, counts)


def observations(
    window: Window, source: ConcurrencySource, ceilings: ResourceSettings = NO_CEILINGS
) -> Observations:
    """Return the window's intervals with a load, thinned, and all resources of known ceiling.

    They are assessed by the latest limits; concurrency on more or fewer processors is left out.
    """
    window, utilisations, has_as_many_processors = by_present_limits(window)
    rates = window.rates
    end, x = window["end"], window["throughput"]
    n = np.where(has_as_many_processors, concurrency(window, source), np.nan)
    resources = limiting_resources(
        resources_with_ceilings(utilisations, rates, ceilings), utilisations
    )
    pool = client_connections(x, n, window.utilisation_or_rate(OPEN_CONNECTIONS))
    observed = Observations.of(
        end,
        x,
        n,
        n_variance=concurrency_variance(window, source),
        connections=_connection_counts(window),
        resources=resources if pool is None else [*resources, pool],
        log_counted=log_writes(rates) is not None,
        rows_read=rates.get(ROWS_READ),
    )
    thinned = observed.thinned(window["stands_for"])
    return thinned.select(thinned.throughput > 0)


def _connection_counts(window: Window) -> Array:
    """Return the clients' open connections, shape (intervals,); an assumption if never counted."""
    open_connections = window.utilisation_or_rate(OPEN_CONNECTIONS)
    return (
        open_connections
        if np.isfinite(open_connections).any()
        else np.full(len(window), ASSUMED_CONNECTIONS)
    )
