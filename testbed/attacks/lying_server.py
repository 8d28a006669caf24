"""A MySQL server that sends false answers: it speaks enough of the protocol for the agent.

It answers the agent's statements as an idle MySQL would. `lies` replaces the answer to each
statement that has one of these words in it; `greeting` and `login` replace the packets before.
It is an attacker, not a stand-in for a real server: what those say is tested on real ones.
"""

import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import chain, repeat
from typing import Self

from collectors import digest_table
from collectors.status import SETTINGS

SentCell = bytes | str | int | float | None
Packets = Iterable[bytes]
"""The bodies of an answer's packets, in order."""
FalseAnswer = Callable[[], Packets]

DECIMAL, LONGLONG, DATETIME, JSON, NEWDECIMAL, TEXT = 0, 8, 12, 245, 246, 253  # types of columns
AT_ONCE = 8_192  # bytes that are sent together
MAX_PACKET = 0xFFFFFF  # bytes of one packet
OK = b"\0\0\0\2\0\0\0"
END = b"\xfe\0\0\2\0"
SALT = b"12345678", b"123456789012\0"
NOW = "2026-11-23 12:00:00.000000"
DIGEST = "a" * 64
VARIABLES: Mapping[str, SentCell] = {
    "datadir": "/nowhere/",
    "hostname": "liar",
    "innodb_thread_concurrency": 0,
    "max_connections": 151,
    "max_execution_time": 0,
    "performance_schema": "ON",
    "performance_schema_digests_size": 10000,
    "pid_file": "liar.pid",
    "port": 1,
    "server_uuid": "3e11fa47-71ca-11e1-9e33-c80aa9429562",
    "version": "8.0.36",
    "version_comment": "a lie",
}
COUNTERS = [
    "Questions",
    "Bytes_received",
    "Bytes_sent",
    "Innodb_data_read",
    "Innodb_data_written",
    "Innodb_data_reads",
    "Innodb_data_writes",
    "Innodb_rows_read",
    "Innodb_rows_inserted",
    "Innodb_rows_updated",
    "Innodb_rows_deleted",
    "Innodb_row_lock_time",
    "Innodb_redo_log_current_lsn",
]
GAUGES: Mapping[str, SentCell] = {
    "Threads_running": 2,
    "Threads_connected": 5,
    "Performance_schema_digest_lost": 0,
    "Innodb_redo_log_checkpoint_lsn": 0,
    "Innodb_redo_log_capacity_resized": 104857600,
}
CONSUMERS = [
    "global_instrumentation",
    "thread_instrumentation",
    "events_statements_current",
    "statements_digest",
]
COUNTED = len(digest_table.COUNTERS)


def length_coded(number: int) -> bytes:
    """Encode a length as the protocol does."""
    if number < 251:
        return bytes([number])
    if number <= 0xFFFF:
        return b"\xfc" + struct.pack("<H", number)
    return b"\xfe" + struct.pack("<Q", number)


def coded(cell: SentCell) -> bytes:
    """Encode a cell of a row."""
    if cell is None:
        return b"\xfb"
    data = cell if isinstance(cell, bytes) else str(cell).encode()
    return length_coded(len(data)) + data


def column(type_code: int = TEXT, name: bytes = b"c") -> bytes:
    """Encode the definition of a column."""
    words = b"".join(coded(word) for word in (b"def", b"", b"t", b"t", name, name))
    return words + b"\x0c" + struct.pack("<HIBHBxx", 45, 1024, type_code, 0, 0)


def table(
    *rows: Sequence[SentCell], columns: int | None = None, type_code: int = TEXT, name: bytes = b"c"
) -> Packets:
    """Encode a whole result of these rows."""
    width = len(rows[0]) if columns is None else columns
    return endless(rows, columns=width, type_code=type_code, name=name)


def endless(
    rows: Iterable[Sequence[SentCell]],
    *,
    columns: int = 1,
    type_code: int = TEXT,
    name: bytes = b"c",
) -> Packets:
    """Encode a result whose rows may have no end."""
    head = chain((length_coded(columns),), repeat(column(type_code, name), columns), (END,))
    return chain(head, (b"".join(map(coded, row)) for row in rows), (END,))


def status_table(status: Mapping[str, SentCell], clock: str = NOW) -> Packets:
    """Encode the status, with the server's clock and its settings in every row."""
    settings = [VARIABLES[name] for name in SETTINGS]
    return table(*((name, value, clock, *settings) for name, value in status.items()))


def error(code: int, text: bytes) -> Packets:
    """Encode an error."""
    return (b"\xff" + struct.pack("<H", code) + b"#HY000" + text,)


def one(cell: SentCell, type_code: int = TEXT) -> FalseAnswer:
    """Return a function that answers with this one cell."""
    return lambda: table((cell,), type_code=type_code)


def greeting(
    version: bytes = b"8.0.36", plugin: bytes = b"mysql_native_password", *, tls: bool = False
) -> bytes:
    """Encode the server's first packet."""
    capabilities = 0x000FA281 | 0x00200000 | (0x800 if tls else 0)
    return (
        b"\x0a" + version + b"\0" + struct.pack("<I", 7) + SALT[0] + b"\0"
        + struct.pack("<H", capabilities & 0xFFFF) + b"\x2d\x02\0"
        + struct.pack("<HB", capabilities >> 16, 21) + bytes(10) + SALT[1] + plugin + b"\0"
    )  # fmt: skip


PREPARE = re.compile(r"(?s)PREPARE (\w+) FROM '(.*)'")
"""Its answer is honest; the statement that is then executed has the answer of its text."""


class LyingServer:
    """A server on loopback, until the block ends; each session has a thread."""

    def __init__(
        self,
        lies: Mapping[str, FalseAnswer] | None = None,
        *,
        greeting: FalseAnswer = lambda: (greeting(),),
        login: FalseAnswer = lambda: (OK,),
        variables: Mapping[str, SentCell] | None = None,
    ) -> None:
        self.lies = dict(lies or {})
        self.greeting = greeting
        self.login = login
        self.variables = {**VARIABLES, **(variables or {})}
        self.asked: list[str] = []  # the latest statements
        self.sessions = 0  # in all
        self.born = time.monotonic() - 5000.0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._accept)

    def __enter__(self) -> Self:
        """Start listening."""
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Close all sessions."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for session in list(self._open):
            with suppress(OSError):
                session.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def answer(self, statement: str) -> Packets:
        """Return the false answer to a statement if there is one, else an honest one."""
        for words, lie in list(self.lies.items()):
            if words in statement:
                return lie()
        return self.honest(statement)

    def honest(self, statement: str) -> Packets:
        """Return the answer of an idle server."""
        age = time.monotonic() - self.born
        for pattern, answer in self._honest(age):
            if re.search(pattern, statement):
                return answer()
        return (OK,)

    def _honest(self, age: float) -> Iterator[tuple[str, FalseAnswer]]:
        """Patterns of the agent's statements, and the answers; the first match counts."""
        status = {**dict.fromkeys(COUNTERS, round(100 * age)), **GAUGES, "Uptime": round(age)}
        now = f"{datetime.fromisoformat(NOW) + timedelta(seconds=age):%F %T.%f}"
        sums = " ".join([str(round(10 * age))] * COUNTED)
        key = f"1700000000.000001|{DIGEST}|=shop"
        yield r"LIKE 'Uptime'", lambda: table(("Uptime", round(age)))
        yield r"SHOW VARIABLES", lambda: table(*self.variables.items())
        yield r"performance_schema\.global_status", lambda: status_table(status, now)
        yield r"CONNECTION_ID", one(self.sessions, LONGLONG)
        yield r"CURRENT_USER", one("headroom@%")
        yield r"setup_instruments", one(0, LONGLONG)
        yield r"SELECT ENABLED\s+FROM", one("YES")
        yield r"setup_consumers", lambda: table(*((name,) for name in CONSUMERS))
        yield r"SELECT 1 FROM", one(1, LONGLONG)
        yield r"PROCESSLIST_ID", one(42, LONGLONG)
        yield r"Binlog Dump%'\), 0", lambda: table((0, 1, 0, 0, 0, now))
        totals = (round(10 * age), round(1e12 * age), round(1e11 * age), sums, now)
        yield (
            r"SELECT SUM\(COUNT_STAR\), SUM\(SUM_TIMER_WAIT\), (?s:.)*UNION",
            lambda: table(totals, (0, 0, None, None, None), type_code=NEWDECIMAL),
        )
        yield (
            r"SELECT SUM\(COUNT_STAR\), SUM\(SUM_TIMER_WAIT\), ",
            lambda: table(totals, type_code=NEWDECIMAL),
        )
        yield r"CONCAT_WS\(' ', SUM", one(sums)
        yield r"GROUP_CONCAT\(", lambda: table((1, f"1000000 {sums}", key))
        yield (
            r"DIGEST_TEXT(?s:.)*LAST_SEEN",
            lambda: table((f"1000000 {sums}", key, "SELECT ?")),
        )
        yield r"DIGEST_TEXT", lambda: table((DIGEST, "SELECT ?"))
        yield r"CURRENT_SCHEMA", lambda: table(columns=4)
        yield r"SELECT DIGEST\s+FROM", one(DIGEST)
        yield r"CONCAT_WS\(' ', COALESCE", lambda: table((f"1000000 {sums}", key))

    def _accept(self) -> None:
        while True:
            try:
                session, _ = self._listener.accept()
            except OSError:
                return
            session.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sessions += 1
            self._open.add(session)
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            self._threads.append(threading.Thread(target=self._serve, args=[session]))
            self._threads[-1].start()

    def _serve(self, session: socket.socket) -> None:
        with suppress(OSError, EOFError):
            self._talk(session)
        self._open.discard(session)
        session.close()

    def _talk(self, session: socket.socket) -> None:
        prepared = dict[str, str]()
        send(session, 0, self.greeting())
        send(session, receive(session)[0] + 1, self.login())
        while (said := receive(session)[1])[:1] == b"\x03":
            statement = said[1:].decode(errors="replace")
            if found := PREPARE.fullmatch(statement):
                name, quoted = found.groups()
                prepared[f"EXECUTE {name}"] = re.sub(r"\\(.)|'(')", r"\1\2", quoted)
                send(session, 1, (OK,))
                continue
            statement = prepared.get(statement, statement)
            self.asked = [*self.asked[-99:], statement]
            send(session, 1, self.answer(statement))


def send(session: socket.socket, first: int, bodies: Packets) -> None:
    """Send packets, numbered from `first` on; one of 16 MiB is continued by the next."""
    waiting = bytearray()
    try:
        for number, body in enumerate(bodies, first):
            waiting += struct.pack("<I", len(body))[:3] + bytes([number % 256]) + body
            if len(waiting) > AT_ONCE:
                session.sendall(waiting)
                waiting.clear()
    finally:
        session.sendall(waiting)


def receive(session: socket.socket) -> tuple[int, bytes]:
    """Receive one packet; return its number and its body."""
    head = _exactly(session, 4)
    return head[3], _exactly(session, int.from_bytes(head[:3], "little"))


def _exactly(session: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = session.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data
