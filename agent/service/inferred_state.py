"""A target's state by its lifetime: that of one server's window, and that of one interval."""

from dataclasses import dataclass, field

from agent.assessment.forecaster import Forecaster
from agent.assessment.hour_ahead_load import Outlook, RecentLoad
from agent.assessment.outlier_totals import OutlierCounts
from agent.assessment.snapshot import ClassSlas, FitState, SlaState
from agent.config.top_class_settings import ClassSettings
from agent.query_classes.assessment import ClassMonitor
from agent.query_classes.recent_response_times import RecentResponseTimes
from models.business_unit import UnitHeadroom


@dataclass(slots=True)
class ServerState:
    """What was inferred of one server, window by window: another server makes it void."""

    classes: ClassMonitor
    forecaster: Forecaster
    recent: RecentLoad
    fitted: FitState
    response_times: RecentResponseTimes = field(default_factory=RecentResponseTimes)

    @classmethod
    def new(cls, target: str, settings: ClassSettings, now: float) -> "ServerState":
        """Nothing is known yet, at `now` on the monotonic clock."""
        fitted = FitState(record=OutlierCounts(since=now))
        return cls(ClassMonitor(settings), Forecaster(target, now), RecentLoad(now), fitted)


@dataclass(slots=True)
class IntervalResults:
    """What is computed beside the fit, once for each interval that the load is of."""

    outlook: Outlook | None = None
    """How far the load may rise within the next hour."""
    sla: SlaState | None = None
    class_slas: ClassSlas | None = None
    sla_at: float | None = None
    """The end of the load that the SLAs were last looked at for, also where that failed."""
    units: dict[str, UnitHeadroom] = field(default_factory=dict)
    units_at: float | None = None
    """The same of the business metrics."""
