"""Watching one target: its connection, its collectors' turns, its history and latest snapshot."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from agent.assessment.assessment_counters import AssessmentCounters
from agent.assessment.forecaster import Forecaster
from agent.assessment.snapshot import (
    BusinessState,
    ClassSlas,
    FitState,
    Health,
    Identity,
    SlaState,
    Snapshot,
)
from agent.business_metrics.assessment import headroom_in_unit, state_of
from agent.business_metrics.reader import BusinessMetricsReader
from agent.config.settings import CLOCKING, Config, Target
from agent.history.recorder import Recorder
from agent.history.row_mapping import ClassUses
from agent.history.server_identity import LONGEST, server_identity, server_uuid
from agent.history.store import Store
from agent.pipeline import assess
from agent.query_classes.capacity_gain import savings_of
from agent.query_classes.class_monitor import ClassMonitor
from agent.query_classes.recent_response_times import RecentResponseTimes
from agent.replay.sources import ReplayOptions
from agent.sampling.remote_host import collectors_of
from agent.sampling.restart_detector import RestartDetector, Session
from agent.sampling.scheduled_collector import ScheduledCollector, as_failure
from agent.support.backoff import Backoff, spread
from agent.support.clocks import Now
from agent.support.logs import fields, located
from agent.what_if.class_sla import class_slas_of
from agent.what_if.sla import sla_of
from agent.window.interval_buffer import IntervalBuffer
from agent.window.intervals import Window
from collectors import CollectorSpec
from collectors.base import CollectorError, FailureKind, Sample
from collectors.connection import LONGEST_VERSION, Connection
from collectors.histograms import HistogramValues
from collectors.server_clock import OFFSET, ROUND_TRIP
from models.business_unit import UnitHeadroom, UnitReason
from models.group.clock_offset import RoundTrip, add_round_trip, clock_offset

log = logging.getLogger(__name__)

RECONNECT_FIRST, RECONNECT_LONGEST = 1.0, 30.0  # seconds
PREPARE_AGAIN = 60.0
"""Seconds at most after which what was missing is looked for again. Looking for a server's process
among all of this host takes tens of milliseconds: 50 targets in step took the interpreter for one
second of each minute."""
SERVER_SHARE = 0.4  # of the sampling interval: what one statement may take on the server
LEAST_LIMIT = 0.2  # seconds that it may take in any case
TOGETHER = 0.05  # seconds before its turn that a collector goes with another: waking up costs too
ASSESS_EVERY = 1.0  # seconds between two looks for a complete interval
CLOCK_SET = 0.5  # seconds by which the wall clock has been set, if it is off by more


class Part(StrEnum):
    """A part of a target's assessment, which fails by itself."""

    CAPACITY = "capacity"
    CLASSES = "classes"
    FORECAST = "forecast"
    SLA = "sla"
    BUSINESS_METRICS = "business_metrics"


class TargetMonitor:
    """One target. `server_tick`, `host_tick` and `fit_tick` are run by a worker each.

    The first two fill the history; the third replaces `snapshot` by one assignment. `class_tick`
    takes turns with it and divides what was used over the query classes, and `forecast_tick`
    forecasts the load. `business` is read by a worker of its own.
    """

    def __init__(
        self,
        config: Config,
        target: Target,
        collectors: Sequence[CollectorSpec] | None = None,
        store: Store | None = None,
    ) -> None:
        self.target = target
        self._settings = config.fit_settings(target)
        self._ceilings = config.resource_settings(target)
        offered = collectors_of(config, target) if collectors is None else collectors
        self._collectors = _scheduled(config, target, offered)
        self._server_collectors = [c for c in self._collectors if c.spec.on_server]
        self._host_collectors = [c for c in self._collectors if not c.spec.on_server]
        self._status = next(c for c in self._collectors if c.spec.name == "status")
        self._sampling = max(c.interval for c in self._collectors if c.spec.name in CLOCKING)
        self._history = IntervalBuffer(
            self._settings.interval, self._settings.window, self._sampling
        )
        self._recorder = Recorder(store, target.name) if store else None
        self._classes = ClassMonitor(config.classes)
        self._forecaster = Forecaster(target.name, time.monotonic())
        self._connection = Connection(
            target.endpoint,
            target.credentials.login,
            timeout=target.timeout,
            limit=max(SERVER_SHARE * self._status.interval, LEAST_LIMIT),
        )
        self._backoff = Backoff(RECONNECT_FIRST, RECONNECT_LONGEST)
        self._retry_at = 0.0
        self._prepare_at = 0.0
        self._restarts = RestartDetector()
        self._health = Health()
        self._fitted = FitState(record=AssessmentCounters(since=time.monotonic()))
        self._assessed: tuple[Window, Now] | None = None  # by the snapshot
        self._sla: SlaState | None = None
        self._class_slas: ClassSlas | None = None
        self._response_times = RecentResponseTimes()
        self._sla_at: float | None = None  # the end of the load that it was last computed from
        keep = self._recorder.valued if self._recorder is not None else None
        self.business = BusinessMetricsReader(target, keep)
        self._units: dict[str, UnitHeadroom] = {}
        self._units_at: float | None = None
        self._answering: str | None = None  # the server behind the session
        self._round_trips: tuple[RoundTrip, ...] = ()
        self.assessment_failures: Mapping[str, int] = {}
        self.connects = 0  # sessions opened
        self.fit_seconds: float | None = None  # how long the latest fit took
        self.snapshot = self._assess(time.monotonic())

    def close(self) -> None:
        """End the session on the server."""
        self._connection.close()

    def interrupt(self) -> None:
        """From another thread: end a read in progress, and the session with it."""
        self._connection.interrupt()
        self.business.interrupt()

    @property
    def replay_options(self) -> ReplayOptions:
        """How its history is assessed: as it is watched, however wide its intervals were."""
        settings, ceilings = self._settings, self._ceilings
        return ReplayOptions(self.target.name, settings=settings, ceilings=ceilings)

    def progress(self) -> object:
        """Another answer whenever the server has answered; see `Worker`."""
        return self._connection.statements, self._connection.is_open

    def take_over(self, before: "TargetMonitor") -> None:
        """Go on where a monitor of the same server ends, with intervals as wide as ours."""
        if self._connection.endpoint != before._connection.endpoint:
            return
        self._health, self.connects = before._health, before.connects
        self._answering = before._answering
        self._round_trips = before._round_trips
        self._history.server = before._history.server
        self.business.take_over(before.business)
        if self.target.class_slas == before.target.class_slas:
            self._response_times = before._response_times
        self._forecaster = before._forecaster
        if self._classes.settings == before._classes.settings:
            self._classes = before._classes
        self._fitted = FitState(record=before._fitted.record)
        if self._history.width != before._history.width:
            self.snapshot = replace(self.snapshot, health=before.snapshot.health)
            return
        self._history.carry(before._history)
        if self._recorder is not None and before._recorder is not None:
            self._recorder.go_on(before._recorder)
        self.snapshot = before.snapshot

    def server_tick(self, now: float) -> float:
        """Connect if need be, then run every server collector that is due, status first."""
        if not self._connection.is_open and now < self._retry_at:
            return self._retry_at
        try:
            if not self._connection.is_open:
                self._connect()
            elif now >= self._prepare_at:
                self._prepare([c for c in self._collectors if not c.complete])
            for collector in self._server_collectors:
                if collector.due <= time.monotonic() + TOGETHER:
                    self._keep(collector.run(time.monotonic()))
            if self._status.failure not in (None, FailureKind.SLOW):
                self._health = replace(self._health, up=False)
        except CollectorError:
            return self._lost()
        except (
            Exception
        ) as error:  # a defect of ours must not look like a server that was not tried
            self._status.failed(as_failure(error))
            self._lost()
            raise
        return min(c.due for c in self._server_collectors)

    def host_tick(self, now: float) -> float:
        """Run every collector that reads this machine and is due."""
        for collector in self._host_collectors:
            if collector.due <= now:
                try:
                    self._keep(collector.run(now))
                except CollectorError:
                    collector.forget_source()
        return min((c.due for c in self._host_collectors), default=now + PREPARE_AGAIN)

    def fit_tick(self, now: float) -> float:
        """Publish what is known now, and see to it that no answer takes for ever."""
        self._connection.break_off_if_overdue(now)
        self.business.break_off_if_overdue(now)
        before = self.snapshot
        self._mind_the_server(now)
        try:
            self.snapshot = self._assess(now)
        except Exception as error:  # a defect there must not hide that a server is down
            self._note_defect(Part.CAPACITY, error)
            fitted = replace(before.fitted, waiting=f"the assessment failed: {located(error)}")
            health = self._current_health()
            self.snapshot = replace(before, at=time.time(), health=health, fitted=fitted)
            raise
        if self.snapshot.fitted.at != before.fitted.at:
            self.fit_seconds = time.monotonic() - now
        _say_changes(before, self.snapshot)
        self.hand_over()
        return now + ASSESS_EVERY

    def _mind_the_server(self, now: float) -> None:
        """Another server behind the same address has nothing to do with what is known."""
        if self._answering is not None and self._history.turn_to(self._answering):
            facts = fields(target=self.target.name, server=self._answering)
            log.warning(
                "a different server answers at this address: a new window begins", extra=facts
            )
            self._fitted = FitState(record=AssessmentCounters(since=now))
            self._classes = ClassMonitor(self._classes.settings)
            self._forecaster = Forecaster(self.target.name, now)
            self._sla = self._class_slas = None
            self._response_times = RecentResponseTimes()
            self.business.forget()
            self._units = {}

    def forecast_tick(self, now: float) -> float:
        """Forecast when the load meets the capacity, once an hour; shown with the next fit."""
        clock = Now(now, time.time())
        try:
            load = self._recorder.take_load() if self._recorder is not None else None
            if load is not None:
                self._forecaster.restore(load, now)
            if self._assessed is not None:
                self._forecaster.observe(self._assessed[0], clock)
            self._forecaster.advance(self.snapshot.capacity(clock.unix), clock)
        except Exception as error:  # its state may be broken: start from scratch
            self._note_defect(Part.FORECAST, error)
            self._forecaster = Forecaster(self.target.name, now)
            raise
        return now + ASSESS_EVERY

    def sla_tick(self, now: float) -> float:
        """Find the load that reaches the SLAs, once for each interval; shown with the next look."""
        known, clock = self.snapshot, Now(now, time.time())
        load = known.current_load(clock.unix)
        end = None if load is None else load.end
        has_any = self.target.sla_seconds is not None or self.target.class_slas
        if not has_any or end == self._sla_at:
            return now + ASSESS_EVERY
        self._sla_at = end  # also where it fails: the same again would fail again
        try:
            self._find_slas(known, clock)
        except Exception as error:
            self._sla = self._class_slas = None
            self._note_defect(Part.SLA, error)
            raise
        return now + ASSESS_EVERY

    def _find_slas(self, known: Snapshot, clock: Now) -> None:
        seconds, slas = self.target.sla_seconds, self.target.class_slas
        if seconds is not None:
            self._sla = sla_of(known, seconds, clock.unix)
        if slas and self._assessed is not None:
            window, times = self._assessed[0], self._response_times
            self._class_slas = class_slas_of(known, slas, times, window, clock.unix)

    def business_tick(self, now: float) -> float:
        """Find the headroom in the units of the business, once for each interval."""
        clock = Now(now, time.time())
        load = self.snapshot.current_load(clock.unix)
        end = None if load is None else load.end
        if not self.target.business_metrics or self._assessed is None or end == self._units_at:
            return now + ASSESS_EVERY
        self._units_at = end  # also where it fails: the same again would fail again
        window, series = self._assessed[0], self.business.series
        written = self._recorder.take_business() if self._recorder is not None else None
        if written is not None:
            self.business.restore(written, clock)
        try:
            self._units = {
                name: headroom_in_unit(values, window, self.snapshot, clock)
                for name, values in series.items()
            }
        except Exception as error:
            self._units = {}
            self._note_defect(Part.BUSINESS_METRICS, error)
            raise
        return now + ASSESS_EVERY

    def _business_states(self, now: Now) -> tuple[BusinessState, ...]:
        unknown = UnitHeadroom(reason=UnitReason.NO_CAPACITY)
        return tuple(
            state_of(
                metric,
                self.business.series[metric.name],
                self._units.get(metric.name, unknown),
                now,
            )
            for metric in self.target.business_metrics
        )

    def class_tick(self, now: float) -> float:
        """Divide what was used over the query classes, once a minute; shown with the next fit."""
        try:
            self._classes.advance(now, time.time())
        except Exception as error:  # its state may be broken: start from scratch
            self._note_defect(Part.CLASSES, error)
            self._classes = ClassMonitor(self._classes.settings)
            raise
        for spent in self._classes.take_new():
            if self._recorder is not None:
                savings = savings_of(self._classes.state, self._fitted.capacity)
                self._recorder.divided(ClassUses(spent, savings))
        return now + ASSESS_EVERY

    def _note_defect(self, part: Part, error: Exception) -> None:
        """Count it for this target; the worker that serves all targets goes on with the others."""
        self.assessment_failures = {
            **self.assessment_failures,
            part: self.assessment_failures.get(part, 0) + 1,
        }
        facts = fields(target=self.target.name, part=part)
        log.error("an assessment failed: %s", located(error), extra=facts)

    def hand_over(self, *, last: bool = False) -> None:
        """Give the history what is new; at the `last`, also what is of no complete interval."""
        if self._recorder is not None:
            clock = Now(time.monotonic(), time.time())
            self._recorder.record(self._history, self._fitted, clock, last=last)

    def _assess(self, now: float) -> Snapshot:
        health = self._current_health()
        clock = Now(now, time.time())
        if self._recorder is not None:
            self._recorder.look(self._history, clock)
        window = self._history.window(now)
        if self._is_assessed(window, clock):
            snapshot = replace(self.snapshot, at=clock.unix, health=health)
        else:
            self._assessed = window, clock  # also where it fails: the same again would fail again
            name, settings = self.target.name, self._settings
            snapshot = assess(name, window, health, self._fitted, settings, clock, self._ceilings)
            self._fitted = snapshot.fitted
        return replace(
            snapshot,
            classes=self._classes.state,
            clock=clock_offset(self._round_trips, now),
            forecast=self._forecaster.state,
            sla=self._sla,
            class_slas=self._class_slas,
            business=self._business_states(clock),
        )

    def _is_assessed(self, window: Window, clock: Now) -> bool:
        """Whether the snapshot is of this very window, and nobody has set the wall clock since."""
        if self._assessed is None:
            return False
        before, then = self._assessed
        return window is before and abs(clock.to_unix(then.monotonic) - then.unix) < CLOCK_SET

    def _current_health(self) -> Health:
        return replace(
            self._health,
            collectors=(*(c.health for c in self._collectors), *self.business.health),
            features=tuple(feature for c in self._collectors for feature in c.features),
        )

    def _connect(self) -> None:
        try:
            self._connection.open()
        except CollectorError as error:
            self._status.failed(error)
            raise
        self.connects += 1
        self._round_trips = ()  # another host may answer at the address
        self._answering = server_identity(self._connection.variables)
        if self._recorder is not None:
            self._recorder.connected(self._connection.variables)
        server = self._connection.flavour
        self._health = replace(self._health, server=server, identity=self._identity())
        facts = fields(target=self.target.name, server=server)
        log.info("connected to %s", self.target.endpoint, extra=facts)
        for collector in self._collectors:
            collector.forget_source()
        self._prepare(self._collectors)

    def _identity(self) -> Identity:
        """A server behind a socket file has this host's name, as it gives it itself."""
        at, variables = self._connection.endpoint, self._connection.variables
        host, port = at.host, str(at.port)
        if at.socket:
            host, port = (variables.get(name, "")[:LONGEST] for name in ("hostname", "port"))
        version = variables.get("version", "")[:LONGEST_VERSION]
        labels = tuple(sorted(self.target.labels.items()))
        return Identity(host, port, version, server_uuid(variables), labels)

    def _prepare(self, collectors: list[ScheduledCollector]) -> None:
        self._prepare_at = time.monotonic() + spread(PREPARE_AGAIN)
        for collector in collectors:
            collector.prepare(self._connection)

    def _keep(self, sample: Sample | None) -> None:
        if sample is None:
            return
        if isinstance(sample.values, HistogramValues):
            self._response_times.append(sample.at, sample.values)
            return
        self._classes.append(sample)
        if OFFSET in sample.values:
            trip = RoundTrip(sample.at, sample.values[OFFSET], sample.values[ROUND_TRIP])
            self._round_trips = add_round_trip(self._round_trips, trip)
        if sample.collector == "digests":
            return
        self._history.append(sample)
        if self._recorder is not None:
            self._recorder.sampled(sample)
        if sample.collector == "status":
            self._backoff.succeeded()
            self._notice_restart(sample)
            queries = sample.values["questions"]
            self._health = replace(self._health, up=True, queries=queries)

    def _notice_restart(self, status: Sample) -> None:
        if self._restarts.is_another(status, Session(self.connects, self._connection.id)):
            self._health = replace(self._health, restarts=self._health.restarts + 1)
            log.warning("the server has restarted", extra=fields(target=self.target.name))

    def _lost(self) -> float:
        """The session is gone, and said to be: try again later."""
        self._connection.close()
        self._health = replace(self._health, up=False)
        self._retry_at = time.monotonic() + self._backoff.failed()
        return self._retry_at


def _scheduled(
    config: Config, target: Target, offered: Sequence[CollectorSpec]
) -> list[ScheduledCollector]:
    """The collectors that are switched on for this target, in the order of the table."""
    scheduled = []
    for spec in offered:
        settings = config.collector_settings(target, spec.name)
        if settings.enabled:
            interval = settings.interval or spec.interval
            scheduled.append(ScheduledCollector(target.name, spec, interval))
    return scheduled


def _say_changes(before: Snapshot, after: Snapshot) -> None:
    """One line when the target's state or the fit's trust is another."""
    if before.health.up != after.health.up and after.health.up:
        log.info("up", extra=fields(target=after.target, server=after.health.server))
    old, new = before.fitted.capacity, after.fitted.capacity
    if new is not None and (old is None or old.trust != new.trust):
        facts = fields(
            target=after.target,
            trust=new.trust,
            capacity=new.value,
            limit=new.limit,
            reasons=",".join(new.reasons),
        )
        log.info("capacity", extra=facts)
