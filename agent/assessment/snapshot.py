"""All results for one target at one time: immutable, published by one assignment."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agent.assessment.assessed_intervals import AssessedIntervals
from agent.assessment.deploy_markers import Marker
from agent.assessment.outlier_counts import OutlierCounts
from agent.assessment.recent_load import LoadOutlook
from agent.query_classes.attribution_snapshot import ClassesState
from agent.query_classes.class_time_splits import class_time_splits
from agent.sampling.collector_health import CollectorHealth
from agent.window.concurrency import ConcurrencySource
from agent.window.recent_time_split import TimeUse
from agent.window.resource_utilisation import (
    CPU,
    SERVER_CPU,
    SERVER_SHARE_OF_CPU,
    CpuSource,
)
from collectors.base import Feature
from models.business_metric_headroom import UnitHeadroom, UnitReason
from models.capacity.goodness_of_fit import Finding
from models.capacity.headroom import Headroom, headroom_of
from models.capacity.resource_and_limit import OTHER_PROGRAMS_SHARE
from models.capacity.result import Capacity
from models.capacity.saturation_probability import (
    Probabilities,
    saturation_probability,
    saturation_soon,
)
from models.forecast.time_to_saturation import Saturation
from models.group.node_time_split import Layer, Replication, split_into_layers
from models.group.ntp_clock_filter import ClockOffset
from models.time_split.time_parts import TimeSplit
from models.trust import Trust
from models.usl.fit import UslFit
from models.what_if.predicted_value import PredictedValue

if TYPE_CHECKING:  # only targets with an SLA load these
    from models.what_if.class_sla_headroom import ClassHeadroom
    from models.what_if.sla_result import SlaHeadroom

STALE_INTERVALS = 3
"""Age in intervals up to which data is never stale."""
FORECAST_STALE_SECONDS = 7200.0
"""Age in seconds above which a forecast is withheld: two later ones are missing."""


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """A target's identity: its configured address, and the server's own report."""

    host: str
    port: str
    version: str
    server_identity: str
    """MySQL's UUID, else host name, port and data directory."""
    labels: tuple[tuple[str, str], ...] = ()
    """Names and values that the configuration gives the target."""


@dataclass(frozen=True, slots=True)
class Health:
    """The status of a target and its collectors, without the values read."""

    up: bool | None = None  # None: not tried yet
    server: str = ""
    restarts: int = 0
    collectors: tuple[CollectorHealth, ...] = ()
    features: tuple[Feature, ...] = ()
    identity: ServerIdentity | None = None
    """Identity of the server that answered last; None: none has answered yet."""
    queries: float | None = None
    """The server's counter Questions when last read; None: not read yet."""


@dataclass(frozen=True, slots=True)
class Load:
    """The load over the latest complete interval; `end` in Unix seconds."""

    end: float
    throughput: float  # queries/s
    concurrency: Mapping[ConcurrencySource, float]  # threads
    excluded: Mapping[str, float]  # threads in Threads_running that do not work for clients
    resources: Mapping[str, float] = field(default_factory=dict)
    """Utilisation of each resource; 1 is its ceiling."""
    cpu_clock_rate: float | None = None
    """Clock rate of the server's CPUs as a share of the highest without turbo, at most 1."""
    cpus: Mapping[str, float] = field(default_factory=dict)
    """Number of processors of the resources `cpu` and `server_cpu`."""
    cpu_source: CpuSource | None = None
    """The source of the CPU utilisation; None: that is not known."""

    def utilisation_of(self, limit: str | None) -> float | None:
        """Return the utilisation of a limit, None if it is not known or no resource.

        Where the limit is the server's own part of the CPU, that of the whole host counts if it is
        higher: statements wait for a processor, whoever uses it.
        """
        names = (limit, CPU) if limit == SERVER_CPU else (limit,)
        known = (self.resources.get(name) for name in names if name is not None)
        return max((used for used in known if used is not None), default=None)

    def utilisation_by_server(self, limit: str | None) -> float | None:
        """Return the utilisation of limiting processors that hardly any other program uses.

        None where others use them, as clients on the same host do, or may use them.
        """
        if limit == SERVER_CPU:
            return self.resources.get(SERVER_CPU)
        used, own = self.resources.get(CPU), self.resources.get(SERVER_SHARE_OF_CPU)
        if limit != CPU or used is None or own is None or used - own > OTHER_PROGRAMS_SHARE:
            return None
        return used


@dataclass(frozen=True, slots=True)
class AssessmentState:
    """The latest assessment, or in words why there is none; `at` in Unix seconds."""

    at: float | None = None
    capacity: Capacity | None = None
    source: ConcurrencySource | None = None
    intervals: AssessedIntervals | None = None
    outlier_counts: OutlierCounts = field(default_factory=OutlierCounts)
    waiting: str = ""


@dataclass(frozen=True, slots=True)
class ForecastState:
    """The latest forecast; `at` in Unix seconds."""

    at: float
    saturation: Saturation
    growth_per_day: float | None = None
    """Growth of the daily peak as a share of the present one; None: it is not significant."""
    days: int = 0
    """Days of load that the forecast is based on."""


@dataclass(frozen=True, slots=True)
class SlaState:
    """How far a target is from its SLA; `at` in Unix seconds, times in seconds."""

    at: float
    seconds: float
    """The allowed mean residence time."""
    residence_time: float | None
    """The present mean residence time."""
    headroom: "SlaHeadroom"
    at_capacity: PredictedValue | None
    """The residence time at the capacity; None: not known, or unbounded there."""
    trust: Trust = Trust.NOT_IDENTIFIABLE
    """No more than the capacity's."""


@dataclass(frozen=True, slots=True)
class ClassSlaState:
    """One query class and its SLA; times in seconds."""

    digest: str
    quantile: float
    seconds: float
    """The allowed value of that quantile of the class's response times."""
    present: PredictedValue | None
    """The quantile's value in the last minutes; None where too few statements were seen."""
    calls: int
    """Number of statements that `present` is based on."""
    headroom: "ClassHeadroom"


@dataclass(frozen=True, slots=True)
class ClassSlasState:
    """The query classes that have an SLA, in the configuration's order; `at` in Unix seconds."""

    at: float
    classes: tuple[ClassSlaState, ...]
    trust: Trust = Trust.NOT_IDENTIFIABLE
    """No more than the capacity's."""

    @property
    def first(self) -> ClassSlaState | None:
        """The class most likely to break its SLA first; None: unknown, or the capacity is first."""
        known = [
            (one.headroom.first, one) for one in self.classes if one.headroom.first is not None
        ]
        first, state = max(known, key=lambda pair: pair[0], default=(0.0, None))
        capacity_first = 1 - sum(probability for probability, _ in known)
        return state if first > capacity_first else None


@dataclass(frozen=True, slots=True)
class BusinessState:
    """A business metric: its latest value, and the headroom in its unit."""

    name: str
    unit: str
    at: float | None
    """When it was read, Unix seconds; None: not yet."""
    value: float | None
    stale_after: float  # seconds
    unit_headroom: UnitHeadroom

    def without_headroom(self, reason: UnitReason) -> "BusinessState":
        """Return a copy without the headroom, with the reason why none is shown."""
        return replace(self, unit_headroom=UnitHeadroom(reason=reason))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All results for one target at one time; `at`, and `now` of its methods, in Unix seconds."""

    target: str
    at: float
    stale_after: float  # seconds after which load and fit are withheld
    health: Health
    load: Load | None
    assessed: AssessmentState
    classes: ClassesState | None = None
    forecast: ForecastState | None = None
    time_use: TimeUse | None = None
    sla: SlaState | None = None
    class_slas: ClassSlasState | None = None
    business: tuple[BusinessState, ...] = ()
    """The target's business metrics, in the order of the configuration."""
    markers: tuple[Marker, ...] = ()
    """Deploy markers that concern the target, oldest first."""
    outlook: LoadOutlook | None = None
    """How far the load may rise within the next hour; None while no interval has ended."""
    clock_offset: ClockOffset | None = None
    """The server's clock minus the agent's; None: not read in the last minutes."""
    replication: Replication | None = None
    """Threads busy with replication, mean of the last minutes; None: not known."""

    def capacity(self, now: float) -> Capacity | None:
        """Return the capacity, unless there is none or it is stale at `now` (Unix seconds)."""
        is_fresh = self.assessed.at is not None and now - self.assessed.at <= self.stale_after
        return self.assessed.capacity if is_fresh else None

    def current_clock_offset(self) -> ClockOffset | None:
        """Return the server's clock offset; None if it is unknown or the target is down."""
        return self.clock_offset if self.health.up else None

    def current_classes(self, now: float) -> ClassesState | None:
        """Return the query classes; None if there are none or they are stale at `now` (Unix s)."""
        if self.classes is None:
            return None
        max_age = max(self.stale_after, STALE_INTERVALS * self.classes.interval)
        return self.classes if now - self.classes.at <= max_age else None

    def current_time_use(self, now: float) -> TimeUse | None:
        """Return where statement time goes; None if unknown or stale, or the target is down."""
        if self.time_use is None or not self.health.up:
            return None
        return self.time_use if now - self.time_use.at <= self.stale_after else None

    def layers(self, now: float) -> Mapping[Layer, float]:
        """Return the time in each layer, in threads (seconds per second); empty if unknown."""
        use = self.current_time_use(now)
        return {} if use is None else split_into_layers(use.split, use.seconds, self.replication)

    def class_splits(self, now: float) -> Mapping[str, TimeSplit]:
        """Return the time split of each query class, by `class_key`; empty if unknown."""
        state, time = self.current_classes(now), self.current_time_use(now)
        return class_time_splits(state, time) if state and time else {}

    def current_forecast(self, now: float) -> ForecastState | None:
        """Return the forecast; None without one, or if it or the capacity is stale at `now`."""
        known = self.forecast
        if known is None or self.capacity(now) is None:
            return None
        return known if now - known.at <= FORECAST_STALE_SECONDS else None

    def current_law(self, now: float) -> UslFit | None:
        """Return the law that the capacity is based on; None if it was refused or is stale."""
        capacity = self.capacity(now)
        return capacity.usl if capacity else None

    def law_refusal(self, now: float) -> Finding | None:
        """Return why the law cannot be fitted to the data; None if it can, or that is unknown."""
        capacity = self.capacity(now)
        return capacity.usl_finding if capacity and capacity.usl is None else None

    def current_load(self, now: float) -> Load | None:
        """Return the load; None if the target is down or it is stale at `now` (Unix seconds)."""
        if self.load is None or not self.health.up:
            return None
        return self.load if now - self.load.end <= self.stale_after else None

    def operating_point(self, now: float) -> tuple[float, float] | None:
        """Return the load as N (threads, the fit's source) and X (queries/s); None if unknown."""
        load, source = self.current_load(now), self.assessed.source
        if load is None or source is None or source not in load.concurrency:
            return None
        return load.concurrency[source], load.throughput

    def residence_time(self, now: float) -> float | None:
        """Return the mean residence time in seconds, R = N/X; None if unknown."""
        point = self.operating_point(now)
        return point[0] / point[1] if point and point[0] > 0 and point[1] > 0 else None

    def current_sla(self, now: float) -> SlaState | None:
        """Return the distance from the SLA; None without one, if stale, or the target is down."""
        if self.sla is None or self.current_load(now) is None:
            return None
        return self.sla if now - self.sla.at <= self.stale_after else None

    def current_class_slas(self, now: float) -> ClassSlasState | None:
        """Return the classes with an SLA; None without one, if stale, or the target is down."""
        if self.class_slas is None or self.current_load(now) is None:
            return None
        return self.class_slas if now - self.class_slas.at <= self.stale_after else None

    def current_business(self, now: float) -> tuple[BusinessState, ...]:
        """Return the business metrics, without what is stale at `now` (Unix seconds)."""
        is_known = self.current_load(now) is not None and self.capacity(now) is not None
        return tuple(_current_business(one, now, is_known=is_known) for one in self.business)

    def headroom(self, now: float) -> Headroom | None:
        """Compute the load's distance from the capacity on either side of the peak, if known."""
        load, capacity = self.current_load(now), self.capacity(now)
        if load is None or capacity is None:
            return None
        source, limit = self.assessed.source, capacity.limit
        n = load.concurrency.get(source) if source is not None else None
        used, by_server = load.utilisation_of(limit), load.utilisation_by_server(limit)
        return headroom_of(capacity, load.throughput, n, used, by_server)

    def saturation_probability(self, now: float) -> Probabilities:
        """Compute the saturation probabilities of the present load and more; empty if unknown."""
        load, capacity = self.current_load(now), self.capacity(now)
        if load is None or capacity is None:
            return ()
        return saturation_probability(capacity, load.throughput, self.headroom(now))

    def saturation_within(self, now: float) -> Probabilities:
        """Compute the probabilities of saturation by seconds from now; empty if unknown."""
        load, capacity, outlook = self.current_load(now), self.capacity(now), self.outlook
        if load is None or capacity is None or outlook is None:
            return ()
        return saturation_soon(capacity, outlook.level, outlook.rises, self.headroom(now))


def _current_business(known: BusinessState, now: float, *, is_known: bool) -> BusinessState:
    """Remove a stale value and its headroom; also the headroom if load or capacity is unknown."""
    if known.at is None or now - known.at > known.stale_after:
        return replace(known, value=None).without_headroom(UnitReason.NO_VALUE)
    return known if is_known else known.without_headroom(UnitReason.NO_CAPACITY)
