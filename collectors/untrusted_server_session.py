"""The library's connection with limits: on its reads, and on the receivers of a password."""

import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from collectors.base import CollectorError, FailureKind
from collectors.bounded_results import Row, Shape
from collectors.lazy_cryptography import COM_QUERY, pymysql
from collectors.transport_security import USE_SOCKET, believing_anybody, is_trusted

if TYPE_CHECKING:
    from pymysql.cursors import Cursor
    from pymysql.protocol import MysqlPacket

    Library = pymysql.Connection[Cursor]
else:
    Library = pymysql.connections.Connection

PLAIN_PLUGINS = (b"mysql_clear_password", b"dialog")  # they send the password in the clear
BROKEN_PLUGINS = (b"mysql_old_password",)  # a hash that is soon turned back into a password
LOGIN = 16_384  # bytes that a server may send until a session is open


class Session(Library):
    """The library's connection, with limits on its reads and on the receivers of a password.

    An answer is read here and not by the library: in bytes, which no one has to decode, and within
    its `Shape`. What comes while a session opens may be `LOGIN` bytes long.
    """

    _room = LOGIN

    def __init__(self, *, server_public_key: bytes | None = None, **options: Any) -> None:
        self._known_key = server_public_key
        super().__init__(**options)

    @property
    def server_public_key(self) -> bytes | None:
        """The key to encrypt a password with: one that is known from elsewhere."""
        return self._known_key

    @server_public_key.setter
    def server_public_key(self, sent: bytes | None) -> None:
        """Refuse a key from the other end: an impostor could send his own."""
        if sent is not None and self._known_key is None:
            raise CollectorError(
                FailureKind.UNTRUSTED,
                "the server asks for the password, encrypted with a key that it sends itself, which"
                f" is refused: {USE_SOCKET}, or name its key in server_public_key",
            )

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
        return sslp if isinstance(sslp, ssl.SSLContext) else believing_anybody()

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
        if plugin_name in BROKEN_PLUGINS:
            message = f"the server asks for {plugin_name.decode()}, which exposes the password"
            raise CollectorError(FailureKind.UNTRUSTED, message)
        return super()._process_auth(plugin_name, *rest)  # type: ignore[misc]


def _as_expected(shape: Shape, columns: int) -> list[Row]:
    if columns != shape.columns:
        raise CollectorError(FailureKind.UNREADABLE, "the query returned no rows")
    return []


def _another_shape(shape: Shape, columns: object) -> CollectorError:
    message = f"the result has {columns} columns instead of {shape.columns}"
    return CollectorError(FailureKind.LOST, message)


def _too_large(what: str) -> CollectorError:
    message = f"the result has {what} than the statement can return: is it MySQL or MariaDB?"
    return CollectorError(FailureKind.OVERSIZED, message)
