"""One collector of one target on its schedule: its due time, its features and its health."""

import logging
import math
import re
import time
from collections import Counter
from collections.abc import Callable

from agent.sampling.collector_health import CollectorHealth
from agent.support.logs import describe_error, fields
from collectors import CollectorSpec
from collectors.base import CollectorError, FailureKind, Feature, Prepared, Sample, Values
from collectors.connection import Connection

log = logging.getLogger(__name__)

MAX_PAUSE = 30.0  # seconds at most after a reading that took more than its share of time
ROUNDING = 1e-6  # share of an interval by which a run may begin early
NUMBERS = re.compile(r"\d+")
"""Numbers, in which two messages of one failure may differ."""
MAX_PENALTY = 64  # intervals, at most, between runs of a collector whose statement was aborted


class ScheduledCollector:
    """Reads its collector at most once an interval; a missed run is counted, never repeated."""

    def __init__(
        self,
        target: str,
        spec: CollectorSpec,
        interval: float,
        *,
        interval_alone: float | None = None,
        phase: float = 0.0,
    ) -> None:
        """Read every `interval` seconds, at `phase` after its multiples on the monotonic clock.

        `interval_alone` counts where this collector, which counts only at instants, is the only
        source of its quantity.
        """
        self.spec = spec
        self.interval = interval
        self._intervals = (interval, interval if interval_alone is None else interval_alone)
        self._phase = phase
        self.due = 0.0
        self.features: tuple[Feature, ...] = ()
        self.health = CollectorHealth(spec.name)
        self.failure: FailureKind | None = None  # of the latest run
        self._target = target
        self._latest: dict[str, Feature] = {}  # features by name, as any session found them last
        self._prepared = Prepared(None, ())
        self._read: Callable[[], Values] | None = None
        self._penalty = 1
        self._skipped = 0
        self._failures: Counter[FailureKind] = Counter()

    @property
    def is_complete(self) -> bool:
        """Whether the source offers all that this collector can read, and still permits it."""
        return self.is_permitted and all(feature.enabled for feature in self.features)

    @property
    def is_permitted(self) -> bool:
        """Whether the source was readable when last prepared, and has refused no reading since."""
        return self.is_readable and self.failure is not FailureKind.PRIVILEGE

    def prepare(self, connection: Connection) -> None:
        """Examine the source; log a feature that became available, or is absent for a new reason.

        A source that still offers the same keeps its reader, which may sum up what it has read.
        Raises `CollectorError` where the session has ended.
        """
        try:
            prepared = self.spec.prepare(connection)
        except Exception as error:
            if self.record_failure(as_collector_error(error)).ends_session:
                raise
            prepared = Prepared(None, (Feature(self.spec.name, False, self.health.last_error),))
        before = self._read  # only once: another worker may forget it at any time
        if not (prepared.read and before and prepared.features == self._prepared.features):
            self._prepared, self._read = prepared, prepared.read
        self._penalty = 1
        if self.spec.awaits_schedule and not self.due:
            self._set_due(time.monotonic())
        self._update_features()

    @property
    def is_readable(self) -> bool:
        """Whether the source could be read when it was last prepared."""
        return self._read is not None

    def set_only_source(self, alone: bool) -> None:
        """Choose the interval for the only source of a quantity, or for one of several."""
        self.interval = self._intervals[alone]

    def forget_source(self) -> None:
        """Read nothing until the source is prepared again: its session or process has ended."""
        self._read = None
        self.due = 0.0

    def run(self, now: float) -> Sample | None:
        """Read once and schedule the next run; raises `CollectorError` if the session has ended."""
        self._set_due(now)
        read = self._read  # only once: another worker may forget it at any time
        if read is None:
            return None
        started = time.monotonic()
        try:
            values = read()
        except Exception as error:
            spent = time.monotonic() - started
            if self.record_failure(as_collector_error(error), spent).ends_session:
                raise
            self._skip_runs(spent / self.spec.max_share)
            return None
        ended = time.monotonic()
        self._penalty, self.failure = 1, None
        self._skip_runs((ended - started) / self.spec.max_share)
        self._update_health(True, ended - started, "")
        self._update_features()
        return Sample(self.spec.name, ended, values, ended - started)

    def record_failure(self, error: CollectorError, duration: float | None = None) -> FailureKind:
        """Count a failure, log it if it is new, and return its kind.

        A statement that the server aborts makes the collector wait longer each time. The kind is
        returned and not the error: an error that is kept keeps its traceback, which refers to it.
        """
        self.failure = error.kind
        if error.kind is FailureKind.SLOW and not self.spec.is_vital:
            self._penalty = min(2 * self._penalty, MAX_PENALTY)
            if self.due:  # 0 means at once: no reading has begun
                self.due += (self._penalty - 1) * self.interval
        text = str(error)  # a log record that is kept must not keep the session
        if NUMBERS.sub("", text) != NUMBERS.sub("", self.health.last_error):
            facts = fields(target=self._target, collector=self.spec.name, kind=error.kind)
            log.warning("cannot read: %s", text, extra=facts)
        self._failures[error.kind] += 1
        self._update_health(False, duration, text)
        return error.kind

    def _skip_runs(self, seconds: float) -> None:
        """Leave out runs, uncounted, after a reading that took more than its share of the time."""
        if self.spec.max_share < 1:
            runs = math.ceil(min(seconds, MAX_PAUSE) / self.interval)
            self.due += max(0, runs - 1) * self.interval

    def _set_due(self, now: float) -> None:
        """Schedule the next run on this collector's grid; missed runs are skipped and counted."""
        due = self.due or now  # read once: another worker may reset it to 0 at any time
        self._skipped += max(0, int((now - due) // self.interval))
        latest = max(now, due) + ROUNDING * self.interval
        number = math.floor((latest - self._phase) / self.interval) + 1
        self.due = self._phase + number * self.interval

    def _update_health(self, success: bool, duration: float | None, error: str) -> None:
        self.health = CollectorHealth(
            self.spec.name,
            success,
            duration,
            self._skipped,
            dict(self._failures),
            error,
            time.time() if success else self.health.last_at,
        )

    def _update_features(self) -> None:
        """Note what the source offers, also by its latest reading."""
        prepared = self._prepared
        features = (*prepared.features, *prepared.features_read())
        if features != self.features:
            self._log_changes(features)
            self.features = features

    def _log_changes(self, features: tuple[Feature, ...]) -> None:
        """Log each feature that became available, or absent for a new reason."""
        for feature in features:
            before, self._latest[feature.name] = self._latest.get(feature.name), feature
            facts = fields(target=self._target, feature=feature.name)
            if feature.enabled and before and not before.enabled:
                log.info("available now", extra=facts)
            elif not feature.enabled and before != feature:
                facts = fields(target=self._target, feature=feature.name, remedy=feature.remedy)
                log.warning("not available: %s", feature.reason, extra=facts)


def as_collector_error(error: Exception) -> CollectorError:
    """Convert an exception to a `CollectorError`, also a defect at an unexpected answer."""
    if isinstance(error, CollectorError):
        return error
    return CollectorError(FailureKind.UNREADABLE, f"unexpected answer: {describe_error(error)}")
