"""Metrics about the agent itself: its workers, sessions, assessments and configuration."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.export.history_metrics import history_families
from agent.export.metric_family_builders import PREFIX
from agent.history.write_health import StoreState


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The delays of one worker, in seconds, and its failures."""

    name: str
    lag_seconds: float
    late_seconds: float
    failures: int = 0
    target: str = ""
    """The target of this worker; empty where it works for all targets."""


@dataclass(frozen=True, slots=True)
class TargetActivity:
    """Sessions and assessments of one target."""

    target: str
    connects: int
    assessment_seconds: float | None
    assessment_failures: Mapping[str, int] = field(default_factory=dict)
    """Failures by the part that was assessed."""


@dataclass(frozen=True, slots=True)
class ReloadState:
    """Whether the last load of the configuration succeeded, and when one last did (Unix s)."""

    successful: bool
    at: float


@dataclass(frozen=True, slots=True)
class WebState:
    """Whether the present web configuration is valid, and how many versions were refused."""

    successful: bool
    failures: int


@dataclass(frozen=True, slots=True)
class AgentState:
    """The agent's whole state at one time."""

    workers: tuple[WorkerState, ...] = ()
    targets: tuple[TargetActivity, ...] = ()
    reload: ReloadState | None = None
    history: StoreState | None = None
    web: WebState | None = None


class SelfCollector(Collector):
    """The agent's own state as metric families; `collect` is called at each scrape."""

    def __init__(self, state: Callable[[], AgentState]) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        """Yield every family that has a sample, in a fixed order."""
        state = self._state()
        history = history_families(state.history) if state.history else ()
        for family in (
            *_worker_families(state),
            *_target_families(state),
            *_reload_families(state),
            *_web_config_families(state),
            *history,
        ):
            if family.samples:
                yield family


def _worker_families(state: AgentState) -> Iterator[Metric]:
    """Yield the lag, the lateness and the failures of each worker."""
    lag = GaugeMetricFamily(
        PREFIX + "worker_lag_seconds",
        "Seconds since the worker's present run began, or by which its next run is late; 0 is "
        "on time.",
        labels=("worker", "target"),
    )
    late = CounterMetricFamily(
        PREFIX + "worker_late_seconds",
        "Total of the seconds by which the worker's runs began late; a rate above 0.1 means "
        "that the machine is too busy for the agent.",
        labels=("worker", "target"),
    )
    failures = CounterMetricFamily(
        PREFIX + "worker_failures",
        "Runs of the worker that failed by a defect of the agent; the worker continues, and the "
        "log names the line of code.",
        labels=("worker", "target"),
    )
    for worker in sorted(state.workers, key=lambda one: (one.name, one.target)):
        labels = worker.name, worker.target
        lag.add_metric(labels, worker.lag_seconds)
        late.add_metric(labels, worker.late_seconds)
        failures.add_metric(labels, worker.failures)
    yield lag
    yield late
    yield failures


def _target_families(state: AgentState) -> Iterator[Metric]:
    """Yield the sessions and the assessments of each target."""
    connects = CounterMetricFamily(
        PREFIX + "connects",
        "Sessions that the agent has opened on the server; a number that keeps rising means "
        "that they break off.",
        labels=("target",),
    )
    durations = GaugeMetricFamily(
        PREFIX + "assessment_duration_seconds",
        "Seconds that the latest assessment of the target took; absent before the first.",
        labels=("target",),
    )
    failures = CounterMetricFamily(
        PREFIX + "assessment_failures",
        "Assessments of the target that failed by a defect of the agent, by what was assessed; "
        "the log names the line of code. Absent before the first.",
        labels=("target", "part"),
    )
    for one in sorted(state.targets, key=lambda one: one.target):
        for part, count in sorted(one.assessment_failures.items()):
            failures.add_metric((one.target, part), count)
        connects.add_metric((one.target,), one.connects)
        if one.assessment_seconds is not None:
            durations.add_metric((one.target,), one.assessment_seconds)
    yield connects
    yield durations
    yield failures


def _reload_families(state: AgentState) -> Iterator[Metric]:
    """Yield the outcome of the latest reload; nothing if that is not known."""
    if state.reload is None:
        return
    yield GaugeMetricFamily(
        PREFIX + "config_last_reload_successful",
        "1 if the last load of the configuration succeeded, 0 if it was refused and the "
        "previous one stays in force.",
        value=float(state.reload.successful),
    )
    yield GaugeMetricFamily(
        PREFIX + "config_last_reload_success_timestamp_seconds",
        "Unix time at which the configuration in force was loaded.",
        value=state.reload.at,
    )


def _web_config_families(state: AgentState) -> Iterator[Metric]:
    """Yield the state of the web configuration; nothing without one."""
    if state.web is None:
        return
    yield GaugeMetricFamily(
        PREFIX + "web_config_last_reload_successful",
        "1 if the web configuration files are valid as they are now, 0 if not and the previous "
        "version stays in force; absent without them.",
        value=float(state.web.successful),
    )
    yield CounterMetricFamily(
        PREFIX + "web_config_failures",
        "Versions of the web configuration that were refused; absent without one.",
        value=float(state.web.failures),
    )
