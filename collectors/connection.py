"""One session on one MySQL or MariaDB server, with time limits on both sides.

The session holds no transaction and writes nothing. The client's limit covers the handshake too: a
frozen server still accepts connections, and only a read time-out saves the caller.
"""

import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.constants import CR, ER

from collectors.base import CollectorError, FailureKind

Row = tuple[Any, ...]

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
    "pid_file",
    "port",
    "version",
    "version_comment",
)

MOST_SENT, LONGEST_SENT = 256, 4000
DENIED = {
    ER.ACCESS_DENIED_ERROR,
    ER.DBACCESS_DENIED_ERROR,
    ER.HOST_NOT_PRIVILEGED,
    ER.HOST_IS_BLOCKED,
    1524,  # plugin is not loaded
    1698,  # access denied without a password
    1820,
    1862,  # password has expired
    3118,  # account is locked
    4151,  # MariaDB: account is locked
}
PRIVILEGE = {
    ER.TABLEACCESS_DENIED_ERROR,
    ER.COLUMNACCESS_DENIED_ERROR,
    ER.SPECIFIC_ACCESS_DENIED_ERROR,
}
SLOW = {3024, 1969, 1317, 1205}  # time limits: MySQL's, MariaDB's; interrupted; lock wait
LAST_WORDS = {1053, 1152, 1158, 1159, 1160, 1161, 1927, 4031}  # shutdown, network, kill, idle
REFUSED = {CR.CR_CONN_HOST_ERROR, CR.CR_CONNECTION_ERROR, ER.CON_COUNT_ERROR, 1203, 1226}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server listens: a socket file, or a host and a port with or without TLS."""

    host: str = "127.0.0.1"
    port: int = 3306
    socket: str | None = None
    tls_ca: str | None = None
    tls_verify_identity: bool = False
    tls_required: bool = False

    def __str__(self) -> str:
        """The address as a person writes it."""
        return self.socket or f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Login:
    """An account; the password never shows in a repr."""

    user: str
    password: str = field(repr=False, default="")


class Connection:
    """One persistent session; `query` is its only way to ask.

    `statements` counts every statement ever sent, over all sessions, so that the observer can be
    taken out of what it observes; `sent` has those that differ, for the same end, `MOST_SENT` at
    most. In `notes` a collector may keep what outlives a session. `limit` is the server's time
    limit for one statement in seconds, `timeout` the client's patience for one answer.
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
        self._session: pymysql.Connection[Any] | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a session, as far as is known without asking."""
        return self._session is not None

    @property
    def flavour(self) -> str:
        """`MariaDB` or `MySQL`, and its version, as the server states them."""
        version = self.variables.get("version", "unknown version")
        name = "MariaDB" if "mariadb" in version.lower() else "MySQL"
        return f"{name} {version}"

    def open(self) -> None:
        """Connect, learn who the server is, and set the session's own limits."""
        self.close()
        login = self._login()
        try:
            self._session = self._connect(login)
        except (pymysql.MySQLError, OSError, RuntimeError) as error:
            raise self._failure(error, login.user) from error
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

    def query(self, sql: str) -> list[Row]:
        """All rows of one statement; raises `CollectorError`, and ends a session that broke."""
        if self._session is None:
            raise CollectorError(FailureKind.LOST, f"not connected to {self.endpoint}")
        self.statements += 1
        if len(self.sent) < MOST_SENT and len(sql) < LONGEST_SENT:
            self.sent.add(sql)
        try:
            with self._session.cursor() as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())
        except (pymysql.MySQLError, OSError) as error:
            failure = self._failure(error, "")
            if failure.kind.ends_session:
                self.close()
            raise failure from error

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

    def _socket(self) -> socket.socket | None:
        return getattr(self._session, "_sock", None)

    def _connect(self, login: Login) -> "pymysql.Connection[Any]":
        return pymysql.connect(
            host=self.endpoint.host,
            port=self.endpoint.port,
            unix_socket=self.endpoint.socket,
            user=login.user,
            password=login.password.encode(),
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=max(1, round(self._timeout)),
            read_timeout=self._timeout,
            write_timeout=self._timeout,
            program_name="mysql-headroom",
            **self._tls(),
        )

    def _tls(self) -> dict[str, Any]:
        if self.endpoint.socket:
            return {"ssl_disabled": True}
        if self.endpoint.tls_ca:
            context = ssl.create_default_context(cafile=self.endpoint.tls_ca)
            context.check_hostname = self.endpoint.tls_verify_identity
            return {"ssl": context}
        if self.endpoint.tls_required:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return {"ssl": context}
        return {}  # TLS where the server offers it

    def _identify(self) -> None:
        names = ", ".join(f"'{name}'" for name in IDENTITY)
        rows = self.query(f"SHOW VARIABLES WHERE Variable_name IN ({names})")
        self.variables = {str(name): str(value) for name, value in rows}
        self.id = int(self.query("SELECT CONNECTION_ID()")[0][0])

    def _limit_session(self) -> None:
        """What protects the server from this session, and the session from locks."""
        limits = ["lock_wait_timeout = 1", "wait_timeout = 120"]
        if "max_execution_time" in self.variables:
            limits.append(f"max_execution_time = {max(1, round(self._limit * 1000))}")
        if "max_statement_time" in self.variables:
            limits.append(f"max_statement_time = {self._limit:.3f}")
        self.query("SET SESSION " + ", ".join(limits))

    def _failure(self, error: Exception, user: str) -> CollectorError:
        """The library's error as ours: its kind, and one line with the place and the remedy."""
        code, text = _code_and_text(error)
        kind = _kind(code, text, error)
        message = f"{self.endpoint}: {text}" + (f" ({code})" if code else "")
        if kind is FailureKind.DENIED and user:
            message += (
                f"; check the account {user!r} and its password (deploy/grants.sql has the account)"
            )
        elif kind is FailureKind.REFUSED and code in (
            CR.CR_CONN_HOST_ERROR,
            CR.CR_CONNECTION_ERROR,
        ):
            message += "; is the server up, and does it listen there?"
        return CollectorError(kind, message)


def _code_and_text(error: Exception) -> tuple[int, str]:
    arguments = error.args
    if len(arguments) > 1 and isinstance(arguments[0], int):
        return arguments[0], str(arguments[1]).splitlines()[0]
    return 0, (str(error) or type(error).__name__).splitlines()[0]


def _kind(code: int, text: str, error: Exception) -> FailureKind:
    if isinstance(error, TimeoutError) or "timed out" in text:
        return FailureKind.TIMEOUT
    for codes, kind in (
        (DENIED, FailureKind.DENIED),
        (PRIVILEGE, FailureKind.PRIVILEGE),
        (SLOW, FailureKind.SLOW),
        (REFUSED, FailureKind.REFUSED),
    ):
        if code in codes:
            return kind
    if _is_answer(code) and code not in LAST_WORDS:
        return FailureKind.UNREADABLE
    if isinstance(error, (OSError, pymysql.OperationalError, pymysql.InterfaceError)):
        return FailureKind.LOST
    return FailureKind.UNREADABLE


def _is_answer(code: int) -> bool:
    """Whether the server said so: errors from 2000 to 2999 are the client's own."""
    return 1000 <= code < 2000 or code >= 3000
