"""The concurrency of clients' statements: two sources, and which of them to use."""

from enum import StrEnum

import numpy as np

from agent.window.intervals import Window
from agent.window.resource_utilisation import SERVER_CPU, SERVER_CPUS
from agent.window.time_split_inputs import APPLIERS_CPU, CLIENT_RUN_DELAY
from models.arrays import Array
from models.numerics import quantile


class ConcurrencySource(StrEnum):
    """Sources of the concurrency, the better first."""

    STATEMENT_TIME = "statement_time"  # Little's law
    THREADS_RUNNING = "threads_running"


RECENT_INTERVALS = 20  # lengths of an interval: how far back a source must be known to be used
MIN_KNOWN_SHARE = 0.5  # share of the recent intervals in which it must be known
IDLE_SHARE = 0.02  # share of the throughput's 95 % quantile up to which an interval is idle
IDLE_INTERVALS = 5  # idle intervals needed to count the threads that always run
FLOOR_QUANTILE = 0.1  # the quantile of the concurrencies under load that counts as their floor
ALWAYS_RUNNING_SHARE = 0.9  # share of the samples in which such a thread runs


def concurrency(window: Window, source: ConcurrencySource) -> Array:
    """Compute the clients' concurrency by one source, threads, shape (k,); NaN where not known.

    Neither source has the threads that were woken for a statement and wait for a processor before
    the server has read it, as most do when the processors are full. Where the kernel reports that
    wait, the concurrency by statement time is at least the number of clients' threads that wait for
    a processor or have one. Samples of Threads_running miss so many statements at full load that
    those that wait count in addition.
    """
    counted = running_statements(window, source)
    delayed = window.utilisation_or_rate(CLIENT_RUN_DELAY)
    if source is ConcurrencySource.THREADS_RUNNING:
        return counted + np.nan_to_num(delayed)
    on_cpu = window.utilisation_or_rate(SERVER_CPU) * window.utilisation_or_rate(SERVER_CPUS)
    on_cpu = np.maximum(on_cpu - np.nan_to_num(window.utilisation_or_rate(APPLIERS_CPU)), 0.0)
    return np.where(
        np.isfinite(counted), np.fmax(counted, delayed + np.minimum(on_cpu, counted)), np.nan
    )


def running_statements(window: Window, source: ConcurrencySource) -> Array:
    """Compute the running statements by one source, threads, shape (k,).

    Statements that the server has yet to read are not included.
    """
    if source is ConcurrencySource.STATEMENT_TIME:
        return window["statement_time"]
    return np.maximum(window.client_threads - idle_baseline(window), 0.0)


def concurrency_variance(window: Window, source: ConcurrencySource) -> Array:
    """Compute the variance of each concurrency, threads², shape (k,).

    The average of k instants of Threads_running varies by about N/k; statement time is exact.
    """
    if source is ConcurrencySource.STATEMENT_TIME:
        return np.zeros(len(window))
    return running_statements(window, source) / np.maximum(window["thread_samples"], 1.0)


def best_source(window: Window) -> ConcurrencySource:
    """Choose statement time (Little's law) where it is known recently, else Threads_running."""
    end = window["end"]
    recent = end > end[-1] - RECENT_INTERVALS * window["seconds"][-1]
    known = np.average(
        np.isfinite(window["statement_time"][recent]), weights=window["stands_for"][recent]
    )
    return (
        ConcurrencySource.STATEMENT_TIME
        if known >= MIN_KNOWN_SHARE
        else ConcurrencySource.THREADS_RUNNING
    )


def idle_baseline(window: Window) -> float:
    """Estimate how many threads always run and do not work for a client, as a whole number.

    A thread that always runs is in every sample: with next to no throughput there are no others,
    and otherwise there are no fewer. Many threads without throughput are a stall instead.
    """
    x, n = window["throughput"], window.client_threads
    known = np.isfinite(n)
    idle = known & (x <= IDLE_SHARE * quantile(x, 0.95)) if len(window) else known
    busy = n[known & ~idle]
    if np.count_nonzero(idle) < IDLE_INTERVALS:
        return 0.0
    least = float(n[idle].min())
    is_stall = len(busy) > 0 and least > quantile(busy, FLOOR_QUANTILE)
    return 0.0 if is_stall else float(np.floor(least + 1 - ALWAYS_RUNNING_SHARE))
