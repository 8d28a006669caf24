"""What the threads of statements in flight do, by class: on real servers, and by the kernel."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from collector_session import connected

from agent.demo.private_server import PrivateServer
from collectors.class_thread_states import (
    MARIADB,
    DigestHashes,
    StatementThreads,
    statement_threads,
    thread_states,
    words_hash,
)
from collectors.connection import Connection
from collectors.result_cells import ResultLimits, text
from collectors.statement_totals import own_thread
from testbed.real.clients import Clients, root, run_as_root
from testbed.real.daemon import wait_until

COMPUTES = "SELECT BENCHMARK(60000000, 1 + 1) /* not 'a text' */ AS `computes`"
SLEEPS = "SELECT SLEEP(0.5) AS sleeps"
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
        threads = statement_threads(connection, own_thread(connection))
        assert threads is not None
        digests = wait_until("digests", lambda: digests_of(connection, threads), 20)
        seen = [threads.read() for _ in looks(40)]
    assert digests is not None
    ready = Counter[str]()
    for look in seen:
        ready.update(look.ready)
    assert ready[f"{digests['computes']}|"] > 20  # of 40: it computes nearly all the time
    assert ready[f"{digests['sleeps']}|"] <= 4  # as it wakes, twice a second
    assert not any(look.on_disk for look in seen)


def digests_of(connection: Connection, threads: StatementThreads) -> dict[str, str] | None:
    """The digests of both statements, once the server has them; a MariaDB's are known by hash."""
    rows = connection_rows(connection)
    if threads.hashes is not None:
        threads.hashes.add(rows)
    words = ("computes", "sleeps")  # of these two alone: other tests run such statements too
    found = {word: d for d, said in rows.items() for word in words if f"AS `{word}`" in said}
    return found if len(found) == len(words) else None


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
