"""What the threads of statements in flight do, by class: on real servers, and by the kernel."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import numpy as np
import pytest
from collector_session import connected
from conftest import ServerFactory

from agent.demo.private_server import PrivateServer, free_port
from collectors import digests as digest_collector
from collectors.class_thread_states import (
    MARIADB,
    DigestHashes,
    StatementThreads,
    ThreadStateCounts,
    thread_states,
    words_hash,
)
from collectors.connection import Connection, Login
from collectors.digests import DigestRows, DigestValues
from collectors.endpoint import Endpoint
from collectors.result_cells import ONE_CELL, ResultLimits, ResultRow, text
from collectors.thread_times import ALL_THREADS_WAIT, CLIENT_THREADS_WAIT, ThreadTimes
from testbed.real.clients import Clients, root, run_as_root
from testbed.real.daemon import wait_until
from testbed.real.server_account import least_account
from testbed.real.server_programs import Release

COMPUTES = "SELECT BENCHMARK(60000000, 1 + 1) /* not 'a text' */ AS `computes`"
SLEEPS = "SELECT SLEEP(0.5) AS sleeps"
NAMES = ("computes", "sleeps")
CROWD = 2 * (os.cpu_count() or 1) + 2
"""Clients that compute, of which some must wait for a processor."""
TEXTS = "SELECT DIGEST, DIGEST_TEXT FROM performance_schema.events_statements_summary_by_digest"
STATEMENTS = (
    "SELECT 'it''s' AS a, \"x\\\" y\" AS b, 0x1F AS c, 1e5 AS d, NULL AS e -- the end",
    "select /* of the\nshop's own */ 1 + - 2 as `a b` from dual where 1 in (1, 2, 3) # so",
    "SELECT COUNT(*) FROM information_schema.SCHEMATA AS s WHERE s.SCHEMA_NAME <> 'sys\\\\'",
)


@pytest.mark.live
def test_a_computing_statement_is_ready_and_a_sleeping_one_is_not(
    server: PrivateServer,
) -> None:
    """By digest, on MariaDB by the words of its text; neither waits for a disk."""
    with (
        connected(server, "socket") as connection,
        Clients(server, COMPUTES),
        Clients(server, SLEEPS),
    ):
        digests = wait_until("digests", lambda: digests_of(connection), 20)
        read = digest_collector.prepare(connection).read
        assert read is not None
        for _ in looks(2):  # by the second, a MariaDB's texts are known
            read()
        seen = [states_in(read()) for _ in looks(40)]
    assert digests is not None
    ready = Counter[str]()
    for look in seen:
        ready.update(look.ready)
    assert ready[f"{digests['computes']}|"] > 20  # of 40: it computes nearly all the time
    assert ready[f"{digests['sleeps']}|"] <= 4  # as it wakes, twice a second
    assert not any(look.on_disk for look in seen)


@pytest.mark.live
@pytest.mark.parametrize("release", ["mariadb", "mariadb-11.8"], indirect=True)
def test_a_thread_pool_does_not_show_which_thread_runs_what(
    private_server: ServerFactory, release: Release
) -> None:
    """One that opened a sleeper's connection computes for another: no state is anyone's."""
    server = private_server(release, options=["--thread-handling=pool-of-threads"])
    with (
        connected(server, "socket") as connection,
        Clients(server, COMPUTES),
        Clients(server, SLEEPS, 4),
    ):
        read = digest_collector.prepare(connection).read
        assert read is not None
        for _ in looks(2):
            read()
        found = [read() for _ in looks(10)]
    for values in found:
        assert isinstance(values, DigestValues)
        assert values.rows.thread_states is None


@pytest.mark.live
def test_a_thread_pools_threads_are_its_clients(private_server: ServerFactory) -> None:
    """MariaDB 11.8 names them; a session on the extra port has a thread with another name."""
    port = free_port()
    pooled = ("--thread-handling=pool-of-threads", "--thread-pool-size=32")
    server = private_server("mariadb-11.8", options=[*pooled, f"--extra-port={port}"])
    account = least_account(server)
    on_extra_port = Connection(Endpoint(port=port), lambda: Login(*account), timeout=5, limit=5)
    with Clients(server, COMPUTES, CROWD), closing(on_extra_port):
        on_extra_port.open()
        times = ThreadTimes(server.pid)
        times.read()
        time.sleep(3)
        waits = times.read()
    assert waits[ALL_THREADS_WAIT] > 1.0
    assert waits[CLIENT_THREADS_WAIT] > 0.5 * waits[ALL_THREADS_WAIT]


@pytest.mark.live
def test_one_statement_reads_what_runs_and_on_which_threads(
    mysql_server: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two clients that compute, at least one is ready to run, and both have elapsed time."""
    asked = list[str]()
    with (
        connected(mysql_server, "socket") as connection,
        Clients(mysql_server, COMPUTES),
        Clients(mysql_server, COMPUTES),
    ):
        digest = wait_until("its digest", lambda: known_digests(connection).get("computes"), 20)
        read, query = digest_collector.prepare(connection).read, connection.query

        def noted(sql: str, limits: ResultLimits = ONE_CELL) -> list[ResultRow]:
            asked.append(sql)
            return query(sql, limits)

        assert read is not None
        monkeypatch.setattr(connection, "query", noted)
        seen = list[DigestRows]()
        for _ in looks(20):
            values = read()
            assert isinstance(values, DigestValues)
            seen.append(values.rows)
    assert sum("events_statements_current" in sql for sql in asked) == len(seen)
    ready = [rows.thread_states.ready[f"{digest}|"] for rows in seen if rows.thread_states]
    elapsed = [rows.running.get(f"{digest}|", 0.0) for rows in seen]
    assert len(ready) == 20
    assert max(ready) >= 1
    assert sum(ready) > 10
    assert min(elapsed) >= 0
    assert np.median(elapsed) > 0


@pytest.mark.live
def test_threads_without_what_they_run_are_unknown(private_server: ServerFactory) -> None:
    """A MySQL whose consumer of statements in flight is off: not that no thread is ready."""
    option = "--performance-schema-consumer-events-statements-current=OFF"
    with connected(private_server("mysql", options=[option]), "socket") as connection:
        read = digest_collector.prepare(connection).read
        assert read is not None
        values = read()
    assert isinstance(values, DigestValues)
    assert values.rows.thread_states is None


def states_in(values: Mapping[str, float]) -> ThreadStateCounts:
    """Those of a reading, which has some."""
    assert isinstance(values, DigestValues)
    assert values.rows.thread_states is not None
    return values.rows.thread_states


def digests_of(connection: Connection) -> dict[str, str] | None:
    """The digests of both statements, once the server has them."""
    found = known_digests(connection)
    return found if len(found) == len(NAMES) else None


def known_digests(connection: Connection) -> dict[str, str]:
    """The digests of these two alone: other tests run such statements too."""
    rows = connection_rows(connection)
    return {name: d for d, said in rows.items() for name in NAMES if f"AS `{name}`" in said}


def connection_rows(connection: Connection) -> dict[str, str]:
    """All digests' texts."""
    rows = connection.query(TEXTS, ResultLimits(2, rows=1000, bytes=2**20))
    return {text(digest): text(words, 1024) for digest, words in rows if digest}


def looks(count: int) -> Iterator[int]:
    """So many, 50 ms apart."""
    for number in range(count):
        time.sleep(0.05)
        yield number


@pytest.mark.live
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_running_text_and_its_digest_have_one_hash(
    mariadb_server: PrivateServer, statement: str
) -> None:
    """Literals, comments and punctuation do not change it."""
    with root(mariadb_server) as ask:
        ask("TRUNCATE performance_schema.events_statements_summary_by_digest")
        ask(statement)
    [[words]] = run_as_root(
        mariadb_server,
        "SELECT DIGEST_TEXT FROM performance_schema.events_statements_summary_by_digest"
        " WHERE DIGEST_TEXT NOT LIKE 'TRUNCATE%' AND DIGEST_TEXT NOT LIKE 'SET%'"
        " ORDER BY FIRST_SEEN, DIGEST LIMIT 1",
    )
    expression = MARIADB[MARIADB.index("SHA2(") : MARIADB.index(", 256)")] + ", 256)"
    quoted = statement.replace("\\", "\\\\").replace("'", "''")
    asked = expression.replace("PROCESSLIST_INFO", f"'{quoted}'")
    [[hashed]] = run_as_root(mariadb_server, f"SELECT {asked}")
    assert words_hash(str(words)) == str(hashed), words


def test_digests_with_the_same_words_are_no_class() -> None:
    """`a < ?` and `a > ?` cannot be distinguished by words; a third one can."""
    hashes = DigestHashes()
    hashes.add({"x": "SELECT `a` FROM `t` WHERE `a` < ?", "z": "SELECT `b` FROM `t`"})
    name = f"{words_hash('select a from t where a < 7')}|=shop"
    assert hashes.class_of(name) == "x|=shop"
    hashes.add({"y": "SELECT `a` FROM `t` WHERE `a` > ?"})
    assert hashes.class_of(name) is None
    assert hashes.class_of(f"{words_hash('SELECT b FROM t')}|") == "z|"
    assert hashes.class_of("unknown|") is None


@pytest.mark.parametrize(
    ("picoseconds", "counts"), [(b"3000000000", True), (b"1000000000", False), (None, True)]
)
def test_a_statement_younger_than_its_threads_state_has_none(
    picoseconds: bytes | None, counts: bool
) -> None:
    """Read 2 ms later; of an unknown age it is taken for the one that ran then."""
    connection = Connection(Endpoint(), lambda: Login("nobody"), timeout=1, limit=1)
    rows = [(b"a|", b"7", picoseconds), (b"a|", b"8", picoseconds), (b"b|", b"9", picoseconds)]
    threads = StatementThreads(connection, os.getpid(), own_thread=1)
    found = threads.counts({7: "R", 8: "D", 9: "S"}, rows, took=0.002)
    once = Counter({"a|": 1} if counts else {})
    assert found == ThreadStateCounts(on_disk=once, ready=once)


def test_thread_states_are_the_kernels() -> None:
    """A process that computes is R, one that waits is S; one that has ended has none."""
    with child("while True: pass") as computes, child("import time; time.sleep(60)") as sleeps:
        assert wait_until("state", lambda: states(computes) == ["R"])
        assert wait_until("state", lambda: states(sleeps) == ["S"])
    assert thread_states(f"/proc/{computes.pid}/task") == {}


def states(process: subprocess.Popen[bytes]) -> list[str]:
    """Of all its threads."""
    return list(thread_states(f"/proc/{process.pid}/task").values())


@contextmanager
def child(program: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python that runs this."""
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        try:
            yield process
        finally:
            process.kill()
