"""Reader of a target's business metrics, each on its schedule, with a session of their own.

The pause of a query that is cut off doubles each time, as with other collectors. The session is
closed if the next query is more than a minute away.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from agent.business_metrics.value_series import ValueSeries
from agent.config.business_metrics import BusinessMetric, PrometheusQuery
from agent.config.settings import Target
from agent.history.business_values import ReadValue, UnixValue
from agent.prometheus.client import Client
from agent.sampling.collector_health import CollectorHealth
from agent.sampling.scheduled_collector import ScheduledCollector
from agent.support.backoff import Backoff
from agent.support.clock_pair import ClockPair
from agent.support.http_client import AccessError
from collectors import CollectorSpec, business_query
from collectors.base import CollectorError, FailureKind, Prepared, Values
from collectors.business_query import VALUE, non_negative
from collectors.connection import Connection

IDLE_SESSION_SECONDS = 60.0
"""Seconds for which a session may wait for its next query; the server ends it after 120."""
RECONNECT_MIN, RECONNECT_MAX = 5.0, 60.0  # seconds
ROUND_TRIP = 1.0  # seconds beyond the server's own time limit for the answer to arrive
MAX_SHARE = 0.05  # share of the time that a query may take in total


class BusinessMetricsReader:
    """Reads the business metrics of one target; `tick` is run by a worker of its own.

    `keep` is called with each value that is read.
    """

    def __init__(self, target: Target, keep: Callable[[ReadValue], None] | None = None) -> None:
        self._keep = keep
        self._metrics = {metric.name: metric for metric in target.business_metrics}
        self.series = {name: ValueSeries() for name in self._metrics}
        self.connection = connection_for(target)
        collectors = {
            n: _scheduled_collector(target.name, metric) for n, metric in self._metrics.items()
        }
        self._collectors = collectors
        for collector in collectors.values():
            collector.prepare(self.connection)
        self._backoff = Backoff(RECONNECT_MIN, RECONNECT_MAX)
        self._retry_at = 0.0

    @property
    def health(self) -> tuple[CollectorHealth, ...]:
        """The state of each metric's collector."""
        return tuple(collector.health for collector in self._collectors.values())

    def take_over(self, before: "BusinessMetricsReader") -> None:
        """Take over the values of each metric whose definition is unchanged."""
        for name, metric in self._metrics.items():
            if before._metrics.get(name) == metric:
                self.series[name] = before.series[name]

    def restore(self, written: Mapping[str, Sequence[UnixValue]], now: ClockPair) -> None:
        """Insert values of an earlier run of the agent, as far as they precede those present."""
        for name, pairs in written.items():
            if name in self.series:
                found = [(now.to_monotonic(at), value) for at, value in pairs]
                self.series[name].restore(found)

    def clear(self) -> None:
        """Discard all values, because another server answers."""
        self.series = {name: ValueSeries() for name in self._metrics}

    def close(self) -> None:
        """End the session on the server."""
        self.connection.close()

    def interrupt(self) -> None:
        """End a read in progress; called from another thread."""
        self.connection.interrupt()

    def interrupt_if_overdue(self, now: float) -> None:
        """End a read whose answer arrives too slowly; called from another thread."""
        self.connection.interrupt_if_overdue(now)

    def tick(self, now: float) -> float:
        """Read the due metrics; return when the next one is due."""
        for name, collector in self._collectors.items():
            if self._due_at(collector) <= time.monotonic():
                self._read(name, collector)
        due = min(map(self._due_at, self._collectors.values()), default=math.inf)
        on_server = (c.due for c in self._collectors.values() if c.spec.on_server)
        if (
            self.connection.is_open
            and min(on_server, default=math.inf) > now + IDLE_SESSION_SECONDS
        ):
            self.connection.close()
        return due

    def _due_at(self, collector: ScheduledCollector) -> float:
        """Return when a collector is due; on the server not before the next attempt to connect."""
        waits = collector.spec.on_server and not self.connection.is_open
        return max(collector.due, self._retry_at) if waits else collector.due

    def _read(self, name: str, collector: ScheduledCollector) -> None:
        """Read one metric, after connecting if need be, and keep its value."""
        try:
            if collector.spec.on_server and not self.connection.is_open:
                self._connect(collector)
            sample = collector.run(time.monotonic())
        except CollectorError:
            self.connection.close()
            return
        if sample is not None:
            self.series[name].append(sample.at, sample.values[VALUE])
            if self._keep is not None:
                self._keep(ReadValue(name, sample.at, sample.values[VALUE]))

    def _connect(self, collector: ScheduledCollector) -> None:
        """Open the session; a failure counts for this collector and delays the next attempt."""
        try:
            self.connection.open()
        except CollectorError as error:
            collector.record_failure(error)
            self._retry_at = time.monotonic() + self._backoff.failed()
            raise
        self._backoff.succeeded()


def connection_for(target: Target) -> Connection:
    """Return the connection for a target's own queries; it is opened when one is due."""
    longest = max((m.timeout for m in target.business_metrics), default=ROUND_TRIP)
    timeout = max(target.timeout, longest + ROUND_TRIP)
    return Connection(target.endpoint, target.credentials.login, timeout=timeout, limit=longest)


def collector_spec(metric: BusinessMetric) -> CollectorSpec:
    """Return the specification of the metric's collector."""
    name = f"business_metric_{metric.name}"
    if metric.prometheus is not None:
        read = partial(_read_prometheus, metric.prometheus, metric.timeout)
        return CollectorSpec(name, lambda _: Prepared(read, ()), metric.interval, on_server=False)
    query = metric.query or ""
    prepare: Callable[[Connection], Prepared] = partial(
        business_query.prepare, query=query, timeout=metric.timeout
    )
    return CollectorSpec(name, prepare, metric.interval, on_server=True, max_share=MAX_SHARE)


def _scheduled_collector(target: str, metric: BusinessMetric) -> ScheduledCollector:
    return ScheduledCollector(target, collector_spec(metric), metric.interval)


def _read_prometheus(settings: PrometheusQuery, timeout: float) -> Values:
    """Return the value of a query, without retries: the next reading comes soon enough."""
    try:
        client = Client(settings.access(timeout), tries=1, warn=_refuse_incomplete)
        found = client.instant_values(settings.query)
    except AccessError as error:
        raise CollectorError(FailureKind.UNREADABLE, str(error)) from None
    if len(found) != 1 or not math.isfinite(found[0]):
        gave = f"{len(found)} series" if len(found) != 1 else f"{found[0]}"
        remedy = "add them up, as by sum()" if len(found) > 1 else "check the query"
        raise CollectorError(
            FailureKind.UNREADABLE, f"the query returned {gave} instead of one number; {remedy}"
        )
    return {VALUE: non_negative(found[0])}


def _refuse_incomplete(warning: str) -> None:
    """Raise `CollectorError`: a sum over a part of the storage is another number."""
    raise CollectorError(FailureKind.UNREADABLE, warning)
