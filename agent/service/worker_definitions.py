"""The workers of the targets: which runs what, when one of them hangs, and how they end."""

import time
from collections.abc import Sequence

from agent.service.target_monitor import TargetMonitor
from agent.support.scheduled_thread import Tick, Worker

STOP_SECONDS = 1.0  # seconds that a worker has to end what it is in, before its read is cut off
CONNECT_READS, RESOLVER = 10, 30.0  # answers, and seconds for a name, that connecting may wait for


def fit_ticks(monitors: Sequence[TargetMonitor]) -> list[Tick]:
    """Every target's fit and what follows from it; a defect in one does not affect the others."""
    return [
        tick
        for monitor in monitors
        for tick in (
            monitor.fit_tick,
            monitor.sla_tick,
            monitor.business_tick,
            monitor.class_tick,
            monitor.forecast_tick,
        )
    ]


def host_ticks(monitors: Sequence[TargetMonitor]) -> list[Tick]:
    """The targets on this host: its counters are read without waiting for anybody."""
    return [monitor.host_tick for monitor in monitors if monitor.target.node_exporter is None]


def workers_of(monitor: TargetMonitor) -> list[Worker]:
    """The target's own: its server; its host on another machine, and its business metrics."""
    workers = [_server_worker(monitor)]
    if monitor.target.node_exporter is not None:
        workers.append(_remote_host_worker(monitor))
    if monitor.target.business_metrics:
        workers.append(_business_worker(monitor))
    return workers


def _business_worker(monitor: TargetMonitor) -> Worker:
    """It waits for queries of the operator's own: they delay no sample."""
    business = monitor.business
    return Worker(
        "business_metrics",
        [business.tick],
        allowance=float("inf"),
        at_end=business.close,
        target=monitor.target.name,
    )


def _remote_host_worker(monitor: TargetMonitor) -> Worker:
    """It waits for another machine; one that never ends its answer is no reason for a restart."""
    return Worker(
        "remote_host", [monitor.host_tick], allowance=float("inf"), target=monitor.target.name
    )


def _server_worker(monitor: TargetMonitor) -> Worker:
    """One that hangs when the server has left more than one answer out."""
    return Worker(
        "server",
        [monitor.server_tick],
        allowance=RESOLVER + CONNECT_READS * monitor.target.timeout,
        progress=monitor.progress,
        at_end=monitor.close,
        target=monitor.target.name,
    )


def end_workers(
    workers: Sequence[Worker], monitors: Sequence[TargetMonitor], within: float
) -> None:
    """End the workers: in order, or else by cutting off what they read."""
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
