"""How many clients' statements ran at once: two sources, and which of them to use."""

from enum import StrEnum

import numpy as np

from agent.window.intervals import Window
from agent.window.resource_utilisation import SERVER_CPU, SERVER_CPUS
from agent.window.time_split_inputs import CLIENT_RUN_DELAY
from models.numerics import quantile
from models.rates import Array


class Source(StrEnum):
    """Where a concurrency comes from, the better first."""

    STATEMENT_TIME = "statement_time"  # Little's law
    THREADS_RUNNING = "threads_running"


LATELY = 20  # intervals' lengths: how far back a source must be known to be used
ENOUGH = 0.5  # the share of them in which it must be
IDLE = 0.02  # of the throughput seen: what is below is idle
IDLE_INTERVALS = 5  # intervals needed to count the threads that never rest
LOW = 0.1  # the quantile of the concurrencies under load that counts as their floor
NEVER_RESTS = 0.9  # share of the samples in which such a thread runs


def concurrency(window: Window, source: Source) -> Array:
    """Concurrency of the clients by one source, threads, shape (k,); NaN where not known.

    Statement time begins when the server has read a statement. A thread that is woken for one and
    waits for a processor is not in it, and before a full processor most of them are: where the
    kernel reports that wait, at least as many run as wait, and as have a processor.
    """
    counted = statements_at_work(window, source)
    if source is not Source.STATEMENT_TIME:
        return counted
    on_cpu = window.used(SERVER_CPU) * window.used(SERVER_CPUS)
    runnable = window.used(CLIENT_RUN_DELAY) + np.minimum(on_cpu, counted)
    return np.where(np.isfinite(counted), np.fmax(counted, runnable), np.nan)


def statements_at_work(window: Window, source: Source) -> Array:
    """Statements at work by one source, shape (k,), threads; without those that wait to begin."""
    if source is Source.STATEMENT_TIME:
        return window["statement_time"]
    return np.maximum(window.client_threads - idle_baseline(window), 0.0)


def n_variance(window: Window, source: Source) -> Array:
    """How uncertain each concurrency is, threads², shape (k,).

    The average of k instants of Threads_running varies by about N/k; statement time is exact.
    """
    if source is Source.STATEMENT_TIME:
        return np.zeros(len(window))
    return concurrency(window, source) / np.maximum(window["thread_samples"], 1.0)


def best_source(window: Window) -> Source:
    """Little's law where recent statement time is known, else Threads_running."""
    end = window["end"]
    late = end > end[-1] - LATELY * window["seconds"][-1]
    known = np.average(
        np.isfinite(window["statement_time"][late]), weights=window["stands_for"][late]
    )
    return Source.STATEMENT_TIME if known >= ENOUGH else Source.THREADS_RUNNING


def idle_baseline(window: Window) -> float:
    """How many threads run without end and are no client's work: whole threads, measured.

    A thread that never rests is one in every sample: when next to nothing is asked there are no
    others, and otherwise there are no fewer. Many threads and no throughput are a stall instead.
    """
    x, n = window["throughput"], window.client_threads
    known = np.isfinite(n)
    idle = known & (x <= IDLE * quantile(x, 0.95)) if len(window) else known
    busy = n[known & ~idle]
    if np.count_nonzero(idle) < IDLE_INTERVALS:
        return 0.0
    least = float(n[idle].min())
    is_stall = len(busy) > 0 and least > quantile(busy, LOW)
    return 0.0 if is_stall else float(np.floor(least + 1 - NEVER_RESTS))
