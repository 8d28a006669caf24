"""Real servers under known loads: what the agent exports is what happens there."""

import gc
import math
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

import pytest
from collector_session import connected
from conftest import ServerFactory

from agent.config.loader import load_config
from agent.demo.private_server import PrivateServer
from agent.service.daemon import Agent
from collectors import digests, statement_totals
from collectors.base import CollectorError
from collectors.connection import Connection
from collectors.statement_totals import WAITS_FOR_A_LOCK
from testbed.real.clients import Clients, root, run_as_root
from testbed.real.daemon import (
    Daemon,
    PlausiblePage,
    running,
    target,
    wait_until,
    watching,
    write_config,
)
from testbed.real.server_programs import Release

THROUGHPUT = "throughput_queries_per_second"
WIDTH = 1.0  # seconds of an interval
USED = "resource_utilisation_ratio"
CONSUMER = "UPDATE performance_schema.setup_consumers SET ENABLED = '{}' WHERE NAME = '{}'"
IN_FLIGHT_ON = CONSUMER.format("YES", "events_statements_current")
NAP = 0.1  # seconds
TIMED = "UPDATE performance_schema.setup_instruments SET TIMED = '{}' WHERE NAME LIKE 'statement/%'"
UNMEASURED = {
    "times": TIMED.format("NO"),
    "cpu": CONSUMER.format("NO", statement_totals.CPU_CONSUMER),
}


def settled(agent: Daemon, lasts: float = 2.0) -> float:
    """Wait until pages of so many seconds show nothing but what happens from now on; since when."""
    began = time.time()
    wait_until(
        "pages", lambda: any(page.at >= since(agent, began) + lasts for page in list(agent.pages))
    )
    return since(agent, began)


def since(agent: Daemon, began: float) -> float:
    """When pages show intervals that began after that (Unix s); infinite where none does."""
    for page in list(agent.pages):
        ends = page.all("interval_end_timestamp_seconds")
        if ends and min(ends) >= began + WIDTH:
            return page.at
    return math.inf


def test_throughput_is_the_clients_rate(server: PrivateServer, tmp_path: Path) -> None:
    """A client with 200 queries per second is a throughput of 200."""
    with watching(tmp_path, target(tmp_path, server)) as agent:
        with Clients(server, "DO 0", pace=1 / 200) as client:
            start = settled(agent, 3.0)
            slowest, fastest = client.rates(WIDTH, client.started + 0.5)
        seen = mean(agent.seen(THROUGHPUT, since=start))
    print(f"{slowest:.1f} to {fastest:.1f} statements/s, shown as {seen:.1f}")
    assert 0.97 * slowest < seen < 1.03 * fastest


def test_the_agent_is_excluded_from_its_metrics(
    private_server: ServerFactory, release: Release, tmp_path: Path
) -> None:
    """On an idle server all is zero: the agent and the event scheduler do not count.

    Except the time of the agent's own statements, and for which its session waits for a processor:
    on a busy machine a tenth of a thread in few intervals.
    """
    server = private_server(release, options=["--event-scheduler=ON"])
    run_as_root(server, IN_FLIGHT_ON)
    with watching(tmp_path, target(tmp_path, server)) as agent:
        start = settled(agent)
        assert max(agent.seen(THROUGHPUT, since=start)) < 0.01
        for source in ("statement_time", "threads_running"):
            own = agent.seen("concurrency", since=start, source=source)
            assert median(own) < 0.1
            assert max(own) < 0.5
        excluded = {
            kind: agent.get("concurrency_excluded_threads", kind=kind)
            for kind in ("agent", "binlog_dump", "system")
        }
        assert excluded == {"agent": 1, "binlog_dump": 0, "system": 1}


def test_setting_the_wall_clock_changes_no_rate(
    mysql_server: PrivateServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an hour in either direction."""
    file, _ = write_config(tmp_path, target(tmp_path, mysql_server))
    real, ahead = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + ahead[0])
    with Clients(mysql_server, "DO 0", pace=1 / 100) as client, running_here(file) as agent:
        for ahead[0] in (0.0, 3600.0, -3600.0):
            since, seen = time.monotonic(), set[float]()

            def are_seen(seen: set[float] = seen) -> bool:
                [snapshot] = agent.snapshots()
                seen.update([snapshot.load.throughput] if snapshot.load else [])
                return len(seen) > 4

            wait_until("intervals", are_seen)
            slowest, fastest = client.rates(1.0, since - 1.0)
            # an hour in an interval is far off
            assert 0.6 * slowest < min(seen) <= max(seen) < 1.4 * fastest


@contextmanager
def running_here(file: Path) -> Iterator[Agent]:
    """The agent within this process, so that a test can touch its clock."""
    agent = Agent(load_config(file))
    agent.start()
    try:
        yield agent
    finally:
        agent.stop()


@dataclass(frozen=True)
class Work:
    """What a client repeats, once it has said `first`."""

    statement: str
    first: str = "DO 0"


NAPPING = {
    "query": Work(f"SELECT SLEEP({NAP})"),
    "procedure": Work("CALL live.nap()"),
    "function": Work("SELECT live.napped()"),
    "prepared": Work("EXECUTE s", f"PREPARE s FROM 'SELECT SLEEP({NAP})'"),
}
ROUTINES = (
    "CREATE DATABASE IF NOT EXISTS live",
    "DROP PROCEDURE IF EXISTS live.nap",
    "DROP FUNCTION IF EXISTS live.napped",
    f"CREATE PROCEDURE live.nap() BEGIN DO SLEEP({NAP / 2}); DO SLEEP({NAP / 2}); END",
    f"CREATE FUNCTION live.napped() RETURNS INT NO SQL BEGIN DO SLEEP({NAP}); RETURN 1; END",
    IN_FLIGHT_ON,
)


def test_busy_clients_are_a_concurrency_of_their_number(
    server: PrivateServer, tmp_path: Path
) -> None:
    """Four clients without think time are four, each statement counted once.

    Whatever they send, and by either source. A busy machine wakes clients late: fewer statements
    run at once then, but at least as many as the completed ones take together.
    """
    run_as_root(server, *ROUTINES)
    with watching(tmp_path, target(tmp_path, server)) as agent:
        for kind, work in NAPPING.items():
            with Clients(server, work.statement, 4, first=work.first) as clients:
                start = settled(agent)
                slowest, fastest = clients.rates(WIDTH, clients.started + 0.5)
            for source, tolerance in (("statement_time", 0.08), ("threads_running", 0.2)):
                n = mean(agent.seen("concurrency", since=start, source=source))
                least, most = (1 - tolerance) * slowest * NAP, (1 + tolerance) * 4
                assert least < n < most, (kind, source)
            seen = mean(agent.seen(THROUGHPUT, since=start))
            assert 0.9 * slowest < seen < 1.1 * fastest, kind


BINARY_NAPS = f"""
function thread_init()
    connection = sysbench.sql.driver():connect()
    nap = connection:prepare("SELECT SLEEP({NAP})")
end
function event()
    nap:execute()
end
"""


def test_statements_of_the_binary_protocol_are_counted(
    server: PrivateServer, sysbench: str, tmp_path: Path
) -> None:
    """Three clients that execute prepared statements are a concurrency of three."""
    script = tmp_path / "naps.lua"
    script.write_text(BINARY_NAPS)
    login = ["--db-driver=mysql", "--mysql-user=root", f"--mysql-socket={server.socket}"]
    options = [*login, "--mysql-db=mysql", "--threads=3", "--time=60", "--events=0"]
    begun = executed(server)
    with watching(tmp_path, target(tmp_path, server)) as agent:
        with running(sysbench, *options, str(script), "run"):
            wait_until("its first", lambda: executed(server) > begun)
            before, at = executed(server), time.monotonic()
            start = settled(agent)
            rate = (executed(server) - before) / (time.monotonic() - at)
        n = mean(agent.seen("concurrency", since=start, source="statement_time"))
        seen = mean(agent.seen(THROUGHPUT, since=start))
    assert 0.92 * rate * NAP < n < 1.08 * 3
    assert seen == pytest.approx(rate, rel=0.1)


def executed(server: PrivateServer) -> int:
    """How many statements of the binary protocol the server has executed: not by SQL."""
    names = ("Com_stmt_execute", "Com_execute_sql")
    counts = dict(run_as_root(server, f"SHOW GLOBAL STATUS WHERE Variable_name IN {names}"))
    return int(counts[names[0]]) - int(counts[names[1]])


def test_a_long_statement_counts_while_it_runs(server: PrivateServer, tmp_path: Path) -> None:
    """One of ten seconds is a concurrency of one all the time, without a peak at its end."""
    run_as_root(server, IN_FLIGHT_ON)
    with watching(tmp_path, target(tmp_path, server), sane=PlausiblePage(threads=1.5)) as agent:
        with root(server) as ask:
            began = time.time()
            ask("SELECT SLEEP(10)")
        n = agent.seen("concurrency", since=since(agent, began), source="statement_time")
        assert len(n) >= 3  # of eight seconds, a page in each
        assert n == pytest.approx([1.0] * len(n), abs=0.1)
        wait_until("rest", lambda: (agent.get("concurrency", source="statement_time") or 0) < 0.1)


def test_no_statement_is_lost_between_two_reads(server: PrivateServer) -> None:
    """Those that end while the agent reads are counted: statement time never falls."""
    run_as_root(server, IN_FLIGHT_ON)
    with connected(server, "tcp") as connection, Clients(server, "SELECT SLEEP(0.3)", 8):
        read = statement_totals.prepare(connection).read
        assert read
        spent: list[float] = []
        while len(spent) < 300:
            values = read()
            spent.append(values["statement_seconds"] + values["in_flight_seconds"])
            time.sleep(0.01)
    falls = sum(after < before for before, after in pairwise(spent))
    assert falls <= 1  # each read may be torn, three in a row hardly


def test_a_failed_statement_holds_no_memory(server: PrivateServer) -> None:
    """Its error has no reference to itself by its traceback, which holds the session's buffers."""
    failures: list[weakref.ref[CollectorError]] = []
    with connected(server, "tcp") as connection:
        gc.disable()
        try:
            connection.query("SELECT nothing FROM nowhere.nothing")
        except CollectorError as error:
            failures.append(weakref.ref(error))
        finally:
            gc.enable()
    assert [failure() for failure in failures] == [None]


def test_without_performance_schema_threads_running_is_used(
    mariadb_without_schema: PrivateServer, tmp_path: Path
) -> None:
    """One line says what is missing; throughput and Threads_running are there."""
    server = mariadb_without_schema
    with watching(tmp_path, target(tmp_path, server)) as agent:
        with Clients(server, f"SELECT SLEEP({NAP})", 3) as clients:
            start = settled(agent)
            slowest, fastest = clients.rates(WIDTH, clients.started + 0.5)
        page = agent.page
        for feature in ("statements", "statements_in_flight", "threads"):
            assert page.get("feature_enabled", feature=feature) == 0
        assert page.get("feature_enabled", feature="status") == 1
        assert page.get("concurrency", source="statement_time") is None
        n = mean(agent.seen("concurrency", since=start, source="threads_running"))
        assert 0.8 * slowest * NAP < n < 1.2 * 3
        assert 0.9 * slowest < mean(agent.seen(THROUGHPUT, since=start)) < 1.1 * fastest
    said = [line for line in agent.log.splitlines() if "performance_schema is off" in line]
    assert sum("feature=statements " in line for line in said) == 1
    assert all("performance_schema = ON" in line for line in said)


def test_excluded_users_make_the_concurrency_unknown(
    private_server: ServerFactory, release: Release, tmp_path: Path
) -> None:
    """If performance_schema leaves a user out, the time of the other statements is not N."""
    server = private_server(release)
    run_as_root(server, "UPDATE performance_schema.setup_actors SET ENABLED = 'NO'")
    with watching(tmp_path, target(tmp_path, server)) as agent:
        with Clients(server, f"SELECT SLEEP({NAP})", 3) as clients:
            start = settled(agent)
            slowest, _ = clients.rates(WIDTH, clients.started + 0.5)
        assert mean(agent.seen(THROUGHPUT, since=start)) > 10
        assert agent.seen("concurrency", since=start, source="statement_time") == []
        n = mean(agent.seen("concurrency", since=start, source="threads_running"))
        assert 0.8 * slowest * NAP < n < 1.2 * 3


def test_untimed_statements_make_the_concurrency_unknown(
    private_server: ServerFactory, release: Release, tmp_path: Path
) -> None:
    """Switched off between two checks of the instruments."""
    server = private_server(release)
    run_as_root(server, IN_FLIGHT_ON)
    with watching(tmp_path, target(tmp_path, server)) as agent:
        with Clients(server, f"SELECT SLEEP({NAP})", 3) as clients:
            start = settled(agent)
            assert agent.seen("concurrency", since=start, source="statement_time")
            run_as_root(server, TIMED.format("NO"))
            start = settled(agent, 4.0)
            slowest, _ = clients.rates(WIDTH, clients.started + 0.5)
        assert mean(agent.seen(THROUGHPUT, since=start)) > 10
        assert agent.seen("concurrency", since=start, source="statement_time") == []
        n = mean(agent.seen("concurrency", since=start, source="threads_running"))
        assert 0.8 * slowest * NAP < n < 1.2 * 3


def test_unsummed_cpu_time_is_unknown_not_low(
    private_server: ServerFactory, tmp_path: Path
) -> None:
    """Of a service that shows nothing else: switched off while the agent watches."""
    server = private_server("mysql")
    summed = CONSUMER.format("{}", statement_totals.CPU_CONSUMER)
    run_as_root(server, summed.format("YES"))
    there = {**target(tmp_path, server), "resources": {"vcpus": 1.0}}
    there |= {"collectors": {"host": {"enabled": False}}}
    shown = {"resource": "cpu"}
    with watching(tmp_path, there) as agent:
        with Clients(server, "DO BENCHMARK(100000, 1 + 1)", 2, pace=1 / 20):
            start = settled(agent)
            assert min(agent.seen(USED, since=start, **shown)) > 0
            run_as_root(server, summed.format("NO"))
            start = settled(agent, 4.0)
        assert mean(agent.seen(THROUGHPUT, since=start)) > 10
        assert agent.seen(USED, since=start, **shown) == []


@pytest.mark.parametrize("switch", UNMEASURED.values(), ids=UNMEASURED)
def test_unmeasured_class_times_lose_the_interval(
    private_server: ServerFactory, switch: str, tmp_path: Path
) -> None:
    """It is counted as lost, instead of calls without time."""
    server = private_server("mysql")
    run_as_root(server, CONSUMER.format("YES", statement_totals.CPU_CONSUMER))
    often = {"interval": "5s", "window": "1m"}
    with watching(tmp_path, target(tmp_path, server), classes=often) as agent:
        with Clients(server, f"SELECT SLEEP({NAP})", 3):
            wait_until("classes", lambda: sum(agent.page.all("query_calls_total")), 60)
            run_as_root(server, switch)
            wait_until("lost", lambda: lost(agent) >= 1, 40)
            calls = sum(agent.page.all("query_calls_total"))
            wait_until("lost again", lambda: lost(agent) >= 3, 40)
        assert sum(agent.page.all("query_calls_total")) == calls


def lost(agent: Daemon) -> float:
    """Intervals of query classes in which a column was missing."""
    return agent.get("query_intervals_lost_total", kind="columns") or 0.0


def test_untimed_metadata_lock_waits_are_reported(
    private_server: ServerFactory,
) -> None:
    """Their sum does not rise then: the feature is absent, with the statement that enables it."""
    server = private_server("mysql")
    run_as_root(server, IN_FLIGHT_ON, "CREATE SCHEMA live", "CREATE TABLE live.locked (id INT)")
    with connected(server, "socket") as connection:
        wait_for_a_lock(server)
        assert (lock_waits(connection) or 0) > 0
        off = "UPDATE performance_schema.setup_instruments SET TIMED = 'NO' WHERE NAME = '{}'"
        run_as_root(server, off.format("wait/lock/metadata/sql/mdl"))
        assert lock_waits(connection) is None
        [absent] = [
            f for f in digests.prepare(connection).features if f.name.endswith("lock_waits")
        ]
        run_as_root(server, absent.remedy)
        assert (lock_waits(connection) or 0) > 0


def wait_for_a_lock(server: PrivateServer) -> None:
    """Read a table that somebody else has locked."""
    with root(server) as holder, Clients(server, "SELECT id FROM live.locked"):
        holder("LOCK TABLES live.locked WRITE")
        waiting = f"SELECT 1 FROM performance_schema.threads WHERE {WAITS_FOR_A_LOCK}"
        wait_until("it waits", lambda: run_as_root(server, waiting))
        holder("UNLOCK TABLES")


def lock_waits(connection: Connection) -> float | None:
    """The total that a reading finds, by what the server offers now."""
    read = digests.prepare(connection).read
    assert read
    values = read()
    assert isinstance(values, digests.DigestValues)
    return values.rows.lock_waits


def test_a_flush_that_reduces_counters_makes_the_throughput_unknown(
    private_server: ServerFactory, tmp_path: Path
) -> None:
    """MariaDB's subtracts those of ended sessions: fewer than came since, so the sum rises."""
    server = private_server("mariadb-11.8")
    with watching(tmp_path, target(tmp_path, server)) as agent:
        with Clients(server, "DO 0", pace=1 / 300) as client:
            settled(agent)
            run_as_root(server, *(100 * ["DO 0"]))
            start = settled(agent)
            run_as_root(server, "FLUSH GLOBAL STATUS")
            settled(agent, 3.0)
            slowest, _ = client.rates(WIDTH, client.started + 0.5)
        least = min(agent.seen(THROUGHPUT, since=start))
    print(f"at least {slowest:.0f} statements/s, shown as {least:.0f}")
    assert least > 0.9 * slowest
