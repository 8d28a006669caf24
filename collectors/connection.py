"""One session on one MySQL or MariaDB server, with time limits on both sides.

The session holds no transaction and writes nothing. The client's limit covers the handshake too: a
frozen server still accepts connections, and only a read time-out returns to the caller.
"""

import math
import re
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from collectors.base import CollectorError, FailureKind, Feature
from collectors.driver_errors import failure, is_password_refusal
from collectors.endpoint import Endpoint
from collectors.login_pause import RefusedLogin
from collectors.prepared_statements import (
    PreparedStatements,
    digested_words,
    may_succeed_unprepared,
)
from collectors.result_cells import (
    NO_ROWS,
    ONE_CELL,
    ResultCell,
    ResultLimits,
    ResultRow,
    text,
    whole_number,
)
from collectors.transport_security import protection_features, security_options
from collectors.untrusted_server_session import Session

SERVER_VARIABLES = (
    "datadir",
    "hostname",
    "innodb_thread_concurrency",
    "max_connections",
    "max_digest_length",
    "max_execution_time",
    "max_statement_time",
    "performance_schema",
    "performance_schema_digests_size",
    "pid_file",
    "port",
    "server_uuid",  # MySQL
    "thread_handling",
    "version",
    "version_comment",
)

FIRST_SETTINGS = (
    "SET SESSION lock_wait_timeout = 1, wait_timeout = 120, autocommit = 1,"
    " sql_select_limit = 18446744073709551615, sql_big_selects = 1, sql_mode = '', NAMES utf8mb4"
)
"""Protects the session from locks, and from what an operator sets for all sessions: fewer rows, a
limit of joins (max_join_size), another SQL. The library turns autocommit on only where it was off
at login, and the server runs init_connect after that. The character set is sent with it, because a
statement of its own would be of one class with those of clients."""
VARIABLES = ResultLimits(columns=2, rows=len(SERVER_VARIABLES), bytes=16_384)

MAX_VERSION_LENGTH = 60  # characters, as the servers' own source says (SERVER_VERSION_LENGTH)
ANSWER_TIMEOUTS = 2.0  # time-outs that a whole answer may take: a time-out is for each read
SHORT_STATEMENT = 2048  # characters; longer ones list digests, and are not sent again
SHORT_STATEMENTS = 1024  # remembered: two of each of 400 targets, and those of all
NO_SUMS = -math.inf, "", None
LOGIN_LIMITS = 30.0, 5.0  # login limit: seconds to resolve a name, plus so many time-outs


@dataclass(frozen=True, slots=True)
class Login:
    """An account's name and password; the password is not in the repr."""

    user: str
    password: str = field(repr=False, default="")


class Connection:
    """One persistent session; all statements go through `query`.

    `statement_count` counts all statements sent, over all sessions; `own_statements` also those of
    its `sibling`, the other connection to the same server; `sent_statements` has the words of each,
    by `statement_words`. They serve to exclude the agent from what it measures.
    `collector_state` is where a collector keeps state that outlasts a session. `limit` is the
    server's time limit for one statement in seconds, `timeout` how long the client waits for one
    answer. `uptime_read` is when the status was last read in this session (monotonic seconds), and
    the server's uptime there. `statement_sums` is when the sums of all statements were last read in
    this session, by which SQL expression, and the cell.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        login: Callable[[], Login],
        *,
        timeout: float,
        limit: float,
        sibling: "Connection | None" = None,
    ) -> None:
        self.endpoint = endpoint
        self.variables: dict[str, str] = {}
        self.id = 0
        self.uptime_read: tuple[float, float] | None = None
        self.statement_sums: tuple[float, str, ResultCell] = NO_SUMS
        self.statement_count = 0
        self.sent_statements: set[str] = set()
        self.collector_state: dict[str, Any] = {}
        self._sibling = sibling
        self._login = login
        self._refused: RefusedLogin = sibling._refused if sibling else RefusedLogin()
        self._timeout = timeout
        self._limit = limit
        self._session: Session | None = None
        self._prepared = PreparedStatements(self._send_own)
        self._opening_session: Session | None = None
        self._overdue_at: float | None = None  # when the present request has taken too long
        self._was_interrupted = False
        self._shared_results: dict[str, list[ResultRow]] | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a session, as far as is known without contacting the server."""
        return self._session is not None

    @property
    def own_statements(self) -> int:
        """The number of statements sent to this server, also by the sibling."""
        return self.statement_count + (self._sibling.statement_count if self._sibling else 0)

    @property
    def flavour(self) -> str:
        """`MariaDB` or `MySQL`, and its version, as the server states them."""
        version = self.variables.get("version", "unknown version")[:MAX_VERSION_LENGTH]
        return f"{'MariaDB' if self.is_mariadb else 'MySQL'} {version}"

    @property
    def is_mariadb(self) -> bool:
        """Whether the server's version names MariaDB."""
        return "mariadb" in self.variables.get("version", "").lower()

    def open(self) -> None:
        """Connect, read the server's identity, and set the session's own limits."""
        self.close()
        self.uptime_read, self.statement_sums = None, NO_SUMS
        self._prepared = PreparedStatements(self._send_own)
        login = self._login()
        with self._refused.one_at_a_time(self._timeout):
            self._log_in(login)
        try:
            self.run(FIRST_SETTINGS)
            self._read_identity()
            self._set_statement_limit()
        except BaseException:
            self.close()
            raise

    def allow_refused_login(self) -> None:
        """Send a password that was refused again at the next attempt; called from any thread."""
        self._refused.forget()

    def close(self) -> None:
        """End the session, if there is one; a broken one is only discarded."""
        session, self._session = self._session, None
        if session is not None and session.open:
            session.close()
            self.statement_count += 1  # the server counts the farewell too

    def interrupt(self) -> None:
        """Shut the socket down from another thread, so that a read in progress ends."""
        sock = self._socket()
        with suppress(OSError):
            if sock is not None:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # TLS's drops the reader's state

    def interrupt_if_overdue(self, now: float) -> None:
        """Interrupt, from another thread, a request without a complete answer for too long.

        The library's time-out is for each read: an answer that comes bit by bit would never end.
        """
        if self._overdue_at is not None and now > self._overdue_at and self._socket() is not None:
            self._was_interrupted = True
            self.interrupt()

    def query(self, sql: str, limits: ResultLimits = ONE_CELL) -> list[ResultRow]:
        """Execute a statement and return all its rows, within these limits.

        Raises `CollectorError`, and closes a broken session.
        """
        words = sent_words(sql)
        self.sent_statements.add(sys.intern(words))
        sent = self._prepared.sent_as(sql, words)
        if sent == sql:
            return self._ask(sql, limits)
        self.sent_statements.update(map(sys.intern, (*digested_words(words), sent_words(sent))))
        try:
            return self._ask(sent, limits)
        except CollectorError as error:
            if not may_succeed_unprepared(error.kind):
                raise
        self._prepared.give_up()
        return self._ask(sql, limits)

    def repeated(self, sql: str) -> str:
        """Return the statement, which is prepared, since this session sends it again and again."""
        self._prepared.expect(sent_words(sql))
        return sql

    @contextmanager
    def sharing_results(self) -> Iterator[None]:
        """Within the block, `query_once` sends each statement only once."""
        self._shared_results = {}
        try:
            yield
        finally:
            self._shared_results = None

    def query_once(self, sql: str, limits: ResultLimits = ONE_CELL) -> list[ResultRow]:
        """As `query`, for what several collectors check when they are prepared."""
        known = self._shared_results
        if known is None:
            return self.query(sql, limits)
        if sql not in known:
            known[sql] = self.query(sql, limits)
        return known[sql]

    def run(self, sql: str) -> None:
        """Execute a statement that returns no rows."""
        self.query(sql, NO_ROWS)

    def row(self, sql: str, limits: ResultLimits = ONE_CELL) -> ResultRow:
        """Return the first row of a statement's result; raises `CollectorError` without one."""
        rows = self.query(sql, limits)
        if not rows:
            message = f"{self.endpoint}: the query returned no row"
            raise CollectorError(FailureKind.UNREADABLE, message)
        return rows[0]

    def cell(self, sql: str) -> ResultCell:
        """Return the first cell of a statement's result; raises `CollectorError` without one."""
        return self.row(sql)[0]

    def peer_pid(self) -> int | None:
        """Return the PID behind the socket file; None over TCP, 0 in another PID namespace."""
        sock = self._socket()
        if sock is None or sock.family != socket.AF_UNIX:
            return None
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[0])

    def peer_address(self) -> str | None:
        """Return the server's IP address as connected; None over a socket file."""
        sock = self._socket()
        if sock is None or sock.family == socket.AF_UNIX:
            return None
        return str(sock.getpeername()[0])

    def protection(self) -> tuple[Feature, ...]:
        """Return the features of the session's protection; see `transport_security`."""
        sock = self._socket()
        return protection_features(sock) if sock is not None else ()

    @contextmanager
    def _deadline(self, seconds: float, user: str = "") -> Iterator[None]:
        """Limit a request to so many seconds, and raise every error in it as a `CollectorError`."""
        self._was_interrupted, self._overdue_at = False, time.monotonic() + seconds
        try:
            yield
        except Exception as error:  # what is not a server's answer can break the library anywhere
            raise self._as_collector_error(error, seconds, user) from error
        finally:
            self._overdue_at = None

    def _as_collector_error(self, error: Exception, seconds: float, user: str) -> CollectorError:
        """Convert an error to a `CollectorError`; close the session if it is broken.

        The caller raises it without a variable: its traceback would refer to itself.
        """
        failed = failure(error, self.endpoint, user)
        if self._was_interrupted:
            message = f"{self.endpoint}: no complete answer within {seconds:g} s"
            failed = CollectorError(FailureKind.TIMEOUT, message)
        if failed.kind.ends_session:
            self.close()
        return failed

    def _ask(self, sql: str, limits: ResultLimits) -> list[ResultRow]:
        """Send this text and return the rows of its result."""
        if self._session is None:
            raise CollectorError(FailureKind.LOST, f"not connected to {self.endpoint}")
        self.statement_count += 1
        with self._deadline(ANSWER_TIMEOUTS * self._timeout):
            return self._session.ask(sql, limits)

    def _send_own(self, sql: str) -> None:
        """Send a statement without rows that is never prepared."""
        self.sent_statements.add(sys.intern(sent_words(sql)))
        self._ask(sql, NO_ROWS)

    def _socket(self) -> socket.socket | None:
        return getattr(self._session or self._opening_session, "_sock", None)

    def _log_in(self, login: Login) -> None:
        """Connect, unless the server has just refused this login."""
        self._refused.check(login.user, login.password)
        resolving, reads = LOGIN_LIMITS
        try:
            with self._deadline(resolving + reads * self._timeout, login.user):
                self._session = self._connect(login)
        except CollectorError as error:
            if is_password_refusal(error.__cause__):
                raise self._refused.refused(login.user, login.password, error) from None
            raise
        self._refused.forget()

    def _connect(self, login: Login) -> Session:
        """Open a session; another thread may interrupt it meanwhile."""
        self._opening_session = Session(
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
            **security_options(self.endpoint),
        )
        try:
            self._opening_session.connect()
            return self._opening_session
        finally:
            self._opening_session = None

    def _read_identity(self) -> None:
        names = ", ".join(f"'{name}'" for name in SERVER_VARIABLES)
        rows = self.query(f"SHOW VARIABLES WHERE Variable_name IN ({names})", VARIABLES)
        known = {text(name): text(value) for name, value in rows if value is not None}
        self.variables = {name: known[name] for name in SERVER_VARIABLES if name in known}
        if not self.variables.get("version"):
            message = (
                f"{self.endpoint}: the server reports no version: check that it is MySQL or MariaDB"
            )
            raise CollectorError(FailureKind.UNREADABLE, message)
        self.id = whole_number("CONNECTION_ID()", self.cell("SELECT CONNECTION_ID()"))

    def _set_statement_limit(self) -> None:
        """Limit how long a statement may run, which protects the server from this session."""
        if "max_execution_time" in self.variables:
            limit = max(1, round(self._limit * 1000))
            self.run(f"SET SESSION max_execution_time = {limit}")
        if "max_statement_time" in self.variables:
            self.run(f"SET SESSION max_statement_time = {self._limit:.3f}")


def sent_words(statement: str) -> str:
    """Return the words of a statement of the agent's, which is most often sent again."""
    if len(statement) > SHORT_STATEMENT:
        return statement_words(statement)
    return _words_of_short_statement(statement)


@lru_cache(SHORT_STATEMENTS)
def _words_of_short_statement(statement: str) -> str:
    return statement_words(statement)


def statement_words(statement: str) -> str:
    """Return the words of a statement or of its digest's text, without literals and punctuation."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", " ", statement)
    return " ".join(re.findall(r"\b[A-Za-z_]\w*", bare)).upper()
