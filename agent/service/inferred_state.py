"""The state inferred about a target, by its lifetime: of one server, or of one interval."""

from dataclasses import dataclass, field

from agent.assessment.forecaster import Forecaster
from agent.assessment.outlier_counts import OutlierCounts
from agent.assessment.recent_load import LoadOutlook, RecentLoad
from agent.assessment.snapshot import AssessmentState, ClassSlasState, SlaState
from agent.query_classes.assessment import ClassMonitor
from agent.query_classes.recent_response_times import RecentResponseTimes
from models.business_metric_headroom import UnitHeadroom


@dataclass(slots=True)
class ServerState:
    """The state inferred from one server's windows, discarded when another server answers."""

    classes: ClassMonitor
    forecaster: Forecaster
    recent: RecentLoad
    assessed: AssessmentState
    response_times: RecentResponseTimes = field(default_factory=RecentResponseTimes)

    @classmethod
    def new(cls, target: str, classes: ClassMonitor, now: float) -> "ServerState":
        """Return the initial state, without results; `now` in monotonic seconds."""
        assessed = AssessmentState(outlier_counts=OutlierCounts(counted_since=now))
        return cls(classes, Forecaster(target, now), RecentLoad(now), assessed)


@dataclass(slots=True)
class IntervalResults:
    """The results beside the capacity, computed once per interval."""

    outlook: LoadOutlook | None = None
    """How far the load may rise within the next hour."""
    sla: SlaState | None = None
    class_slas: ClassSlasState | None = None
    sla_at: float | None = None
    """The end of the interval for which the SLAs were last computed, even if that failed."""
    units: dict[str, UnitHeadroom] = field(default_factory=dict)
    units_at: float | None = None
    """The same for the business metrics."""
