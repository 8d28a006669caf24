"""The agent: the monitors of all targets, the workers that run them, and the web server."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector

from agent.assessment.deploy_markers import Marker, Markers
from agent.assessment.snapshot import Snapshot
from agent.config.settings import Config
from agent.export.metric_family_builders import PREFIX
from agent.export.snapshot_metrics import SnapshotCollector
from agent.export.target_group_metrics import GroupCollector
from agent.groups.group_monitors import Groups
from agent.history.store import Store
from agent.service.agent_metrics import (
    AgentState,
    ReloadState,
    SelfCollector,
    TargetActivity,
    WebState,
    WorkerState,
)
from agent.service.reload import monitor_settings
from agent.service.target_monitor import TargetMonitor
from agent.service.worker_definitions import (
    assessment_ticks,
    host_ticks,
    stop_workers,
    wait_for,
    workers_of,
)
from agent.support.logs import fields
from agent.support.memory_tuning import collect_garbage, trim_heap
from agent.support.scheduled_thread import Tick, Worker
from agent.web.application import Pages, Reload, serve_in_background
from agent.web.http_listener import WebServer
from agent.web.reloading_config import LoadedWebConfig, WebConfigFile

if TYPE_CHECKING:
    from agent.compare.comparison import Comparison

log = logging.getLogger(__name__)

STOP_SECONDS = 4.0  # seconds for all workers together; those that still hang are abandoned
WRITE_SECONDS = 0.7  # further seconds, to write their last data to the history
RELOAD_SECONDS = 2.0  # seconds for the workers of the targets that a reload ends
MAX_COMPARED_INTERVALS = 5760  # intervals on either side of a time: a day at 15 s each


class Agent:
    """The targets' monitors and their workers; shared workers read this host, assess, and write."""

    def __init__(self, config: Config, store: Store | None = None) -> None:
        self._store = store
        self.markers = Markers(config.history.retention.for_markers)
        if store:
            store.target_names = _target_names(config)
            store.on_renamed = self.markers.rename_target
        self.monitors = [TargetMonitor(config, target, store=store) for target in config.targets]
        self._settings = {t.name: monitor_settings(config, t) for t in config.targets}
        self._target_workers = {monitor: workers_of(monitor) for monitor in self.monitors}
        """Replaced as a whole by a reload: threads of the web server iterate over it meanwhile."""
        self.groups = Groups(config, self.snapshots)
        self._host_worker = Worker("host", host_ticks(self.monitors))
        self._assessment_worker = Worker("assessment", self._assessment_ticks())

    def snapshots(self) -> list[Snapshot]:
        """Return the latest snapshot of every target, with its deploy markers."""
        found = [monitor.snapshot for monitor in self.monitors]
        known = self.markers.known()
        if not known:
            return found
        return [
            replace(each, markers=tuple(m for m in known if m.concerns(each.target)))
            for each in found
        ]

    def mark(self, marker: Marker) -> None:
        """Store a deploy marker, also in the history if there is one, unless it is too old."""
        self.markers.add([marker])
        if marker not in self.markers.known():
            return
        if self._store:
            self._store.mark(marker)
        log.info("deploy marker", extra=fields(name=marker.name, target=marker.target or "all"))

    def compare_around(self, target: str, middle: float, length: float) -> "Comparison":
        """Compare a target before and after `middle` (Unix s), up to `length` seconds on each side.

        Raises `TooEarlyError`, `SourceError` where the history has too little of that time, and
        `StoreError` where it cannot be read. Its modules are loaded at the first call.
        """
        from agent.compare.compare_periods import compare_history
        from agent.compare.periods import periods_around
        from agent.replay.recording_opener import SourceError

        monitor = next((one for one in self.monitors if one.target.name == target), None)
        if self._store is None or monitor is None:
            raise SourceError(f"{target}: the agent keeps no history of it")
        options = monitor.replay_options
        max_length = MAX_COMPARED_INTERVALS * options.settings.interval
        periods = periods_around(middle, min(length, max_length), time.time())
        return compare_history(self._store.path, options, periods)

    def workers(self) -> list[Worker]:
        """Return all workers, that of the history included."""
        of_history = [self._store.worker] if self._store else []
        return [*self._watching_workers(), *of_history]

    def _watching_workers(self) -> list[Worker]:
        own = [worker for workers in self._target_workers.values() for worker in workers]
        return [*own, self._host_worker, self._assessment_worker]

    def start(self) -> None:
        """Start all workers, and load the deploy markers of the history."""
        if self._store:
            self._store.markers().add_done_callback(lambda read: self.markers.add(read.result()))
        for worker in self.workers():
            worker.start()

    def stop(self) -> None:
        """Stop all workers, which close their sessions; then write the remaining data."""
        deadline = time.monotonic() + STOP_SECONDS + WRITE_SECONDS
        stop_workers(self._watching_workers(), self.monitors, STOP_SECONDS)
        self._record_remaining(self.monitors)
        if self._store:
            self._store.worker.stop()
            wait_for([self._store.worker], deadline)

    def apply(self, config: Config) -> None:
        """Apply this configuration; unchanged targets continue without interruption.

        A changed target keeps its intervals if its server and their width are the same. Of an
        unchanged one a password that the server refused is sent again.
        """
        settings = {target.name: monitor_settings(config, target) for target in config.targets}
        before = {monitor.target.name: monitor for monitor in self.monitors}
        unchanged = {name for name in before if self._settings[name] == settings.get(name)}
        monitors = [
            before[target.name]
            if target.name in unchanged
            else TargetMonitor(config, target, store=self._store)
            for target in config.targets
        ]
        ended = [monitor for monitor in self.monitors if monitor not in monitors]
        new = [monitor for monitor in monitors if monitor not in self.monitors]
        try:
            self._retire(ended)
            for monitor in new:
                if monitor.target.name in before:
                    monitor.take_over(before[monitor.target.name])
        finally:  # whatever fails: the former workers have ended, and every target needs its own
            if self._store:
                self._store.settings = config.history
                self._store.target_names = _target_names(config)
            self.markers.kept_seconds = config.history.retention.for_markers
            self.monitors, self._settings = monitors, settings
            self.groups.apply(config)
            self._start_monitors(new)
        for monitor in monitors:
            monitor.session.allow_refused_login()

    def _retire(self, monitors: list[TargetMonitor]) -> None:
        """Stop the workers of these monitors, and store their last data."""
        known = self._target_workers
        workers = [worker for monitor in monitors for worker in known[monitor]]
        self._target_workers = {m: own for m, own in known.items() if m not in monitors}
        stop_workers(workers, monitors, RELOAD_SECONDS)
        self._record_remaining(monitors)

    def _record_remaining(self, monitors: list[TargetMonitor]) -> None:
        """Pass the remaining data of the ended targets to the history."""
        for monitor in monitors:
            monitor.record_new_data(last=True)

    def _start_monitors(self, monitors: list[TargetMonitor]) -> None:
        """Start the workers of these monitors, and add their ticks to the shared workers."""
        new_workers = {monitor: workers_of(monitor) for monitor in monitors}
        self._target_workers = {**self._target_workers, **new_workers}
        self._host_worker.replace_ticks(host_ticks(self.monitors))
        self._assessment_worker.replace_ticks(self._assessment_ticks())
        for workers in new_workers.values():
            for worker in workers:
                worker.start()

    def _assessment_ticks(self) -> list[Tick]:
        return [*assessment_ticks(self.monitors), self.groups.tick, collect_garbage, trim_heap]

    def own_state(self) -> AgentState:
        """Return the agent's own status."""
        now = time.monotonic()
        return AgentState(
            tuple(
                WorkerState(
                    worker.kind,
                    worker.seconds_behind(now),
                    worker.late_seconds,
                    worker.failures,
                    worker.target,
                )
                for worker in self.workers()
            ),
            tuple(
                TargetActivity(
                    monitor.target.name,
                    monitor.connects,
                    monitor.assessment_seconds,
                    monitor.assessment_failures,
                )
                for monitor in self.monitors
            ),
            history=self._store.state if self._store else None,
        )

    def listen(
        self,
        address: tuple[str, int],
        *,
        reload_state: Callable[[], ReloadState | None] = lambda: None,
        web: Callable[[], LoadedWebConfig] = LoadedWebConfig,
        reload: Reload | None = None,
        hosts: Sequence[str] = (),
    ) -> WebServer:
        """Serve /metrics and the page; raises OSError if the address is not available."""
        registry = CollectorRegistry()
        registry.register(SnapshotCollector(self.snapshots, time.time))
        registry.register(GroupCollector(self.groups.states, time.time))

        def own_state() -> AgentState:
            return replace(self.own_state(), reload=reload_state(), web=_web_state(web))

        registry.register(SelfCollector(own_state))
        ProcessCollector(namespace=PREFIX.rstrip("_"), registry=registry)
        states = self.groups.states
        pages = Pages(
            registry,
            self.snapshots,
            time.time,
            reload,
            self.mark,
            states,
            self.markers.known,
            str(self._store.path.absolute()) if self._store else None,
            self.compare_around if self._store else None,
        )
        return serve_in_background(address, pages, web, hosts)


def _target_names(config: Config) -> frozenset[str]:
    return frozenset(target.name for target in config.targets)


def _web_state(web: Callable[[], LoadedWebConfig]) -> WebState | None:
    """Return the status of the web configuration, None without one."""
    return WebState(not web.broken, web.failures) if isinstance(web, WebConfigFile) else None
