"""The history of one target, as its monitor uses it: writing new data and reading it back."""

import logging
import math
from collections import deque
from dataclasses import replace

from agent.assessment import recent_load
from agent.assessment.hourly_load import KEPT_HOURS
from agent.assessment.load_by_time_step import LoadSum
from agent.assessment.snapshot import AssessmentState
from agent.history.business_values import ReadValue, UnixValue, business_rows
from agent.history.row_mapping import (
    ClassUses,
    class_rows,
    fit_row,
    in_milliseconds,
    interval_row,
    sample_chunks,
)
from agent.history.server_identity import MAX_NEW_SERVERS, Identities
from agent.history.store import BusinessFuture, LoadFuture, Store, WindowFuture
from agent.history.wall_clock_check import MAX_DIFFERENCE_SECONDS
from agent.history.window_reader import WindowQuery
from agent.history.write_buffer import Batch
from agent.support.clock_pair import ClockPair
from agent.support.logs import fields
from agent.support.queue_drain import take_all
from agent.window.interval_buffer import IntervalBuffer
from collectors.base import Sample
from models.forecast.hourly_means import HOUR_SECONDS
from models.forecast.next_hour import STEP_SECONDS

log = logging.getLogger(__name__)

RECORDED_COLLECTORS = ("status", "statements", "threads", "host")
"""Collectors whose samples are written, to make intervals of. No statement text is written."""
FLUSH_SAMPLES = 100  # samples that are written before their interval is complete
MAX_SAMPLES = 5000  # samples that wait to be written
MAX_CLASS_USES = 60  # intervals of query classes that wait to be written
MAX_VALUES = 1000  # values of business metrics that wait to be written


class HistoryRecorder:
    """Writes new data after each interval, and reads back once the server's identity is known.

    `keep_sample` and `keep_value` are called by the workers that read, all other methods by the one
    that assesses.
    """

    def __init__(self, store: Store, target: str) -> None:
        self._store = store
        self._target = target
        self._samples: deque[Sample] = deque(maxlen=MAX_SAMPLES)
        self.server: str | None = None  # the server whose intervals the window holds
        self._identities = Identities()
        self.refused_server: str | None = None  # a server whose data is not written
        self._requested_at = ClockPair(0.0, 0.0)  # when the stored data was requested
        self._found_nothing = False  # whether the window read back had no interval
        self._window: WindowFuture | None = None
        self._load: LoadFuture | None = None
        self._recent_load: LoadFuture | None = None
        self._fit_at: float | None = None
        self._uses: deque[ClassUses] = deque(maxlen=MAX_CLASS_USES)
        self._values: deque[ReadValue] = deque(maxlen=MAX_VALUES)
        self._business: BusinessFuture | None = None

    def continue_from(self, before: "HistoryRecorder") -> None:
        """Continue from another recorder, so that nothing is read back a second time."""
        self.server, self._window, self._fit_at = before.server, before._window, before._fit_at
        self._load, self._recent_load = before._load, before._recent_load
        self._business = before._business
        self._requested_at, self._found_nothing = before._requested_at, before._found_nothing
        self._identities, self.refused_server = before._identities, before.refused_server

    def request_window(self, buffer: IntervalBuffer, now: ClockPair) -> None:
        """Request the stored intervals of the present server, for a buffer that can hold more."""
        if self.server is not None:
            since, until = now.unix - buffer.horizon, now.unix
            self._window = self._store.read_window(self._query(self.server, buffer, since, until))

    def keep_sample(self, sample: Sample) -> None:
        """Keep a sample until its interval is written."""
        if sample.collector in RECORDED_COLLECTORS and self._store.settings.retention.samples:
            self._samples.append(sample)

    def keep_class_uses(self, uses: ClassUses) -> None:
        """Keep what query classes used in an interval until the next assessment is written."""
        self._uses.append(uses)

    def keep_value(self, value: ReadValue) -> None:
        """Keep a value of a business metric until the next interval is written."""
        self._values.append(value)

    def follow_server(self, buffer: IntervalBuffer, now: ClockPair) -> None:
        """Follow a change of the buffer's server, and restore what was read back.

        Called before an assessment.
        """
        server = buffer.server
        if server is not None and server != self.server:
            if self._identities.admits(server, now.monotonic):
                self._switch_to_server(server, buffer, now)
            else:
                self._refuse_server(server)
        if self._window is not None and self._window.done():
            future, self._window = self._window, None
            found = future.result().shifted(now.monotonic - now.unix)
            self._found_nothing = len(found) == 0
            buffer.restore(found)
            facts = fields(target=self._target, intervals=len(found))
            log.info("read back from the history", extra=facts)
        elif self._found_nothing and self.server is not None:
            self._request_if_clock_was_set(self.server, buffer, now)

    def take_load(self) -> list[LoadSum] | None:
        """Return the hourly load of the days before, once it has been read back; else None."""
        if self._load is None or not self._load.done():
            return None
        future, self._load = self._load, None
        return future.result()

    def take_recent_load(self) -> list[LoadSum] | None:
        """Return the load of the last week in the steps of `RecentLoad`, in the same way."""
        if self._recent_load is None or not self._recent_load.done():
            return None
        future, self._recent_load = self._recent_load, None
        return future.result()

    def take_business(self) -> dict[str, list[UnixValue]] | None:
        """Return earlier values of business metrics, once they have been read back; else None."""
        if self._business is None or not self._business.done():
            return None
        future, self._business = self._business, None
        return future.result()

    def record(
        self,
        buffer: IntervalBuffer,
        fitted: AssessmentState,
        now: ClockPair,
        *,
        last: bool = False,
    ) -> None:
        """Queue what is new for writing, with each interval and at the `last`.

        Called after an assessment.
        """
        new = buffer.take_new()
        is_due = new or last or self._uses or len(self._samples) >= FLUSH_SAMPLES
        if self.server is None or not is_due:
            return
        labels = (self._target, self.server)
        row = fit_row(labels, fitted) if fitted.at != self._fit_at else None
        self._fit_at = fitted.at
        samples = take_all(self._samples)
        batch = Batch(
            *labels,
            [interval_row(labels, interval, now) for interval in new],
            [row] if row else [],
            sample_chunks(samples, now),
            [row for uses in take_all(self._uses) for row in class_rows(labels, uses)],
            business=business_rows(labels, take_all(self._values), now),
        )
        if batch.bytes:
            self._store.put(batch)

    def _refuse_server(self, server: str) -> None:
        """Stop writing for a server beyond the limit; it still has a window of its own."""
        if server == self.refused_server:
            return
        self.server, self._window, self.refused_server = None, None, server
        self._load = self._recent_load = self._business = None
        facts = fields(target=self._target, most=MAX_NEW_SERVERS)
        log.warning(
            "too many servers in a day: this one is not written to the history", extra=facts
        )

    def _switch_to_server(self, server: str, buffer: IntervalBuffer, now: ClockPair) -> None:
        """Begin with another server, which does not share the former one's data."""
        if self.server is not None or self.refused_server is not None:
            self._samples.clear()
            self._uses.clear()
            self._values.clear()
        self.refused_server, self.server = None, server
        self._request(server, buffer, now, -math.inf, now.unix)

    def _request_if_clock_was_set(
        self, server: str, buffer: IntervalBuffer, now: ClockPair
    ) -> None:
        """Request again what was not found by another clock, as of a machine that just booted.

        Rows that this run has written by that clock are left out.
        """
        began, before = self._requested_at.unix, self._requested_at.to_unix(now.monotonic)
        if now.unix > before + MAX_DIFFERENCE_SECONDS:
            self._request(server, buffer, now, before, now.unix)
        elif now.unix < before - MAX_DIFFERENCE_SECONDS:
            self._request(server, buffer, now, -math.inf, min(began, now.unix))

    def _request(
        self, server: str, buffer: IntervalBuffer, now: ClockPair, since: float, until: float
    ) -> None:
        """Request all that was stored from `since` to `until` (Unix s) and is not too old."""
        self._requested_at, self._found_nothing = now, False
        wanted = self._query(server, buffer, max(since, now.unix - buffer.horizon), until)
        self._window = self._store.read_window(wanted)
        self._business = self._store.business(wanted)
        self._load, self._recent_load = (
            self._store.load(
                replace(wanted, since=in_milliseconds(max(since, now.unix - width * count))), width
            )
            for width, count in (
                (HOUR_SECONDS, KEPT_HOURS),
                (STEP_SECONDS, recent_load.KEPT_STEPS),
            )
        )

    def _query(
        self, server: str, buffer: IntervalBuffer, since: float, until: float
    ) -> WindowQuery:
        """Return which stored intervals are wanted; times in Unix seconds."""
        times = in_milliseconds(since), in_milliseconds(until)
        return WindowQuery(self._target, server, buffer.width, *times)
