"""The workers of the targets: what each runs, when it counts as hanging, how it is stopped."""

import time
from collections.abc import Sequence

from agent.service.target_monitor import TargetMonitor
from agent.support.scheduled_thread import Tick, Worker

STOP_SECONDS = 1.0  # seconds for a worker to finish its run, before its read is interrupted
CONNECT_ANSWERS, RESOLVER_SECONDS = 10, 30.0
"""Answers that a connect may wait for, and seconds that it may take to resolve the name."""


def assessment_ticks(monitors: Sequence[TargetMonitor]) -> list[Tick]:
    """Return the ticks that assess every target; a defect in one does not affect the others."""
    return [
        tick
        for monitor in monitors
        for tick in (
            monitor.assessment_tick,
            monitor.sla_tick,
            monitor.business_tick,
            monitor.class_tick,
            monitor.forecast_tick,
        )
    ]


def host_ticks(monitors: Sequence[TargetMonitor]) -> list[Tick]:
    """Return the host ticks of the targets on this host; they read its counters without waiting."""
    return [monitor.host_tick for monitor in monitors if monitor.target.node_exporter is None]


def workers_of(monitor: TargetMonitor) -> list[Worker]:
    """Return the target's own workers: for its server, its remote host and its business metrics."""
    workers = [_server_worker(monitor)]
    if monitor.target.node_exporter is not None:
        workers.append(_remote_host_worker(monitor))
    if monitor.target.business_metrics:
        workers.append(_business_worker(monitor))
    return workers


def _business_worker(monitor: TargetMonitor) -> Worker:
    """Return the worker that waits for the operator's own queries, so that they delay no sample."""
    business = monitor.business
    return Worker(
        "business_metrics",
        [business.tick],
        allowance=float("inf"),
        at_end=business.close,
        target=monitor.target.name,
    )


def _remote_host_worker(monitor: TargetMonitor) -> Worker:
    """Return the worker that reads another machine; it never counts as hanging."""
    return Worker(
        "remote_host", [monitor.host_tick], allowance=float("inf"), target=monitor.target.name
    )


def _server_worker(monitor: TargetMonitor) -> Worker:
    """Return the worker of the server; its allowance is the longest time that a connect takes."""
    return Worker(
        "server",
        [monitor.server_tick],
        allowance=RESOLVER_SECONDS + CONNECT_ANSWERS * monitor.target.timeout,
        progress=monitor.progress,
        at_end=monitor.close,
        target=monitor.target.name,
    )


def stop_workers(
    workers: Sequence[Worker], monitors: Sequence[TargetMonitor], within: float
) -> None:
    """Stop the workers; interrupt the reads of those that do not end by themselves."""
    started = time.monotonic()
    for worker in workers:
        worker.stop()
    wait_for(workers, started + STOP_SECONDS)
    if any(worker.is_alive() for worker in workers):
        for monitor in monitors:
            monitor.interrupt()
        wait_for(workers, started + within)


def wait_for(workers: Sequence[Worker], deadline: float) -> None:
    """Wait for the workers until `deadline`, monotonic seconds."""
    for worker in workers:
        if worker.is_alive():
            worker.join(max(0.0, deadline - time.monotonic()))
