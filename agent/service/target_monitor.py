"""The monitor of one target: a session that reads it, and assessments that make its snapshot."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from operator import is_
from typing import TYPE_CHECKING

from agent.assessment.cadence import is_due
from agent.assessment.forecaster import Forecaster
from agent.assessment.snapshot import AssessmentState, BusinessState, Health, Snapshot
from agent.business_metrics.reader import BusinessMetricsReader
from agent.business_metrics.unit_headroom import business_state, headroom_in_unit
from agent.config.settings import Config, Target
from agent.history.history_recorder import HistoryRecorder
from agent.history.row_mapping import ClassUses
from agent.history.store import Store
from agent.pipeline import assess
from agent.query_classes.assessment import ClassMonitor
from agent.query_classes.capacity_gain import capacity_gains
from agent.sampling.target_collectors import collectors_of
from agent.service.inferred_state import IntervalResults, ServerState
from agent.service.target_session import TargetSession, scheduled_collectors
from agent.support.clock_pair import ClockPair
from agent.support.logs import describe_error, fields
from agent.window.interval_buffer import IntervalBuffer
from agent.window.intervals import Window
from collectors import CollectorSpec
from collectors.base import Sample
from collectors.histograms import HistogramValues
from models.business_metric_headroom import UnitHeadroom, UnitReason

if TYPE_CHECKING:
    from agent.replay.recording_opener import ReplayOptions

log = logging.getLogger(__name__)

ASSESSMENT_SECONDS = 1.0  # seconds between two checks for a complete interval
MIN_CLOCK_STEP = 0.5  # seconds; if it is off by more, the wall clock has been set


class AssessmentPart(StrEnum):
    """A part of a target's assessment, which can fail without the others."""

    CAPACITY = "capacity"
    CLASSES = "classes"
    FORECAST = "forecast"
    SLA = "sla"
    BUSINESS_METRICS = "business_metrics"


class TargetMonitor:
    """Monitors one target, by ticks that workers run; each returns when to run it again.

    `server_tick` and `host_tick`, run by two workers, fill `buffer` with samples. A third worker
    runs all others: `assessment_tick` assesses the window and replaces `snapshot` by one
    assignment, `class_tick` divides the used resources over the query classes, `forecast_tick`
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
        self._resources = config.resource_settings(target)
        offered = collectors_of(config, target) if collectors is None else collectors
        enabled = scheduled_collectors(config, target, offered)
        self.recorder = HistoryRecorder(store, target.name) if store else None
        keep = self.recorder.keep_value if self.recorder is not None else None
        self.business = BusinessMetricsReader(target, keep)
        self.session = TargetSession(target, enabled, self._handle_sample, self.business.connection)
        self.buffer = IntervalBuffer(
            self._settings.interval,
            self._settings.window,
            self.session.sampling,
            config.phase(target),
        )
        classes = ClassMonitor(config.classes, self.session.resource_sampling)
        self._state = ServerState.new(target.name, classes, time.monotonic())
        self._results = IntervalResults()
        self._assessed_input: tuple[Window, ClockPair] | None = None
        """The window and the time that the snapshot is based on."""
        self._composed_of: tuple[object, ...] = ()
        """The sources and results that the snapshot was composed of."""
        self.assessment_failures: Mapping[str, int] = {}
        self.assessment_seconds: float | None = None  # duration of the latest assessment
        self.snapshot = self._assess(time.monotonic())

    @property
    def connects(self) -> int:
        """The number of sessions opened so far."""
        return self.session.connects

    def close(self) -> None:
        """End the session on the server."""
        self.session.close()

    def interrupt(self) -> None:
        """End a read in progress, and its session; called from another thread."""
        self.session.interrupt()
        self.business.interrupt()

    @property
    def replay_options(self) -> "ReplayOptions":
        """The present settings, to replay its history file, whatever the width of its intervals."""
        from agent.replay.recording_opener import ReplayOptions

        settings, ceilings = self._settings, self._resources
        return ReplayOptions(self.target.name, settings=settings, ceilings=ceilings)

    def progress(self) -> object:
        """Return a value that changes whenever the server has answered; see `Worker`."""
        return self.session.progress()

    def take_over(self, before: "TargetMonitor") -> None:
        """Continue the window of an ending monitor of the same address and interval width.

        A longer window is read back from the history, as after a restart.
        """
        if str(self.session.endpoint) != str(before.session.endpoint):  # without TLS and keys
            return
        self.session.take_over(before.session)
        self.buffer.server = before.buffer.server
        self.business.take_over(before.business)
        ours, theirs = self._state, before._state
        if self.target.class_slas == before.target.class_slas:
            ours.response_times = theirs.response_times
        ours.forecaster, ours.recent = theirs.forecaster, theirs.recent
        if ours.classes.continues(theirs.classes):
            ours.classes = theirs.classes
        ours.assessed = AssessmentState(outlier_counts=theirs.assessed.outlier_counts)
        if self.buffer.width != before.buffer.width:
            self.snapshot = replace(self.snapshot, health=before.snapshot.health)
            return
        self.buffer.copy_window_from(before.buffer)
        if self.recorder is not None and before.recorder is not None:
            self.recorder.continue_from(before.recorder)
            if self.buffer.horizon > before.buffer.horizon:
                now = ClockPair(time.monotonic(), time.time())
                self.recorder.request_window(self.buffer, now)
        self.snapshot = before.snapshot

    def server_tick(self, now: float) -> float:
        """Run the due collectors of the server; return when to run again."""
        return self.session.read_server(now)

    def host_tick(self, now: float) -> float:
        """Run the due collectors of the server's host; return when to run again."""
        return self.session.read_host(now)

    def assessment_tick(self, now: float) -> float:
        """Assess the target and publish the snapshot; break off overdue answers."""
        self.session.interrupt_if_overdue(now)
        self.business.interrupt_if_overdue(now)
        before = self.snapshot
        self._reset_if_server_changed(now)
        try:
            self.snapshot = self._assess(now)
        except Exception as error:  # a defect there must not hide that a server is down
            self._record_failure(AssessmentPart.CAPACITY, error)
            assessed = replace(
                before.assessed, waiting=f"the assessment failed: {describe_error(error)}"
            )
            health = self._current_health()
            self.snapshot = replace(before, at=time.time(), health=health, assessed=assessed)
            raise
        if self.snapshot.assessed.at != before.assessed.at:
            self.assessment_seconds = time.monotonic() - now
        _log_changes(before, self.snapshot)
        self.record_new_data()
        return now + ASSESSMENT_SECONDS

    def _reset_if_server_changed(self, now: float) -> None:
        """Discard all results when another server answers at the address."""
        server = self.session.server
        if server is not None and self.buffer.switch_server(server):
            facts = fields(target=self.target.name, server=server)
            log.warning(
                "a different server answers at this address: a new window begins", extra=facts
            )
            self._state = ServerState.new(self.target.name, self._state.classes.restarted(), now)
            self._results = IntervalResults()
            self.session.read_all_again()  # the first readings were of the former state
            self.business.clear()

    def forecast_tick(self, now: float) -> float:
        """Forecast when the load reaches the capacity, once an hour; the next snapshot has it."""
        clock = ClockPair(now, time.time())
        try:
            load = self.recorder.take_load() if self.recorder is not None else None
            if load is not None:
                self._state.forecaster.restore(load, now)
            if self._assessed_input is not None:
                self._state.forecaster.observe(self._assessed_input[0], clock)
            self._state.forecaster.update_if_due(self.snapshot.capacity(clock.unix), clock)
        except Exception as error:  # its state may be broken: start from scratch
            self._record_failure(AssessmentPart.FORECAST, error)
            self._state.forecaster = Forecaster(self.target.name, now)
            raise
        return now + ASSESSMENT_SECONDS

    def sla_tick(self, now: float) -> float:
        """Find the load that reaches the SLAs, once per interval; the next snapshot has it."""
        if self.target.sla_seconds is None and not self.target.class_slas:
            return now + ASSESSMENT_SECONDS
        known, clock = self.snapshot, ClockPair(now, time.time())
        load = known.current_load(clock.unix)
        end = None if load is None else load.end
        if end == self._results.sla_at:
            return now + ASSESSMENT_SECONDS
        self._results.sla_at = end  # even if it fails: it would fail again
        try:
            self._find_slas(known, clock)
        except Exception as error:
            self._results.sla = self._results.class_slas = None
            self._record_failure(AssessmentPart.SLA, error)
            raise
        return now + ASSESSMENT_SECONDS

    def _find_slas(self, known: Snapshot, clock: ClockPair) -> None:
        """Find both kinds of SLA; their modules are loaded where a target has one."""
        from agent.what_if.class_sla import class_slas_of
        from agent.what_if.target_sla import sla_of

        seconds, slas = self.target.sla_seconds, self.target.class_slas
        if seconds is not None:
            self._results.sla = sla_of(known, seconds, clock.unix)
        if slas and self._assessed_input is not None:
            window, times = self._assessed_input[0], self._state.response_times
            self._results.class_slas = class_slas_of(known, slas, times, window, clock)

    def business_tick(self, now: float) -> float:
        """Compute the headroom in the units of the business metrics, once per interval."""
        if not self.target.business_metrics or self._assessed_input is None:
            return now + ASSESSMENT_SECONDS
        clock = ClockPair(now, time.time())
        load = self.snapshot.current_load(clock.unix)
        end = None if load is None else load.end
        if end == self._results.units_at:
            return now + ASSESSMENT_SECONDS
        self._results.units_at = end  # even if it fails: it would fail again
        window, series = self._assessed_input[0], self.business.series
        stored = self.recorder.take_business() if self.recorder is not None else None
        if stored is not None:
            self.business.restore(stored, clock)
        try:
            self._results.units = {
                name: headroom_in_unit(values, window, self.snapshot, clock)
                for name, values in series.items()
            }
        except Exception as error:
            self._results.units = {}
            self._record_failure(AssessmentPart.BUSINESS_METRICS, error)
            raise
        return now + ASSESSMENT_SECONDS

    def _business_states(self, now: ClockPair) -> tuple[BusinessState, ...]:
        """Return the state of each business metric, in the order of the configuration."""
        unknown = UnitHeadroom(reason=UnitReason.NO_CAPACITY)
        return tuple(
            business_state(
                metric,
                self.business.series[metric.name],
                self._results.units.get(metric.name, unknown),
                now,
            )
            for metric in self.target.business_metrics
        )

    def class_tick(self, now: float) -> float:
        """Divide what was used over the query classes, once a minute; the next snapshot has it."""
        try:
            self._state.classes.advance(now, time.time())
        except Exception as error:  # its state may be broken: start from scratch
            self._record_failure(AssessmentPart.CLASSES, error)
            self._state.classes = self._state.classes.restarted()
            self.session.read_all_again()
            raise
        for usage in self._state.classes.take_new_usage():
            if self.recorder is not None:
                gains = capacity_gains(self._state.classes.state, self._state.assessed.capacity)
                self.recorder.keep_class_uses(ClassUses(usage, gains))
        return now + ASSESSMENT_SECONDS

    def _record_failure(self, part: AssessmentPart, error: Exception) -> None:
        """Count and log a failed part; the worker, which all targets share, continues."""
        self.assessment_failures = {
            **self.assessment_failures,
            part: self.assessment_failures.get(part, 0) + 1,
        }
        facts = fields(target=self.target.name, part=part)
        log.error("an assessment failed: %s", describe_error(error), extra=facts)

    def record_new_data(self, *, last: bool = False) -> None:
        """Pass new data to the history file; the `last` time, also data of incomplete intervals."""
        if self.recorder is not None:
            clock = ClockPair(time.monotonic(), time.time())
            self.recorder.record(self.buffer, self._state.assessed, clock, last=last)

    def _assess(self, now: float) -> Snapshot:
        """Return the snapshot at `now` (monotonic s); a new window or clock is assessed.

        The former snapshot is returned if nothing has changed since.
        """
        clock = ClockPair(now, time.time())
        if self.recorder is not None:
            self.recorder.follow_server(self.buffer, clock)
        sources = self.session.sources  # before their use: other workers replace them meanwhile
        window = self.buffer.window(now)
        if not self._is_assessed(window, clock):
            snapshot = self._assess_window(window, clock)
        elif self._is_composed_of(sources):
            return self.snapshot
        else:
            snapshot = replace(self.snapshot, at=clock.unix, health=self._current_health())
        self._composed_of = (*sources, *self._own_results())
        return replace(
            snapshot,
            classes=self._state.classes.state,
            clock_offset=self.session.clock(now),
            replication=self.session.replication(now),
            forecast=self._state.forecaster.state,
            outlook=self._results.outlook,
            sla=self._results.sla,
            class_slas=self._results.class_slas,
            business=self._business_states(clock),
        )

    def _assess_window(self, window: Window, clock: ClockPair) -> Snapshot:
        """Assess a new window, and estimate how far the load may rise."""
        health = self._current_health()
        self._assessed_input = window, clock  # even if it fails: it would fail again
        name, settings, assessed = self.target.name, self._settings, self._state.assessed
        snapshot = assess(
            name,
            window,
            health,
            assessed,
            settings,
            clock,
            self._resources,
            is_due=is_due(window, assessed, settings, clock),
        )
        self._state.assessed = snapshot.assessed
        self._update_outlook(window, clock)
        return snapshot

    def _own_results(self) -> tuple[object, ...]:
        """Return the results of this worker in a snapshot; each new one is another object."""
        state, results = self._state, self._results
        return (
            state.classes.state,
            state.forecaster.state,
            results.outlook,
            results.sla,
            results.class_slas,
        )

    def _is_composed_of(self, sources: tuple[object, ...]) -> bool:
        """Return whether the snapshot is of these and the worker's results.

        Business metrics always change.
        """
        results = (*sources, *self._own_results())
        return not self.target.business_metrics and all(map(is_, self._composed_of, results))

    def _update_outlook(self, window: Window, clock: ClockPair) -> None:
        """Estimate how far the load may rise within the next hour."""
        stored = self.recorder.take_recent_load() if self.recorder is not None else None
        if stored is not None:
            self._state.recent.restore(stored)
        self._state.recent.observe(window, clock)
        self._results.outlook = self._state.recent.outlook(clock)

    def _is_assessed(self, window: Window, clock: ClockPair) -> bool:
        """Return whether the snapshot is of this window and the wall clock was not set since."""
        if self._assessed_input is None:
            return False
        before, then = self._assessed_input
        return window is before and abs(clock.to_unix(then.monotonic) - then.unix) < MIN_CLOCK_STEP

    def _current_health(self) -> Health:
        """Return the target's health, with the collectors of the business metrics."""
        health = self.session.health
        return replace(health, collectors=(*health.collectors, *self.business.health))

    def _handle_sample(self, sample: Sample) -> None:
        """Pass a sample to its consumers: response times, query classes, buffer and history."""
        if isinstance(sample.values, HistogramValues):
            self._state.response_times.append(sample.at, sample.values)
            return
        self._state.classes.append(sample)
        if sample.collector == "digests":
            return
        self.buffer.append(sample)
        if self.recorder is not None:
            self.recorder.keep_sample(sample)


def _log_changes(before: Snapshot, after: Snapshot) -> None:
    """Log when the target comes up, and when the trust in its capacity changes."""
    if before.health.up != after.health.up and after.health.up:
        log.info("up", extra=fields(target=after.target, server=after.health.server))
    old, new = before.assessed.capacity, after.assessed.capacity
    if new is not None and (old is None or old.trust != new.trust):
        facts = fields(
            target=after.target,
            trust=new.trust,
            capacity=new.value,
            limit=new.limit,
            reasons=",".join(new.reasons),
        )
        log.info("capacity", extra=facts)
