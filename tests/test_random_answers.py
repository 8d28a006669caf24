"""A server that answers anything: no collector and no assessment has an exception of its own."""

import io
import random
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.assessment.snapshot import AssessmentState, Health
from agent.config.query_class_settings import ClassSettings
from agent.config.settings import FitSettings
from agent.pipeline import assess
from agent.query_classes.assessment import ClassMonitor
from agent.support.clock_pair import ClockPair
from agent.window.interval_buffer import IntervalBuffer
from collectors import COLLECTORS, CollectorSpec, status
from collectors.base import CollectorError, Sample
from collectors.connection import Connection, Login
from collectors.digests import DigestRows, DigestValues
from collectors.endpoint import Endpoint
from testbed.attacks.lying_server import (
    DATETIME,
    DECIMAL,
    JSON,
    LONGLONG,
    NEWDECIMAL,
    OK,
    TEXT,
    LyingServer,
    Packets,
    SentCell,
    endless,
    error,
)

ANSWERS, MORE_ANSWERS = 4_000, 10_000  # the more are for `--long`
LONGEST = 600  # characters of a message
TIMES = 8  # that a collector is prepared in one example
EXAMPLES = 40  # at a time
ENOUGH = 240.0  # seconds
MAX_GROWTH = 30.0  # MiB, over the second half; answers of 90 KB that were kept would be 80
POOL = 8  # answers that are drawn at a time, of which each statement gets one or the truth
HONEST = 0.4  # of the statements after the login
TYPES = (DECIMAL, LONGLONG, DATETIME, JSON, NEWDECIMAL, TEXT, 1, 5, 16, 255)
EXTREME = (
    "0", "-1", "1e999", "-1e308", "1e30", "NaN", "inf", "1_0", "٣", "9" * 25, "9" * 5000,
    "1E+30000000", "18446744073709551616", "0x10", "", " 1", "2024-01-01 00:00:00",
)  # fmt: skip
WORDS = (
    "version",
    "ON",
    "YES",
    "Questions",
    "Uptime",
    "Threads_running",
    "COUNT_STAR",
    "DIGEST",
    "global_instrumentation",
    "statements_digest",
    "events_statements_current",
    "1.5|d|=s",
    "1 2 3",
    "||",
    "|" * 500,
    "\x1f",
    "a@b",
    "\x00",
    "\x1b[2J",
)
cells: st.SearchStrategy[SentCell] = st.one_of(
    st.none(),
    st.sampled_from(EXTREME),
    st.sampled_from(WORDS),
    st.integers(0, 2**70),
    st.binary(max_size=40),
    st.builds(bytes.__mul__, st.binary(min_size=1, max_size=3), st.integers(1, 90_000)),
)


@st.composite
def tables(draw: st.DrawFn) -> list[bytes]:
    """A result of any size and type, its rows not always as wide as it says."""
    columns = draw(st.sampled_from((1, 2, 3, 2, 2)))
    width = columns if draw(st.booleans()) else draw(st.integers(0, 4))
    rows = draw(st.lists(st.lists(cells, min_size=width, max_size=width), max_size=3))
    many = draw(st.sampled_from((1, 1, 30)))
    kind, name = draw(st.sampled_from(TYPES)), draw(st.binary(max_size=5))
    return list(endless(rows * many, columns=columns, type_code=kind, name=name))


answers: st.SearchStrategy[list[bytes]] = st.one_of(
    tables(),
    tables(),
    tables().map(lambda packets: packets[::-1]),  # another order
    tables().map(lambda packets: packets[:-1]),  # no end
    st.just([OK]),
    st.builds(lambda code, text: list(error(code, text)), st.integers(0, 65535), st.binary()),
    st.lists(st.binary(max_size=60), min_size=1, max_size=3),
)


class AnyServer(LyingServer):
    """Answers with what the test has drawn, and honestly between and during a login."""

    def __init__(self) -> None:
        super().__init__()
        self.pool: list[list[bytes]] = []
        self.random = random.Random(1)
        self.is_lying = False
        self.lies_sent = 0

    def answer(self, statement: str) -> Packets:
        """The answer that was drawn, or an honest one."""
        if not self.is_lying or self.random.random() < HONEST:
            return self.honest(statement)
        self.lies_sent += 1
        return self.random.choice(self.pool)


class Wire(io.RawIOBase):
    """The client's end of a connection to a server in the same thread, for the sake of speed.

    What was asked is answered at once, and what comes after the answer is the end.
    """

    family = socket.AF_INET

    def __init__(self, server: LyingServer) -> None:
        super().__init__()
        self._server = server
        self._is_known = False
        self._said = io.BytesIO(packets(0, server.greeting()))

    def sendall(self, asked: bytes) -> None:
        """Take what the client says, and have the answer ready."""
        if not self._is_known:
            self._is_known = True
            self._said = io.BytesIO(packets(asked[3] + 1, self._server.login()))
        elif asked[4] == 3:
            statement = asked[5:].decode()
            self._said = io.BytesIO(packets(1, self._server.answer(statement)))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._said.readinto(buffer)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def getpeername(self) -> tuple[str, int]:
        return "127.0.0.1", 3306

    getsockname = getpeername

    def settimeout(self, seconds: float) -> None:
        """Nothing is waited for."""

    def setsockopt(self, *option: int) -> None:
        """Nor sent."""


def packets(first: int, bodies: Packets) -> bytes:
    """An answer as it goes over the wire."""
    return b"".join(
        struct.pack("<I", len(body))[:3] + bytes([number % 256]) + body
        for number, body in enumerate(bodies, first)
    )


def read_all(server: AnyServer) -> None:
    """Prepare and read each collector again and again, by a new session where one has ended."""
    login = Login("headroom", "Qz7")
    connection = Connection(Endpoint(port=server.port), lambda: login, timeout=2, limit=1)
    for spec in COLLECTORS:
        for _ in range(TIMES if spec.on_server else 1):  # the host takes long to look at
            if not connection.is_open:
                server.is_lying = False
                connection.open()
            server.is_lying = True
            read_once(spec, connection)
    with only_collector_errors():
        connection.open()
    connection.close()


def read_once(spec: CollectorSpec, connection: Connection) -> None:
    """As a watch does: what was prepared is read until the session ends."""
    with only_collector_errors():
        read = spec.prepare(connection).read
        for _ in range(3):
            if read is not None and connection.is_open:
                with only_collector_errors():
                    read()


@contextmanager
def only_collector_errors() -> Iterator[None]:
    """Any other exception fails the test; the message is short, and one line."""
    said = ""
    try:
        yield
    except CollectorError as failed:
        said = str(failed)
    assert len(said) < LONGEST
    assert not said or said.isprintable()


def resident() -> float:
    """The memory of this process in MiB."""
    return psutil.Process().memory_info().rss / 2**20


@pytest.mark.timeout(400)
def test_no_answer_causes_another_exception_in_a_collector(
    monkeypatch: pytest.MonkeyPatch, *, is_long: bool
) -> None:
    """Thousands of any type, size and order; memory is flat over the second half."""
    wanted = MORE_ANSWERS if is_long else ANSWERS
    memory: list[tuple[int, float]] = []
    begun = time.monotonic()
    with AnyServer() as server:
        monkeypatch.setattr(socket, "create_connection", lambda *_, **__: Wire(server))

        @settings(
            max_examples=EXAMPLES,
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        @given(st.lists(answers, min_size=POOL, max_size=POOL))
        def send(pool: list[list[bytes]]) -> None:
            server.pool = pool
            read_all(server)

        while server.lies_sent < wanted:
            send()
            memory.append((server.lies_sent, resident()))
            assert time.monotonic() < begun + ENOUGH, f"{server.lies_sent} answers so far"
    seconds = time.monotonic() - begun
    print(f"{server.lies_sent} answers in {seconds:.0f} s; answers and MiB: {memory}")
    half = [held for count, held in memory if count >= wanted / 2]
    assert max(half) - half[0] < MAX_GROWTH


NUMBERS = (0.0, 1.0, -1.0, 1e-300, 1e30, -1e30, 3e9, 0.5, 1e15)
values = st.one_of(st.sampled_from(NUMBERS), st.floats(-1e30, 1e30))
STATUS = (*status.NAMES.values(), "own_statements", "max_connections", "innodb_thread_concurrency")
COUNTED = ("calls", "statement_time", "lock_time", "rows_sent", "rows_examined", "errors")
SECONDS = 40


@st.composite
def readings(draw: st.DrawFn) -> list[Sample]:
    """Forty seconds of samples, in each of which anything may have any value."""
    found = []
    base = draw(st.lists(values, min_size=len(STATUS), max_size=len(STATUS)))
    slopes = draw(st.lists(values, min_size=len(STATUS), max_size=len(STATUS)))
    odd = draw(st.dictionaries(st.integers(0, SECONDS), st.tuples(st.sampled_from(STATUS), values)))
    keys = draw(st.lists(st.sampled_from([f"1.5|{d}|=s" for d in "abcdef"]), unique=True))
    table = draw(st.lists(values, min_size=6 * len(COUNTED), max_size=6 * len(COUNTED)))
    for second in range(SECONDS):
        at = 1000.0 + second
        of_status = {n: b + s * second for n, b, s in zip(STATUS, base, slopes, strict=True)}
        if second in odd:
            of_status |= dict([odd[second]])
        found.append(Sample("status", at, of_status))
        spent = {"statements": base[0] + second, "statement_seconds": base[1] + slopes[1] * second}
        found.append(
            Sample("statements", at, {**spent, "in_flight": base[2], "in_flight_seconds": 1.0})
        )
        found.append(
            Sample("threads", at, {"agent": 1.0, "binlog_dump": base[3], "system": base[4]})
        )
        counters = np.array(table).reshape(6, -1)[: len(keys)] * (1 + second * (slopes[0] > 0))
        rows = DigestRows(
            names=COUNTED, keys=keys, counters=counters, age=np.full(len(keys), base[5]),
            complete=second % 7 == 0, since=None if second == 0 else 1.0,
            running={"a|=s": base[1]}, texts={"a": "SELECT ?"}, own_digests=frozenset(),
            all_statements=counters.sum(axis=0),
        )  # fmt: skip
        found.append(Sample("digests", at, DigestValues(rows, {"rows": 1.0})))
    return found


@pytest.mark.filterwarnings("default")  # as the agent runs: what overflows is a number
@settings(max_examples=40, suppress_health_check=list(HealthCheck), database=None)
@given(readings())
def test_no_reading_causes_an_exception_in_an_assessment(samples: list[Sample]) -> None:
    """Any numbers in any order: capacity and classes are assessed, or not."""
    buffer = IntervalBuffer(5.0, 600.0, 1.0)
    classes = ClassMonitor(ClassSettings(interval=10.0, window=60.0))
    fitted = AssessmentState()
    for sample in samples:
        classes.append(sample)
        if sample.collector == "digests":
            classes.advance(sample.at, 1e9 + sample.at)
            now = ClockPair(sample.at, 1e9 + sample.at)
            window = buffer.window(sample.at)
            fitted = assess(
                "db", window, Health(True), fitted, FitSettings(interval=5.0), now
            ).assessed
        else:
            buffer.append(sample)
