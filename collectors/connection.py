"""One session on one MySQL or MariaDB server, with time limits on both sides.

The session holds no transaction and writes nothing. The client's limit covers the handshake too: a
frozen server still accepts connections, and only a read time-out saves the caller.
"""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from collectors.base import CollectorError, FailureKind, Feature
from collectors.bounded_results import DONE, ONE_CELL, Cell, Row, Shape, text, whole
from collectors.driver_errors import failure
from collectors.transport_security import Endpoint as Endpoint
from collectors.transport_security import protection, secret_options
from collectors.untrusted_server_session import Session

IDENTITY = (
    "datadir",
    "event_scheduler",
    "hostname",
    "innodb_redo_log_capacity",
    "innodb_thread_concurrency",
    "max_connections",
    "max_execution_time",
    "max_statement_time",
    "performance_schema",
    "performance_schema_digests_size",
    "pid_file",
    "port",
    "server_uid",  # MariaDB
    "server_uuid",  # MySQL
    "version",
    "version_comment",
)

VARIABLES = Shape(columns=2, rows=len(IDENTITY), bytes=16_384)

MAX_VERSION_LENGTH = 60  # characters, as the servers' own source says (SERVER_VERSION_LENGTH)
MAX_STATEMENTS_SENT, MAX_STATEMENT_LENGTH = 256, 4000
ANSWER_SECONDS = 2.0  # times the time-out, which is for each read of an answer
LOGIN_SECONDS = 30.0, 5.0  # seconds for a name to be resolved, and times the time-out


@dataclass(frozen=True, slots=True)
class Login:
    """An account; the password never shows in a repr."""

    user: str
    password: str = field(repr=False, default="")


class Connection:
    """One persistent session; `query` is its only way to ask.

    `statements` counts every statement ever sent, over all sessions, so that the observer can be
    taken out of what it observes; `sent` has those that differ, for the same end, at most
    `MAX_STATEMENTS_SENT`. In `notes` a collector may keep what outlives a session. `limit` is the
    server's time limit for one statement in seconds, `timeout` how long the client waits for one
    answer.
    """

    def __init__(
        self, endpoint: Endpoint, login: Callable[[], Login], *, timeout: float, limit: float
    ) -> None:
        self.endpoint = endpoint
        self.variables: dict[str, str] = {}
        self.id = 0
        self.statements = 0
        self.sent: set[str] = set()
        self.notes: dict[str, Any] = {}
        self._login = login
        self._timeout = timeout
        self._limit = limit
        self._session: Session | None = None
        self._opening: Session | None = None
        self._overdue_at: float | None = None  # when what is under way has taken too long
        self._was_broken_off = False

    @property
    def is_open(self) -> bool:
        """Whether there is a session, as far as is known without asking."""
        return self._session is not None

    @property
    def flavour(self) -> str:
        """`MariaDB` or `MySQL`, and its version, as the server states them."""
        version = self.variables.get("version", "unknown version")[:MAX_VERSION_LENGTH]
        return f"{'MariaDB' if self.is_mariadb else 'MySQL'} {version}"

    @property
    def is_mariadb(self) -> bool:
        """Whether the server says so."""
        return "mariadb" in self.variables.get("version", "").lower()

    def open(self) -> None:
        """Connect, read the server's identity, and set the session's own limits."""
        self.close()
        login = self._login()
        resolving, reads = LOGIN_SECONDS
        with self._within(resolving + reads * self._timeout, login.user):
            self._session = self._connect(login)
        try:
            self._identify()
            self._limit_session()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the session, if there is one; a broken one is only forgotten."""
        session, self._session = self._session, None
        if session is not None and session.open:
            session.close()

    def interrupt(self) -> None:
        """From another thread: break the session off, so that a read in progress ends."""
        sock = self._socket()
        with suppress(OSError):
            if sock is not None:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not TLS's, which would take turns

    def break_off_if_overdue(self, now: float) -> None:
        """From another thread: interrupt statements without a complete answer for too long.

        The library's time-out is for each read: an answer that trickles in would never end.
        """
        if self._overdue_at is not None and now > self._overdue_at and self._socket() is not None:
            self._was_broken_off = True
            self.interrupt()

    def query(self, sql: str, shape: Shape = ONE_CELL) -> list[Row]:
        """All rows of one statement, which can be answered with that many at most.

        Raises `CollectorError`, and ends a session that broke.
        """
        if self._session is None:
            raise CollectorError(FailureKind.LOST, f"not connected to {self.endpoint}")
        self.statements += 1
        if len(self.sent) < MAX_STATEMENTS_SENT and len(sql) < MAX_STATEMENT_LENGTH:
            self.sent.add(sql)
        with self._within(ANSWER_SECONDS * self._timeout):
            return self._session.ask(sql, shape)

    def run(self, sql: str) -> None:
        """A statement that is answered without rows."""
        self.query(sql, DONE)

    def row(self, sql: str, shape: Shape = ONE_CELL) -> Row:
        """The one row of a statement's answer; raises `CollectorError` where there is none."""
        rows = self.query(sql, shape)
        if not rows:
            message = f"{self.endpoint}: the query returned no row"
            raise CollectorError(FailureKind.UNREADABLE, message)
        return rows[0]

    def cell(self, sql: str) -> Cell:
        """The one cell of a statement's answer; raises `CollectorError` where there is none."""
        return self.row(sql)[0]

    def peer_pid(self) -> int | None:
        """The process behind the server's socket file; None over TCP, 0 in another PID space."""
        sock = self._socket()
        if sock is None or sock.family != socket.AF_UNIX:
            return None
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[0])

    def peer_address(self) -> str | None:
        """The server's IP address as connected; None over a socket file."""
        sock = self._socket()
        if sock is None or sock.family == socket.AF_UNIX:
            return None
        return str(sock.getpeername()[0])

    def protection(self) -> tuple[Feature, ...]:
        """The protection of the session on the network; see `transport`."""
        sock = self._socket()
        return protection(sock) if sock is not None else ()

    @contextmanager
    def _within(self, seconds: float, user: str = "") -> Iterator[None]:
        """Ask the server something; whatever goes wrong is a `CollectorError`."""
        self._was_broken_off, self._overdue_at = False, time.monotonic() + seconds
        try:
            yield
        except Exception as error:  # what is no answer of a server breaks the library anywhere
            raise self._understood(error, seconds, user) from error
        finally:
            self._overdue_at = None

    def _understood(self, error: Exception, seconds: float, user: str) -> CollectorError:
        """The error as a collector's failure; ends a broken session.

        Who raises it keeps no name for it: its traceback would refer to itself.
        """
        failed = failure(error, self.endpoint, user)
        if self._was_broken_off:
            message = f"{self.endpoint}: no whole answer within {seconds:g} s"
            failed = CollectorError(FailureKind.TIMEOUT, message)
        if failed.kind.ends_session:
            self.close()
        return failed

    def _socket(self) -> socket.socket | None:
        return getattr(self._session or self._opening, "_sock", None)

    def _connect(self, login: Login) -> Session:
        self._opening = Session(
            host=self.endpoint.host,
            port=self.endpoint.port,
            unix_socket=self.endpoint.socket,
            user=login.user,
            password=login.password.encode(errors="surrogateescape"),
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=max(1, round(self._timeout)),
            read_timeout=self._timeout,
            write_timeout=self._timeout,
            program_name="mysql-headroom",
            defer_connect=True,
            **secret_options(self.endpoint),
        )
        try:
            self._opening.connect()
            return self._opening
        finally:
            self._opening = None

    def _identify(self) -> None:
        names = ", ".join(f"'{name}'" for name in IDENTITY)
        rows = self.query(f"SHOW VARIABLES WHERE Variable_name IN ({names})", VARIABLES)
        known = {text(name): text(value) for name, value in rows if value is not None}
        self.variables = {name: known[name] for name in IDENTITY if name in known}
        if not self.variables.get("version"):
            message = f"{self.endpoint}: it reports no version: is it MySQL or MariaDB?"
            raise CollectorError(FailureKind.UNREADABLE, message)
        self.id = whole("CONNECTION_ID()", self.cell("SELECT CONNECTION_ID()"))

    def _limit_session(self) -> None:
        """Limits that protect the server from this session, and the session from locks."""
        limits = ["lock_wait_timeout = 1", "wait_timeout = 120"]
        if "max_execution_time" in self.variables:
            limits.append(f"max_execution_time = {max(1, round(self._limit * 1000))}")
        if "max_statement_time" in self.variables:
            limits.append(f"max_statement_time = {self._limit:.3f}")
        self.run("SET SESSION " + ", ".join(limits))
