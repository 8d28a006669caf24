"""PyMySQL's connection, with limits on what it reads and on who receives the password."""

import socket
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from collectors.base import CollectorError, FailureKind
from collectors.lazy_cryptography import COM_QUERY, pymysql
from collectors.result_cells import ResultLimits, ResultRow
from collectors.transport_security import USE_SOCKET, is_server_verified, unverified_context

if TYPE_CHECKING:
    from pymysql.cursors import Cursor
    from pymysql.protocol import MysqlPacket

    Library = pymysql.Connection[Cursor]
else:
    Library = pymysql.connections.Connection

PLAIN_PLUGINS = (b"mysql_clear_password", b"dialog")  # they send the password in the clear
BROKEN_PLUGINS = (b"mysql_old_password",)  # a hash that is easily reversed
LOGIN = 16_384  # bytes that a server may send until a session is open


class Session(Library):
    """PyMySQL's connection, with limits on what it reads and on who receives the password.

    Results are read here and not by the library: as bytes that are not decoded, and within their
    `ResultLimits`. While a session opens, the server may send `LOGIN` bytes.
    """

    _bytes_left = LOGIN

    def __init__(self, *, server_public_key: bytes | None = None, **options: Any) -> None:
        self._known_key = server_public_key
        super().__init__(**options)

    @property
    def server_public_key(self) -> bytes | None:
        """The key that encrypts the password: a configured one, or that of a verified server."""
        return self._known_key

    @server_public_key.setter
    def server_public_key(self, sent: bytes | None) -> None:
        """Raise `CollectorError` if no key is configured: an impostor could send its own."""
        if sent is None or self._known_key is not None:
            return
        if not is_server_verified(self._sock):  # type: ignore[attr-defined]
            raise CollectorError(
                FailureKind.UNTRUSTED,
                "the server asks for the password, encrypted with a key that it sends itself, which"
                f" is refused: {USE_SOCKET}, or name its key in server_public_key",
            )
        self._known_key = sent

    def ask(self, statement: str, limits: ResultLimits) -> list[ResultRow]:
        """Return the rows of a statement's result; raises `CollectorError` beyond `limits`."""
        self._bytes_left = limits.size
        self._execute_command(COM_QUERY, statement)  # type: ignore[attr-defined]
        first = self._next_packet()
        if first.is_ok_packet():
            return _empty_result(limits, 0)
        if first.is_load_local_packet():
            self._force_close()  # type: ignore[attr-defined]
            raise CollectorError(FailureKind.LOST, "the server asks for a local file: refused")
        columns = first.read_length_encoded_integer() or 0
        for _ in range(columns):
            self._next_packet()
        if not self._next_packet().is_eof_packet():
            raise ValueError("no end of the columns")
        rows = list(self._rows(limits, columns))
        if columns != limits.columns:
            message = f"the result has {columns} columns instead of {limits.columns}"
            raise CollectorError(FailureKind.UNREADABLE, message)
        return rows

    def _rows(self, limits: ResultLimits, columns: int) -> Iterator[ResultRow]:
        rows_left = limits.rows
        while not (packet := self._next_packet()).is_eof_packet():
            rows_left -= 1
            if rows_left < 0:
                self._force_close()  # type: ignore[attr-defined]
                raise _too_large(f"more than {limits.rows:,} rows")
            yield tuple(
                packet.read_length_coded_string()  # type: ignore[no-untyped-call]
                for _ in range(columns)
            )

    def set_character_set(self, charset: str, collation: str | None = None) -> None:
        """Send nothing: `Connection` sends the character set with its first settings."""

    def _create_ssl_ctx(self, sslp: object) -> ssl.SSLContext:
        """Return the context given, or the shared one; the library would load all CAs each time."""
        return sslp if isinstance(sslp, ssl.SSLContext) else unverified_context()

    def _next_packet(self) -> "MysqlPacket":
        return self._read_packet()  # type: ignore[no-any-return,no-untyped-call]

    def _read_bytes(self, num_bytes: int) -> bytes:
        """Read from the network; raises `CollectorError` beyond the limit of login or result."""
        self._bytes_left -= num_bytes
        if self._bytes_left < 0:
            self._force_close()  # type: ignore[attr-defined]
            raise _too_large("more bytes")
        return super()._read_bytes(num_bytes)  # type: ignore[misc,no-any-return]

    def _process_auth(self, plugin_name: bytes, *rest: Any) -> Any:
        """Use the plugin that the server asks for; raises `CollectorError` for an insecure one."""
        if plugin_name in PLAIN_PLUGINS and not is_server_verified(self._sock):  # type: ignore[attr-defined]
            raise CollectorError(
                FailureKind.UNTRUSTED,
                f"the server asks for the password in the clear ({plugin_name.decode()}), which is"
                " refused: use its socket file, or set tls.ca",
            )
        if plugin_name in BROKEN_PLUGINS:
            message = f"the server asks for {plugin_name.decode()}, which exposes the password"
            raise CollectorError(FailureKind.UNTRUSTED, message)
        if plugin_name == b"sha256_password" and self._sock.family == socket.AF_UNIX:  # type: ignore[attr-defined]
            self._secure = False  # the server expects the password in the clear over TLS only
        return super()._process_auth(plugin_name, *rest)  # type: ignore[misc]


def _empty_result(limits: ResultLimits, columns: int) -> list[ResultRow]:
    if columns != limits.columns:
        raise CollectorError(FailureKind.UNREADABLE, "the query returned no rows")
    return []


def _too_large(what: str) -> CollectorError:
    message = (
        f"the result has {what} than the statement can return: check that it is MySQL or MariaDB"
    )
    return CollectorError(FailureKind.OVERSIZED, message)
