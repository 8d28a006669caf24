"""The story in order: window → points → fit → snapshot. Time comes in as an argument."""

from dataclasses import dataclass

import numpy as np

from agent.config.settings import FitSettings
from agent.intervals import EXCLUDED, Window
from agent.snapshot import FitState, Health, Load, Snapshot, Source
from models.rates import Array
from models.usl_fit import fit_map

MIN_POINTS = 3
LATELY = 20  # intervals, the latest ones
ENOUGH = 0.5  # the share of them in which a source must be known to be preferred


@dataclass(frozen=True, slots=True)
class Now:
    """One instant on both clocks, in seconds."""

    monotonic: float
    unix: float

    def to_unix(self, monotonic: float) -> float:
        """The Unix time of a moment on the monotonic clock."""
        return self.unix - (self.monotonic - monotonic)


def assess(
    target: str,
    window: Window,
    health: Health,
    previous: FitState,
    settings: FitSettings,
    now: Now,
) -> Snapshot:
    """All that is known about a target now; fits anew when the window has grown."""
    return Snapshot(
        target=target,
        at=now.unix,
        stale_after=settings.stale_after,
        health=health,
        load=latest_load(window, now),
        usl=fit_usl(window, previous, settings, now),
    )


def latest_load(window: Window, now: Now) -> Load | None:
    """The latest complete interval, if there is one."""
    if len(window) == 0:
        return None
    known = {source: float(concurrency(window, source)[-1]) for source in Source}
    excluded = {kind: float(window[f"excluded_{kind}"][-1]) for kind in EXCLUDED}
    return Load(
        end=now.to_unix(float(window["end"][-1])),
        throughput=float(window["throughput"][-1]),
        concurrency={source: n for source, n in known.items() if np.isfinite(n)},
        excluded={kind: n for kind, n in excluded.items() if np.isfinite(n)},
    )


def fit_usl(window: Window, previous: FitState, settings: FitSettings, now: Now) -> FitState:
    """Fit the law to the window's loaded intervals, or say what is still missing."""
    if len(window) == 0:
        return FitState(waiting="no complete interval yet")
    end = now.to_unix(float(window["end"][-1]))
    if previous.at is not None and abs(previous.at - end) < settings.interval / 2:
        return previous
    source = best_source(window)
    n, x = concurrency(window, source), window["throughput"]
    loaded = np.isfinite(n) & (n >= settings.min_concurrency) & (x > 0)
    count = int(np.count_nonzero(loaded))
    if count < MIN_POINTS:
        return FitState(source=source, waiting=_waiting(count, len(window), settings))
    fit = fit_map(n[loaded], x[loaded], n_variance=n_variance(window, source)[loaded])
    return FitState(end, fit, source, n[loaded], x[loaded])


def concurrency(window: Window, source: Source) -> Array:
    """Concurrency of the clients by one source, threads, shape (k,); NaN where not known."""
    if source is Source.STATEMENT_TIME:
        return window["statement_time"]
    return window.client_threads


def best_source(window: Window) -> Source:
    """Little's law where statement time is known of late, else Threads_running."""
    known = np.mean(np.isfinite(window["statement_time"][-LATELY:]))
    return Source.STATEMENT_TIME if known >= ENOUGH else Source.THREADS_RUNNING


def n_variance(window: Window, source: Source) -> Array:
    """How uncertain each concurrency is, threads², shape (k,).

    The average of k instants of Threads_running varies by about N/k; statement time is exact.
    """
    if source is Source.STATEMENT_TIME:
        return np.zeros(len(window))
    return window.client_threads / np.maximum(window["thread_samples"], 1.0)


def _waiting(count: int, seen: int, settings: FitSettings) -> str:
    return (
        f"{count} of {seen} intervals had a concurrency of {settings.min_concurrency:g} or more;"
        f" a fit needs {MIN_POINTS}"
    )
