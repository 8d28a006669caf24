"""One target's session: its connection, the collectors that read through it, and their status.

The state by lifetime: the target and its collectors never change; the server's identity, restarts
and health are kept between sessions; the connection, and the time at which the collectors are
prepared again, are of one session.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from agent.assessment.snapshot import Health, ServerIdentity
from agent.config.settings import CLOCK_COLLECTORS, Config, Target
from agent.history.server_identity import MAX_LENGTH, server_identity
from agent.query_classes.resource_meter import METERED
from agent.sampling.restart_detector import RestartDetector, SessionIds
from agent.sampling.scheduled_collector import ScheduledCollector, as_collector_error
from agent.sampling.server_clock_dating import round_trip, with_reading_time
from agent.support.backoff import Backoff, with_jitter
from agent.support.compact_numbers import CompactNumbers
from agent.support.logs import fields
from agent.window.interval_buffer import SAMPLINGS_WAITED
from collectors import CollectorSpec
from collectors.base import CollectorError, FailureKind, Sample
from collectors.connection import MAX_VERSION_LENGTH, Connection
from collectors.endpoint import Endpoint
from collectors.server_clock import SERVER_TIME
from collectors.threads_table import APPLYING, WAITING
from models.group.node_time_split import Replication, add_replication, mean_replication
from models.group.ntp_clock_filter import ClockOffset, RoundTrip, add_round_trip, clock_offset

log = logging.getLogger(__name__)

RECONNECT_MIN, RECONNECT_MAX = 1.0, 30.0  # seconds
USEFUL_SESSION_SECONDS = 1.0
"""How old a session must be to be opened again at once when it is lost: no more logins than with
the pause."""
PREPARE_SECONDS, REFUSED_SECONDS = 300.0, 60.0
"""Maximum seconds after which the server's features, and those that the host lacks, are checked
again: normally, and while a collector cannot read the server. A check each minute was a tenth of
the server's CPU for the agent. Finding a server's process among all of this host takes tens of
milliseconds: 50 targets at the same time kept the interpreter busy for a second."""
MAX_STATEMENT_SHARE = 0.4  # share of the sampling interval that a statement may take on the server
MAX_TIMEOUT_SHARE = 2 / 3  # share of the client's time-out, so that the abortion arrives within it
MIN_TIMEOUT = 0.2  # seconds that a statement may take in any case
HOST = "host"
STATEMENTS = "statements"  # collector of statement time, the better source of concurrency
COALESCE_SECONDS = 0.05
"""A collector due within this time runs along with one that is due now, to save wake-ups."""


class TargetSession:
    """The session of one target, and the collectors that use it.

    `read_server` and `read_host` are each run by one worker; any thread may use the rest.
    `on_sample` is called with every sample. `business_connection` is the target's other connection.
    """

    def __init__(
        self,
        target: Target,
        collectors: Sequence[ScheduledCollector],
        on_sample: Callable[[Sample], None],
        business_connection: Connection | None = None,
    ) -> None:
        self._target = target
        self._collectors = collectors
        self._server_collectors = [c for c in collectors if c.spec.on_server]
        self._host_collectors = [c for c in collectors if not c.spec.on_server]
        self._status = next(c for c in collectors if c.spec.name == "status")
        self._on_sample = on_sample
        self._connection = Connection(
            target.endpoint,
            target.credentials.login,
            timeout=target.timeout,
            limit=_statement_limit(self._status.interval, target.timeout),
            sibling=business_connection,
        )
        self._backoff = Backoff(RECONNECT_MIN, RECONNECT_MAX)
        self._retry_at = 0.0
        self._prepared_at, self._prepare_jitter = 0.0, 1.0
        self._useful_at = math.inf  # when the session, if it has answered, is old enough
        self._round_trips: tuple[RoundTrip, ...] = ()
        self._replication: tuple[Replication, ...] = ()
        self._restarts = RestartDetector()
        self.server_health = Health()
        """The state of the server, without that of the collectors."""
        self.server: str | None = None  # identity of the server that answered last
        self.connects = 0  # sessions opened

    @property
    def endpoint(self) -> Endpoint:
        """The address of the server."""
        return self._connection.endpoint

    @property
    def sampling(self) -> float:
        """Seconds between two samples of the collectors whose samples bound an interval.

        At least so many that an interval waits for the host's next sample.
        """
        seconds = {c.spec.name: c.interval for c in self._collectors}
        of_clock = max(seconds.get(name, 0.0) for name in CLOCK_COLLECTORS)
        return max(of_clock, seconds.get(HOST, 0.0) / SAMPLINGS_WAITED)

    @property
    def resource_sampling(self) -> float:
        """Seconds between two samples of the collectors that show the use of resources."""
        return max(c.interval for c in self._collectors if c.spec.name in METERED)

    @property
    def health(self) -> Health:
        """The state of the server and of each collector."""
        return replace(
            self.server_health,
            collectors=tuple(c.health for c in self._collectors),
            features=tuple(feature for c in self._collectors for feature in c.features),
        )

    @property
    def sources(self) -> tuple[object, ...]:
        """The objects that `health`, `clock` and `replication` are made of.

        A change replaces the object, so the same objects mean that nothing has changed.
        """
        of_collectors = (part for c in self._collectors for part in (c.health, c.features))
        return self.server_health, self._round_trips, self._replication, *of_collectors

    def clock(self, now: float) -> ClockOffset | None:
        """Estimate the server's clock minus the agent's from the round trips of this session."""
        return clock_offset(self._round_trips, now)

    def replication(self, now: float) -> Replication | None:
        """Return the mean replication activity of the last minutes; `now` in monotonic seconds."""
        return mean_replication(self._replication, now)

    def take_over(self, before: "TargetSession") -> None:
        """Continue as the successor of an ending session of the same server."""
        self.server_health, self.connects, self.server = (
            before.server_health,
            before.connects,
            before.server,
        )
        self._round_trips, self._replication = before._round_trips, before._replication
        self._restarts = before._restarts

    def read_all_again(self) -> None:
        """Have collectors read again what they read only once; called from any thread."""
        self._connection.collector_state.clear()

    def allow_refused_login(self) -> None:
        """Send a password that was refused again at the next attempt; called from any thread."""
        self._connection.allow_refused_login()

    def close(self) -> None:
        """End the session on the server."""
        self._connection.close()

    def interrupt(self) -> None:
        """End a read in progress, and its session; called from another thread."""
        self._connection.interrupt()

    def interrupt_if_overdue(self, now: float) -> None:
        """End a read whose answer arrives too slowly; called from another thread."""
        self._connection.interrupt_if_overdue(now)

    def progress(self) -> object:
        """Return a value that changes whenever the server has answered; see `Worker`."""
        return self._connection.statement_count, self._connection.is_open

    def read_server(self, now: float) -> float:
        """Connect if necessary, run the due collectors, status first; return when to run again."""
        if not self._connection.is_open and now < self._retry_at:
            return self._retry_at
        try:
            if not self._connection.is_open:
                self._connect()
            elif now >= self._prepare_at():
                self._prepare(
                    [c for c in self._collectors if c.spec.on_server or not c.is_complete]
                )
            for collector in self._server_collectors:
                if collector.due <= time.monotonic() + COALESCE_SECONDS:
                    self._process_sample(collector.run(time.monotonic()))
            if self._status.failure not in (None, FailureKind.SLOW):
                self.server_health = replace(self.server_health, up=False)
        except CollectorError as error:
            if error.kind is FailureKind.LOST and time.monotonic() >= self._useful_at:
                return self._reopen_at_once()
            return self._handle_lost_session()
        except Exception as error:  # after a defect of the agent, too, the server counts as tried
            self._status.record_failure(as_collector_error(error))
            self._handle_lost_session()
            raise
        return min(c.due for c in self._server_collectors)

    def read_host(self, now: float) -> float:
        """Run the due collectors of the host; return when to run again."""
        for collector in self._host_collectors:
            if collector.due <= now:
                try:
                    self._process_sample(collector.run(now))
                except CollectorError:
                    collector.forget_source()
        return min((c.due for c in self._host_collectors), default=now + PREPARE_SECONDS)

    def _connect(self) -> None:
        """Open a session, note the server's identity, and prepare all collectors."""
        self._useful_at = math.inf
        try:
            self._connection.open()
        except CollectorError as error:
            self._status.record_failure(error)
            raise
        self.connects += 1
        self._round_trips, self._replication = (), ()  # another host may answer at the address
        before, self.server = self.server, server_identity(self._connection.variables)
        if self.server != before:  # what is known is of another server
            self.read_all_again()
            self._restarts = RestartDetector()
        flavour = self._connection.flavour
        self.server_health = replace(self.server_health, server=flavour, identity=self._identity())
        facts = fields(target=self._target.name, server=flavour)
        log.info("connected to %s", self._target.endpoint, extra=facts)
        for collector in self._collectors:
            collector.forget_source()
        self._prepare(self._collectors)

    def _identity(self) -> ServerIdentity:
        """Return the identity; behind a socket file, host and port are the server's variables."""
        at, variables = self._connection.endpoint, self._connection.variables
        host, port = at.host, str(at.port)
        if at.socket:
            host, port = (variables.get(name, "")[:MAX_LENGTH] for name in ("hostname", "port"))
        version = variables.get("version", "")[:MAX_VERSION_LENGTH]
        labels = tuple(sorted(self._target.labels.items()))
        return ServerIdentity(host, port, version, server_identity(variables), labels)

    def _prepare_at(self) -> float:
        """Return when to check the features again (monotonic seconds)."""
        is_refused = not all(collector.is_permitted for collector in self._server_collectors)
        wait = REFUSED_SECONDS if is_refused else PREPARE_SECONDS
        return self._prepared_at + wait * self._prepare_jitter

    def _prepare(self, collectors: Sequence[ScheduledCollector]) -> None:
        """Prepare these collectors: check what their sources offer."""
        self._prepared_at, self._prepare_jitter = time.monotonic(), with_jitter(1.0)
        with self._connection.sharing_results():
            for collector in collectors:
                collector.prepare(self._connection)
        has_statement_time = any(
            c.is_readable for c in self._collectors if c.spec.name == STATEMENTS
        )
        self._status.set_only_source(not has_statement_time)

    def _process_sample(self, sample: Sample | None) -> None:
        """Correct the time of a sample, pass it on, and update what follows from it."""
        if sample is None:
            return
        trip = round_trip(sample)
        if trip is not None:
            self._round_trips = add_round_trip(self._round_trips, trip)
        clock = self.clock(sample.at) if trip is not None else None
        server_time = sample.values.get(SERVER_TIME)
        sample = _compact(with_reading_time(sample, trip, clock))
        self._on_sample(sample)
        if APPLYING in sample.values:
            seen = Replication(sample.at, sample.values[APPLYING], sample.values[WAITING])
            self._replication = add_replication(self._replication, seen)
        if sample.collector == "status":
            self._backoff.succeeded()
            if self._useful_at == math.inf:
                self._useful_at = time.monotonic() + USEFUL_SESSION_SECONDS
            self._update_health(sample, server_time)

    def _update_health(self, status: Sample, server_time: float | None) -> None:
        """Count a restart together with the queries since it: other threads see both or neither."""
        session = SessionIds(self.connects, self._connection.id)
        restarted = self._restarts.was_restarted(status, session, server_time)
        self.server_health = replace(
            self.server_health,
            up=True,
            queries=status.values["questions"],
            restarts=self.server_health.restarts + restarted,
        )
        if restarted:
            log.warning("the server has restarted", extra=fields(target=self._target.name))

    def _reopen_at_once(self) -> float:
        """Close a session that was lost after it had served; return when to open the next: now.

        An idle session is ended by operators, proxies and firewalls, while the server goes on.
        """
        self._connection.close()
        self._retry_at = time.monotonic()
        return self._retry_at

    def _handle_lost_session(self) -> float:
        """Close a lost session and report the server as down; return when to try again."""
        self._connection.close()
        self.server_health = replace(self.server_health, up=False)
        self._retry_at = time.monotonic() + self._backoff.failed()
        return self._retry_at


def _compact(sample: Sample) -> Sample:
    """Return the same sample in less memory, unless it has more than numbers by name."""
    if type(sample.values) is not dict:
        return sample
    return Sample(sample.collector, sample.at, CompactNumbers(sample.values), sample.took)


def _statement_limit(interval: float, timeout: float) -> float:
    """Return how long the server may run a statement; all in seconds.

    A statement that the client gives up would end the session, and go on to run on the server.
    """
    return max(min(MAX_STATEMENT_SHARE * interval, MAX_TIMEOUT_SHARE * timeout), MIN_TIMEOUT)


def scheduled_collectors(
    config: Config, target: Target, offered: Sequence[CollectorSpec]
) -> list[ScheduledCollector]:
    """Return the collectors that are enabled for this target, in the order of the table."""
    found = []
    for spec in offered:
        settings = config.collector_settings(target, spec.name)
        if settings.enabled:
            interval = config.sampling_interval(target, spec)
            interval_alone = interval if settings.interval else min(spec.min_interval, interval)
            phase = config.phase(target)
            found.append(
                ScheduledCollector(
                    target.name, spec, interval, interval_alone=interval_alone, phase=phase
                )
            )
    return found
