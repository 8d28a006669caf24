"""PyMySQL's connection, with limits on what it reads and on who receives the password."""

import socket
import ssl
from typing import TYPE_CHECKING, Any

from collectors.base import CollectorError, FailureKind
from collectors.lazy_cryptography import COM_QUERY, CR, pymysql
from collectors.result_cells import ResultCell, ResultLimits, ResultRow
from collectors.transport_security import USE_SOCKET, is_server_verified, unverified_context

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

    Library = pymysql.Connection[Cursor]
else:
    Library = pymysql.connections.Connection

PLAIN_PLUGINS = (b"mysql_clear_password", b"dialog")  # they send the password in the clear
BROKEN_PLUGINS = (b"mysql_old_password",)  # a hash that is easily reversed
LOGIN = 16_384  # bytes that a server may send until a session is open

MAX_PACKET = 0xFFFFFF  # bytes; a packet of that many is continued by the next
OK, EOF, ERROR, LOCAL_FILE = 0x00, 0xFE, 0xFF, 0xFB
"""First bytes of packets that are no row; a row may begin with the first two, too."""
OK_BYTES, EOF_BYTES = 7, 8  # an OK packet has at least so many, the end of rows at most
NULL = 0xFB
LENGTH_BYTES = {0xFC: 2, 0xFD: 3, 0xFE: 8}
"""Bytes of a number that follows this first byte; a lower first byte is the number itself."""


class Session(Library):
    """PyMySQL's connection, with limits on what it reads and on who receives the password.

    Results are read here and not by the library: as bytes that are not decoded, and within their
    `ResultLimits`. While a session opens, the server may send `LOGIN` bytes.
    """

    _bytes_left = LOGIN
    _next_seq_id: int  # of the library

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
        if first[0] == OK and len(first) >= OK_BYTES:
            return _no_rows(limits)
        if first[0] == LOCAL_FILE:
            self._force_close()  # type: ignore[attr-defined]
            raise CollectorError(FailureKind.LOST, "the server asks for a local file: refused")
        columns, _ = _length(first, 0)
        for _ in range(columns):
            self._next_packet()
        if not _is_end(self._next_packet()):
            raise ValueError("no end of the columns")
        rows = self._rows(limits, columns)
        if columns != limits.columns:
            message = f"the result has {columns} columns instead of {limits.columns}"
            raise CollectorError(FailureKind.UNREADABLE, message)
        return rows

    def _rows(self, limits: ResultLimits, columns: int) -> list[ResultRow]:
        rows = list[ResultRow]()
        while not _is_end(packet := self._next_packet()):
            if len(rows) >= limits.rows:
                self._force_close()  # type: ignore[attr-defined]
                raise _too_large(f"more than {limits.rows:,} rows")
            rows.append(_cells(packet, columns))
        return rows

    def _next_packet(self) -> bytes:
        """Read a packet of an answer; raises the server's error, or that of a broken connection.

        The library's own `_read_packet` takes far longer for a packet, of which each row is one.
        """
        packet, size = b"", MAX_PACKET
        while size == MAX_PACKET:
            header = self._read_bytes(4)
            if header[3] != self._next_seq_id:
                self._force_close()  # type: ignore[attr-defined]
                raise _out_of_sequence(header[3], self._next_seq_id)
            self._next_seq_id = (header[3] + 1) % 256
            size = int.from_bytes(header[:3], "little")
            packet += self._read_bytes(size)
        if packet[0] == ERROR:
            pymysql.err.raise_mysql_exception(packet)
        return packet

    def set_character_set(self, charset: str, collation: str | None = None) -> None:
        """Send nothing: `Connection` sends the character set with its first settings."""

    def _create_ssl_ctx(self, sslp: object) -> ssl.SSLContext:
        """Return the context given, or the shared one; the library would load all CAs each time."""
        return sslp if isinstance(sslp, ssl.SSLContext) else unverified_context()

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


def _is_end(packet: bytes) -> bool:
    """Return whether this packet ends the columns or the rows."""
    return packet[0] == EOF and len(packet) <= EOF_BYTES


def _cells(row: bytes, columns: int) -> ResultRow:
    """Split a row; raises IndexError, KeyError or ValueError where it is none."""
    cells, at = list[ResultCell](), 0
    for _ in range(columns):
        if row[at] == NULL:
            cells.append(None)
            at += 1
            continue
        length, at = (row[at], at + 1) if row[at] < NULL else _length(row, at)
        cells.append(row[at : at + length])
        at += length
    if at > len(row):
        raise ValueError("a cell is longer than its row")
    return tuple(cells)


def _length(packet: bytes, at: int) -> tuple[int, int]:
    """Return the number there and where it ends; raises IndexError or KeyError where it is none."""
    first = packet[at]
    if first < NULL:
        return first, at + 1
    end = at + 1 + LENGTH_BYTES[first]
    return int.from_bytes(packet[at + 1 : end], "little"), end


def _out_of_sequence(number: int, expected: int) -> Exception:
    """Return the library's error: a MariaDB that shuts down says so in a packet of number 0."""
    if number == 0:
        return pymysql.OperationalError(
            CR.CR_SERVER_LOST, "Lost connection to MySQL server during query"
        )
    return pymysql.InternalError(f"Packet sequence number wrong - got {number} expected {expected}")


def _no_rows(limits: ResultLimits) -> list[ResultRow]:
    """Return no rows; raises `CollectorError` where the statement should return some."""
    if limits.columns:
        raise CollectorError(FailureKind.UNREADABLE, "the query returned no rows")
    return []


def _too_large(what: str) -> CollectorError:
    message = (
        f"the result has {what} than the statement can return: check that it is MySQL or MariaDB"
    )
    return CollectorError(FailureKind.OVERSIZED, message)
