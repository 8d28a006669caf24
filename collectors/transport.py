"""How a session crosses the network: TLS, who was verified, and what nobody may be told.

Over a socket file, over loopback and within this machine nobody stands in between. Elsewhere TLS
keeps listeners out, and only a verified certificate keeps out who poses as the server:
caching_sha2_password hands the password itself to the other end of TLS, and without TLS encrypts it
with whatever key the other end sends.
https://dev.mysql.com/doc/refman/en/caching-sha2-pluggable-authentication.html
"""

import ipaddress
import os
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from collectors.answers import Row, Shape
from collectors.base import CollectorError, FailureKind, Feature
from collectors.driver import COM_QUERY, pymysql

if TYPE_CHECKING:
    from pymysql.cursors import Cursor
    from pymysql.protocol import MysqlPacket

    Library = pymysql.Connection[Cursor]
else:
    Library = pymysql.connections.Connection

PLAIN_PLUGINS = (b"mysql_clear_password", b"dialog")  # they send the password as it is
MOST_AUTHORITIES = 64  # whose certificates are kept loaded
LOGIN = 16_384  # bytes that a server may say until a session is open
USE_TLS = "set tls.ca, the authority that signed the server's certificate"
GIVE_TLS = f"give the server a certificate (ssl_cert and ssl_key in its my.cnf), then {USE_TLS}"


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


class Session(Library):
    """The library's connection, with a limit to what it reads, and its password for few.

    An answer is read here and not by the library: in bytes, which no one has to decode, and within
    its `Shape`. What comes while a session opens may be `LOGIN` bytes long.
    """

    _room = LOGIN

    def ask(self, statement: str, shape: Shape) -> list[Row]:
        """The rows that answer a statement; raises `CollectorError` where they are too many."""
        self._room = shape.size
        self._execute_command(COM_QUERY, statement)  # type: ignore[attr-defined]
        first = self._next_packet()
        if first.is_ok_packet():
            return _as_expected(shape, 0)
        columns = first.read_length_encoded_integer()
        if first.is_load_local_packet() or columns != shape.columns:
            self._force_close()  # type: ignore[attr-defined]
            raise _another_shape(shape, columns)
        for _ in range(columns):
            self._next_packet()
        if not self._next_packet().is_eof_packet():
            raise ValueError("no end of the columns")
        return list(self._rows(shape))

    def _rows(self, shape: Shape) -> Iterator[Row]:
        left = shape.rows
        while not (packet := self._next_packet()).is_eof_packet():
            left -= 1
            if left < 0:
                self._force_close()  # type: ignore[attr-defined]
                raise _too_large(f"more than {shape.rows:,} rows")
            yield tuple(
                packet.read_length_coded_string()  # type: ignore[no-untyped-call]
                for _ in range(shape.columns)
            )

    def _create_ssl_ctx(self, sslp: object) -> ssl.SSLContext:
        """The one that is given or the one for all; the library would load all CAs each time."""
        return sslp if isinstance(sslp, ssl.SSLContext) else _believing_anybody()

    def _next_packet(self) -> "MysqlPacket":
        return self._read_packet()  # type: ignore[no-any-return,no-untyped-call]

    def _read_bytes(self, num_bytes: int) -> bytes:
        """Read from the network, as much as there is room for."""
        self._room -= num_bytes
        if self._room < 0:
            self._force_close()  # type: ignore[attr-defined]
            raise _too_large("more bytes")
        return super()._read_bytes(num_bytes)  # type: ignore[misc,no-any-return]

    def _process_auth(self, plugin_name: bytes, *rest: Any) -> Any:
        """Answer the server's wish for another way to authenticate."""
        if plugin_name in PLAIN_PLUGINS and not is_trusted(self._sock):  # type: ignore[attr-defined]
            raise CollectorError(
                FailureKind.UNTRUSTED,
                f"the server asks for the password in the clear ({plugin_name.decode()}), which is"
                " refused: use its socket file, or set tls.ca",
            )
        return super()._process_auth(plugin_name, *rest)  # type: ignore[misc]


def _as_expected(shape: Shape, columns: int) -> list[Row]:
    if columns != shape.columns:
        raise CollectorError(FailureKind.UNREADABLE, "an answer without the rows asked for")
    return []


def _another_shape(shape: Shape, columns: object) -> CollectorError:
    message = f"no answer to what was asked: {columns} columns instead of {shape.columns}"
    return CollectorError(FailureKind.LOST, message)


def _too_large(what: str) -> CollectorError:
    message = f"the server answers with {what} than its statement explains; is it one?"
    return CollectorError(FailureKind.OVERSIZED, message)


def tls_options(endpoint: Endpoint) -> dict[str, Any]:
    """What the library is told of TLS; raises `CollectorError` where the authority is none."""
    if endpoint.socket:
        return {"ssl_disabled": True}
    if endpoint.tls_ca is None and not endpoint.tls_required:
        return {}  # TLS where the server offers it
    if endpoint.tls_ca is None:
        return {"ssl": _believing_anybody()}
    try:
        file = os.stat(endpoint.tls_ca)  # noqa: PTH116  (any path that OpenSSL takes)
        version = (file.st_ino, file.st_mtime_ns, file.st_size)
        return {"ssl": _believing(endpoint.tls_ca, endpoint.tls_verify_identity, version)}
    except OSError as error:
        why = "holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise CollectorError(FailureKind.UNTRUSTED, f"tls.ca: {endpoint.tls_ca}: {why}") from None


@cache
def _believing_anybody() -> ssl.SSLContext:
    """TLS with whoever answers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@lru_cache(maxsize=MOST_AUTHORITIES)
def _believing(authority: str, verify_identity: bool, version: object) -> ssl.SSLContext:
    """TLS with whom this authority and no other has certified, by this `version` of its file.

    One for all sessions: to load the certificates takes longer than all else of a connection.
    """
    del version
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = verify_identity
    context.load_verify_locations(authority)
    return context


def protection(connection: socket.socket) -> tuple[Feature, ...]:
    """What protects this session on its way; a lack is told with its remedy."""
    encrypted, verified = Feature("encrypted_session", True), Feature("verified_server", True)
    if _is_within_this_machine(connection) or is_trusted(connection):
        return encrypted, verified
    address = connection.getpeername()[0]
    if isinstance(connection, ssl.SSLSocket):
        reason = (
            f"nobody verifies the certificate of {address}: who stands in between can pose as the"
            " server and be told the password"
        )
        return encrypted, Feature("verified_server", False, reason, USE_TLS)
    reason = (
        f"the session to {address} has no TLS: who listens reads statements and answers, and who"
        " stands in between can be told the password"
    )
    return (Feature("encrypted_session", False, reason, GIVE_TLS),)


def is_trusted(connection: socket.socket) -> bool:
    """Whether nobody can stand in between: a socket file, or TLS with a verified certificate."""
    if isinstance(connection, ssl.SSLSocket):
        return connection.context.verify_mode is ssl.CERT_REQUIRED
    return connection.family == socket.AF_UNIX


def _is_within_this_machine(connection: socket.socket) -> bool:
    """Over a socket file, over loopback, or between two addresses that are the same."""
    if connection.family == socket.AF_UNIX:
        return True
    peer, own = connection.getpeername()[0], connection.getsockname()[0]
    address = ipaddress.ip_address(str(peer).partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None) or address
    return peer == own or bool(mapped.is_loopback)
