"""What the server counts about itself, read from real servers by accounts with few rights."""

import math
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from conftest import ServerFactory

from agent.config.settings import Config
from agent.demo.private_server import PrivateServer
from agent.service.target_monitor import TargetMonitor
from collectors import status
from collectors.base import Values
from collectors.connection import Connection, Login, statement_words
from collectors.endpoint import Endpoint
from collectors.result_cells import ONE_CELL, ResultLimits, ResultRow
from testbed.real.clients import global_variables, root
from testbed.real.daemon import target, wait_until
from testbed.real.server_account import least_account

ACCOUNT = Login("stranger", "s3cret-stranger")


@contextmanager
def session(server: PrivateServer, account: Login) -> Iterator[Connection]:
    """A session of the agent with this account."""
    with closing(
        Connection(Endpoint(socket=server.socket), lambda: account, timeout=5, limit=5)
    ) as found:
        found.open()
        yield found


def stranger(server: PrivateServer) -> Login:
    """An account without any privilege."""
    with closing(server.connect_as_root()) as root, root.cursor() as cursor:
        cursor.execute("DROP USER IF EXISTS 'stranger'@'localhost'")
        words = f"IDENTIFIED BY '{ACCOUNT.password}'"
        cursor.execute(f"CREATE USER 'stranger'@'localhost' {words}")
    return ACCOUNT


def read(connection: Connection) -> Values:
    """One reading."""
    found = status.prepare(connection).read
    assert found is not None
    return found()


def asked_rows(connection: Connection) -> list[ResultRow]:
    """The rows that one reading asks for."""
    found = list[ResultRow]()
    query = connection.query

    def noted(sql: str, limits: ResultLimits = ONE_CELL) -> list[ResultRow]:
        found.extend(rows := query(sql, limits))
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "query", noted)
        read(connection)
    return found


def test_an_account_without_privileges_reads_the_same_status(
    server: PrivateServer,
) -> None:
    """From the table or by SHOW: the same names, and counters that rise."""
    with session(server, Login(*least_account(server))) as known:
        ours = read(known)
    with session(server, stranger(server)) as unknown:
        theirs = read(unknown)
    assert theirs.keys() == ours.keys()
    assert all(theirs[name] >= ours[name] for name in ("questions", "uptime", "bytes_sent"))


def test_mariadbs_table_equals_show(mariadb_server: PrivateServer) -> None:
    """Its names are in capitals in the table."""
    with session(mariadb_server, Login(*least_account(mariadb_server))) as connection:
        shown, read_in_table = (
            {(name or b"").lower() for name, *_ in rows}
            for rows in (connection.query(status.SHOW, status.LIMITS), asked_rows(connection))
        )
    rows_read = {name.encode() for name in status.HANDLER_READS}
    assert shown | rows_read == read_in_table
    assert b"binlog_group_commits" in shown


@pytest.mark.parametrize("performance_schema", [True, False])
def test_mysqls_table_equals_show(private_server: ServerFactory, performance_schema: bool) -> None:
    """SHOW is used where performance_schema is off."""
    server = private_server("mysql", performance_schema=performance_schema)
    with session(server, Login(*least_account(server))) as connection:
        asked = {name for name, *_ in asked_rows(connection)}
        assert (statement_words(status.SHOW) in connection.sent_statements) != performance_schema
        shown = {name for name, _ in connection.query(status.SHOW, status.LIMITS)}
    assert asked == shown
    assert {b"Questions", b"Uptime", b"Threads_running"} <= shown


def test_a_changed_limit_is_read_at_once(server: PrivateServer) -> None:
    """Without a further statement; a limit that is no longer set is absent."""
    changed = {"max_connections": 1234}
    if server.flavour == "mysql":
        changed |= {"innodb_thread_concurrency": 7, "innodb_redo_log_capacity": 64 * 2**20}
    names = {"innodb_redo_log_capacity": "checkpoint_max_age_bytes"}  # as soon as it is in force
    with session(server, Login(*least_account(server))) as connection:
        reader = status.prepare(connection).read
        assert reader is not None
        before = reader()
        with global_variables(server, changed):
            after = reader()
        again = reader()
    assert {name: after[names.get(name, name)] for name in changed} == changed
    assert all(before.get(names.get(name, name)) != value for name, value in changed.items())
    assert "innodb_thread_concurrency" not in again
    assert again["max_connections"] == before["max_connections"]
    assert again["own_statements"] == before["own_statements"] + 2


LAZY_FLUSHING = (
    "--innodb-redo-log-capacity=128M",
    "--innodb-adaptive-flushing=OFF",
    "--innodb-max-dirty-pages-pct=99",
    "--innodb-max-dirty-pages-pct-lwm=0",
    "--innodb-idle-flush-pct=0",
)
ONE_ROW = (
    "CREATE DATABASE live",
    "CREATE TABLE live.r (id INT PRIMARY KEY AUTO_INCREMENT, pad VARCHAR(1000))",
    "INSERT INTO live.r (pad) VALUES (REPEAT('x', 1000))",
)


def test_the_redo_log_is_as_large_as_it_still_is(private_server: ServerFactory) -> None:
    """Right after its capacity was set to less than it holds, it does not hold more than all."""
    server = private_server("mysql", options=LAZY_FLUSHING)
    with session(server, Login(*least_account(server))) as connection, root(server) as ask:
        for statement in (*ONE_ROW, *["INSERT INTO live.r (pad) SELECT pad FROM live.r"] * 14):
            ask(statement)
        ask(f"SET GLOBAL innodb_redo_log_capacity = {8 * 2**20}")
        found = read(connection)
    assert 8 * 2**20 < found["checkpoint_age_bytes"] <= found["checkpoint_max_age_bytes"]


def test_the_agents_statements_are_counted_as_its_own(
    server: PrivateServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of both its sessions, also as they reconnect: without clients nothing else is counted.

    A server counts the end of a session when its thread comes to it, which is waited for.
    """
    query = {"name": "users", "unit": "users", "query": "SELECT 7", "interval": "1s"}
    here = {**target(tmp_path, server), "business_metrics": [{**query, "timeout": "300ms"}]}
    config = Config.validated({"targets": [here]})
    monitor, seen = TargetMonitor(config, config.targets[0]), list[Values]()
    monkeypatch.setattr(monitor.session, "_on_sample", lambda sample: seen.append(sample.values))
    sessions = "SELECT user FROM information_schema.processlist WHERE user IN ('{}', 'root')"
    others, asked = set[float](), 0
    with root(server) as ask:

        def is_alone() -> bool:
            nonlocal asked
            asked += 1
            return len(ask(sessions.format(here["user"]))) == 1

        for _ in range(3):
            wait_until("the sessions before have ended", is_alone)
            monitor.server_tick(time.monotonic())
            monitor.business.tick(time.monotonic() + 1)
            monitor.close()
            monitor.business.close()
            [values] = [each for each in seen if "questions" in each]
            others.add(values["questions"] - values["own_statements"] - asked)
            seen.clear()
    assert len(others) == 1


def test_collectors_share_what_they_check(
    server: PrivateServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question about the settings once when they are prepared, and again the next time."""
    config = Config.validated({"targets": [target(tmp_path, server)]})
    monitor = TargetMonitor(config, config.targets[0])
    connection = monitor.session._connection
    asked, query = list[str](), connection.query

    def noted(sql: str, limits: ResultLimits = ONE_CELL) -> list[ResultRow]:
        asked.append(sql)
        return query(sql, limits)

    monkeypatch.setattr(connection, "query", noted)
    with closing(monitor):
        for prepared in (1, 2):
            monitor.session._prepared_at = -math.inf
            monitor.server_tick(time.monotonic())
            setup = [sql for sql in asked if "performance_schema.setup_" in sql]
            assert any("setup_consumers" in sql for sql in setup)
            assert {setup.count(sql) for sql in setup} == {prepared}
