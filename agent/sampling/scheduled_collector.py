"""One collector of one target on its schedule: when it is due, what it offers, its status."""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable

from agent.sampling.collector_health import CollectorHealth
from agent.support.logs import fields, located
from collectors import CollectorSpec
from collectors.base import CollectorError, FailureKind, Feature, Prepared, Sample, Values
from collectors.connection import Connection

log = logging.getLogger(__name__)

MAX_PAUSE = 30.0  # seconds after a reading that took more than its share of the time
ROUNDING = 1e-6  # of an interval, by which a turn may begin before its time
MAX_PENALTY = 64  # a collector that is cut off waits up to this many of its intervals


class ScheduledCollector:
    """Reads its collector at most once an interval; a missed turn is counted, never made up for."""

    def __init__(
        self,
        target: str,
        spec: CollectorSpec,
        interval: float,
        *,
        alone: float | None = None,
        phase: float = 0.0,
    ) -> None:
        """Read every `interval` seconds, at `phase` after its multiples on the monotonic clock.

        `alone` is the interval where no other source has what this one only counts at instants.
        """
        self.spec = spec
        self.interval = interval
        self._intervals = (interval, interval if alone is None else alone)
        self._phase = phase
        self.due = 0.0
        self.features: tuple[Feature, ...] = ()
        self.health = CollectorHealth(spec.name)
        self.failure: FailureKind | None = None  # of the latest turn
        self._target = target
        self._read: Callable[[], Values] | None = None
        self._penalty = 1
        self._skipped = 0
        self._failures: Counter[FailureKind] = Counter()

    @property
    def complete(self) -> bool:
        """Whether the source offers all that this collector can read, and still lets it."""
        granted = self._read is not None and self.failure is not FailureKind.PRIVILEGE
        return granted and all(feature.enabled for feature in self.features)

    def prepare(self, connection: Connection) -> None:
        """Look at the source; what is missing is said when it changes.

        Raises `CollectorError` where the session has ended.
        """
        try:
            prepared = self.spec.prepare(connection)
        except Exception as error:
            if self.failed(as_failure(error)).ends_session:
                raise
            prepared = Prepared(None, (Feature(self.spec.name, False, self.health.last_error),))
        self._read = prepared.read
        self._penalty = 1
        self._say_changes(prepared.features)
        self.features = prepared.features

    @property
    def reads(self) -> bool:
        """Whether the source could be read when it was looked at last."""
        return self._read is not None

    def read_alone(self, alone: bool) -> None:
        """Read as often as it takes where no other source has the same, or where one has."""
        self.interval = self._intervals[alone]

    def forget_source(self) -> None:
        """The session or the process is gone: nothing to read until it is prepared again."""
        self._read = None
        self.due = 0.0

    def run(self, now: float) -> Sample | None:
        """Read once and set the next turn; raises `CollectorError` where the session has ended."""
        self._set_due(now)
        if self._read is None:
            return None
        started = time.monotonic()
        try:
            values = self._read()
        except Exception as error:
            spent = time.monotonic() - started
            if self.failed(as_failure(error), spent).ends_session:
                raise
            self._pause(spent / self.spec.most_share)
            return None
        ended = time.monotonic()
        self._penalty, self.failure = 1, None
        self._pause((ended - started) / self.spec.most_share)
        self._note(True, ended - started, "")
        return Sample(self.spec.name, ended, values, ended - started)

    def failed(self, error: CollectorError, duration: float | None = None) -> FailureKind:
        """Count a failure and say it when it is new; who was cut off waits longer each time.

        Answers its kind: who keeps the error itself keeps its traceback, and that refers to it.
        """
        self.failure = error.kind
        if error.kind is FailureKind.SLOW and not self.spec.vital:
            self._penalty = min(2 * self._penalty, MAX_PENALTY)
            if self.due:  # else at once: no reading has begun
                self.due += (self._penalty - 1) * self.interval
        text = str(error)  # whoever keeps the record must not keep the session
        if self.health.last_error != text:
            facts = fields(target=self._target, collector=self.spec.name, kind=error.kind)
            log.warning("cannot read: %s", text, extra=facts)
        self._failures[error.kind] += 1
        self._note(False, duration, text)
        return error.kind

    def _pause(self, seconds: float) -> None:
        """After a reading that cost more than its share: leave turns out, without a count."""
        if self.spec.most_share < 1:
            turns = math.ceil(min(seconds, MAX_PAUSE) / self.interval)
            self.due += max(0, turns - 1) * self.interval

    def _set_due(self, now: float) -> None:
        """The next run on this collector's grid; runs that were missed are skipped and counted."""
        due = self.due or now  # once: another worker may set it back to 0 at any time
        self._skipped += max(0, int((now - due) // self.interval))
        latest = max(now, due) + ROUNDING * self.interval
        turn = math.floor((latest - self._phase) / self.interval) + 1
        self.due = self._phase + turn * self.interval

    def _note(self, success: bool, duration: float | None, error: str) -> None:
        self.health = CollectorHealth(
            self.spec.name,
            success,
            duration,
            self._skipped,
            dict(self._failures),
            error,
            time.time() if success else self.health.last_at,
        )

    def _say_changes(self, features: tuple[Feature, ...]) -> None:
        before = {feature.name: feature for feature in self.features}
        for feature in features:
            facts = fields(target=self._target, feature=feature.name)
            if feature.enabled and feature.name in before and not before[feature.name].enabled:
                log.info("available now", extra=facts)
            elif not feature.enabled and before.get(feature.name) != feature:
                facts = fields(target=self._target, feature=feature.name, remedy=feature.remedy)
                log.warning("not available: %s", feature.reason, extra=facts)


def as_failure(error: Exception) -> CollectorError:
    """A collector's failure; its defect too, at an answer that it did not expect, is one."""
    if isinstance(error, CollectorError):
        return error
    return CollectorError(FailureKind.UNREADABLE, f"not understood: {located(error)}")
