"""What the agent says of itself: its lanes, its sessions, its fits, its configuration."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.export.families import PREFIX
from agent.export.history_metrics import history_families
from agent.history.status import StoreState


@dataclass(frozen=True, slots=True)
class WorkerState:
    """How one lane keeps its time, in seconds."""

    name: str
    lag: float
    late: float
    failures: int = 0


@dataclass(frozen=True, slots=True)
class WorkState:
    """What the agent does for one target."""

    target: str
    connects: int
    fit_seconds: float | None
    assessment_failures: Mapping[str, int] = field(default_factory=dict)
    """Failures by the part that was assessed."""


@dataclass(frozen=True, slots=True)
class ReloadState:
    """How the last loading of the configuration went; `at` is the last success, in Unix seconds."""

    successful: bool
    at: float


@dataclass(frozen=True, slots=True)
class WebState:
    """How the latest reading of the web configuration went, and how many versions were refused."""

    successful: bool
    failures: int


@dataclass(frozen=True, slots=True)
class AgentState:
    """All of it at one time."""

    lanes: tuple[WorkerState, ...] = ()
    work: tuple[WorkState, ...] = ()
    reload: ReloadState | None = None
    history: StoreState | None = None
    web: WebState | None = None


class SelfCollector(Collector):
    """The agent's own state as metric families; it is asked for at a scrape."""

    def __init__(self, state: Callable[[], AgentState]) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        """Every family that has a sample, in a fixed order."""
        state = self._state()
        history = history_families(state.history) if state.history else ()
        for family in (*_lanes(state), *_work(state), *_reload(state), *_web(state), *history):
            if family.samples:
                yield family


def _lanes(state: AgentState) -> Iterator[Metric]:
    lag = GaugeMetricFamily(
        PREFIX + "lane_lag_seconds",
        "For how long the lane has been in its present turn, or late for its next.",
        labels=("lane",),
    )
    late = CounterMetricFamily(
        PREFIX + "lane_late_seconds",
        "By how much the lane's turns began after they were due, in all.",
        labels=("lane",),
    )
    failures = CounterMetricFamily(
        PREFIX + "lane_failures",
        "Turns that a defect of the agent ended; the log says where.",
        labels=("lane",),
    )
    for lane in sorted(state.lanes, key=lambda lane: lane.name):
        lag.add_metric((lane.name,), lane.lag)
        late.add_metric((lane.name,), lane.late)
        failures.add_metric((lane.name,), lane.failures)
    yield lag
    yield late
    yield failures


def _work(state: AgentState) -> Iterator[Metric]:
    connects = CounterMetricFamily(
        PREFIX + "connects", "Sessions that were opened on the server.", labels=("target",)
    )
    fits = GaugeMetricFamily(
        PREFIX + "fit_duration_seconds", "How long the latest fit took.", labels=("target",)
    )
    failures = CounterMetricFamily(
        PREFIX + "assessment_failures",
        "Assessments of the target that a defect of the agent ended; the log says where.",
        labels=("target", "part"),
    )
    for work in sorted(state.work, key=lambda work: work.target):
        for part, count in sorted(work.assessment_failures.items()):
            failures.add_metric((work.target, part), count)
        connects.add_metric((work.target,), work.connects)
        if work.fit_seconds is not None:
            fits.add_metric((work.target,), work.fit_seconds)
    yield connects
    yield fits
    yield failures


def _reload(state: AgentState) -> Iterator[Metric]:
    if state.reload is None:
        return
    yield GaugeMetricFamily(
        PREFIX + "config_last_reload_successful",
        "Whether the configuration could be used when it was last loaded.",
        value=float(state.reload.successful),
    )
    yield GaugeMetricFamily(
        PREFIX + "config_last_reload_success_timestamp_seconds",
        "When the configuration that is in force was loaded.",
        value=state.reload.at,
    )


def _web(state: AgentState) -> Iterator[Metric]:
    if state.web is None:
        return
    yield GaugeMetricFamily(
        PREFIX + "web_config_last_reload_successful",
        "Whether the files of the web configuration can be used as they are now.",
        value=float(state.web.successful),
    )
    yield CounterMetricFamily(
        PREFIX + "web_config_failures",
        "Versions of the web configuration that were refused; the former one stayed.",
        value=float(state.web.failures),
    )
