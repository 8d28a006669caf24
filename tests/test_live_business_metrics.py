"""Business metrics on real servers: a good one beside slow, locked, broken and forbidden ones."""

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import ServerFactory, one_in_every_run

from agent.business_metrics.reader import BusinessMetricsReader
from agent.config.settings import Config
from agent.demo.private_server import Flavour, PrivateServer
from collectors import business_query
from collectors.base import CollectorError
from collectors.connection import Connection, Login
from collectors.endpoint import Endpoint
from testbed.real.cgroups import cpu_quota
from testbed.real.clients import Clients, root, run_as_root, sessions
from testbed.real.daemon import (
    COMMAND,
    Daemon,
    Page,
    is_root,
    target,
    wait_until,
    watching,
    write_config,
)
from testbed.real.predicted_limit import FEW_CLIENTS, OFTEN
from testbed.real.server_account import least_account

COMPUTE = "DO BENCHMARK(300000, 1 + 1)"
HALF = 0.5  # of a processor
SHARES = (0.1, 0.3, 0.2, 0.45, 0.15, 0.5, 0.4)
"""Of the statements/s that clients get who never rest, one after the other."""
USERS = 10.0  # for each of them
STEP, CLOSED_LOOP, RESTLESS = 4.0, 2.0, 4  # seconds; clients
DEADLINE = 60.0
NEAR = 0.35
"""Throughput of the page may be an interval later than the one that the headroom is of."""
SETUP = """
CREATE SCHEMA unit_shop;
CREATE TABLE unit_shop.users (n INT); INSERT INTO unit_shop.users VALUES (0);
CREATE TABLE unit_shop.locked (id INT PRIMARY KEY); INSERT INTO unit_shop.locked VALUES (1), (2);
CREATE SCHEMA unit_secret; CREATE TABLE unit_secret.orders (id INT)"""

QUERIES = {
    "users": "SELECT n FROM unit_shop.users",
    "slow": "SELECT COUNT(*) FROM unit_shop.users WHERE SLEEP(30) = 0",
    "locked": "SELECT COUNT(*) FROM unit_shop.locked",
    "broken": "SELECT COUNT(*) FROM unit_shop.missing",
    "rows": "SELECT id FROM unit_shop.users, (SELECT 1 AS id UNION SELECT 2) AS two",
    "columns": "SELECT n, n FROM unit_shop.users",
    "forbidden": "SELECT COUNT(*) FROM unit_secret.orders",
}
KINDS = {
    "slow": "slow",
    "locked": "slow",
    "broken": "unreadable",
    "rows": "unreadable",
    "columns": "unreadable",
    "forbidden": "privilege",
}

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not is_root(), reason="only root limits a processor"),
]


def shop(server: PrivateServer, folder: Path) -> dict[str, Any]:
    """A target with all those queries, once a second or two."""
    run_as_root(server, *SETUP.split(";"))
    account = least_account(server)
    run_as_root(server, f"GRANT SELECT ON unit_shop.* TO {granted(server, account.user)}")
    metrics = [
        {"name": name, "unit": name, "query": query, "interval": "1s", "timeout": "300ms"}
        for name, query in QUERIES.items()
    ]
    return {**target(folder, server, account), "business_metrics": metrics}


def granted(server: PrivateServer, user: str) -> str:
    """The account as a GRANT names it."""
    [[host]] = run_as_root(server, f"SELECT host FROM mysql.user WHERE user = '{user}' LIMIT 1")
    return f"'{user}'@'{host}'"


@contextmanager
def table_lock(server: PrivateServer) -> Iterator[None]:
    """Somebody else changes a table and keeps all readers out."""
    with root(server) as ask:
        ask("LOCK TABLES unit_shop.locked WRITE")
        yield


@pytest.mark.parametrize("flavour", one_in_every_run("mysql"), indirect=True)
def test_bad_queries_do_no_harm_and_a_good_one_has_a_headroom(
    private_server: ServerFactory, flavour: Flavour, tmp_path: Path
) -> None:
    """Users that make the load approach the capacity; the others fail for their reasons."""
    server = private_server(flavour)
    there = shop(server, tmp_path)
    with cpu_quota(server.pid, HALF), table_lock(server):
        peak = most(server)
        with watching(tmp_path, there, collectors=OFTEN) as agent:
            for share in SHARES:
                load(server, share * peak, STEP)
            with Clients(server, COMPUTE, FEW_CLIENTS, pace=1 / (SHARES[-1] * peak)):
                page = wait_until("headroom in users", lambda: following(agent), DEADLINE)
            assert page is not None
            assert_apart(agent, page, round(USERS * SHARES[-1] * peak))
            assert sessions(server, there["user"]) <= 2
            assert longest_query(server, there["user"]) < 5


def most(server: PrivateServer) -> float:
    """Statements per second of clients that never rest."""
    with Clients(server, COMPUTE, RESTLESS) as clients:
        time.sleep(CLOSED_LOOP)
        return clients.done / CLOSED_LOOP


def load(server: PrivateServer, rate: float, seconds: float) -> None:
    """So many statements a second, and the users that make them."""
    run_as_root(server, f"UPDATE unit_shop.users SET n = {round(USERS * rate)}")
    with Clients(server, COMPUTE, FEW_CLIENTS, pace=1 / rate):
        time.sleep(seconds)


def following(agent: Daemon) -> Page | None:
    """A page on which the headroom in users is what the capacity leaves."""
    page = agent.page
    names = ("", "_lower", "_upper")
    value, low, high = (
        page.get(f"business_metric_headroom{name}", business_metric="users") for name in names
    )
    capacity = page.get("capacity_queries_per_second")
    load = page.get("throughput_queries_per_second")
    if None in (value, low, capacity, load):
        return None
    assert value is not None
    assert low is not None
    assert capacity is not None
    assert load is not None
    assert low <= value <= (high or value)
    left = USERS * (capacity - load)
    print(f"{value} users more [{low}, {high}], {left} by the capacity {capacity} and load {load}")
    return page if value == pytest.approx(left, rel=NEAR) else None


def assert_apart(agent: Daemon, page: Page, users: int) -> None:
    """Each fails with its own kind, is shown as not known, and costs no sample."""
    for name, kind in KINDS.items():
        labels = {"collector": f"business_metric_{name}"}
        assert page.get("collector_failures_total", kind=kind, **labels), name
        assert page.all("collector_failures_total", **labels) == [
            page.get("collector_failures_total", kind=kind, **labels)
        ], name
        assert page.get("business_metric_reason", business_metric=name, reason="no_value") == 1
        assert page.get("business_metric_value", business_metric=name) is None
    assert page.get("business_metric_value", business_metric="users") == users
    assert page.get("collector_failures_total", collector="status") is None
    skipped = page.get("collector_skipped_total", collector="status")
    assert skipped is not None
    assert skipped <= 3
    assert set(agent.seen("up", since=agent.pages[0].at + 5)) == {1.0}


def longest_query(server: PrivateServer, user: str) -> float:
    """For how many seconds the oldest statement of this account has run."""
    listed = f"FROM information_schema.processlist WHERE user = '{user}' AND command = 'Query'"
    return float(run_as_root(server, f"SELECT COALESCE(MAX(time), 0) {listed}")[0][0])


def test_check_prints_the_grant_that_a_query_needs(
    private_server: ServerFactory, flavour: Flavour, tmp_path: Path
) -> None:
    """The printed GRANT works; a query that fails leaves the target usable."""
    server = private_server(flavour)
    file, _ = write_config(tmp_path, shop(server, tmp_path))
    said = check(file)
    [remedy] = re.findall(r"remedy: (GRANT .*)", said)
    assert "secret" in remedy
    assert "missing  business_metric_forbidden: " in said
    assert "ok       business_metric_users: 0 users" in said
    assert re.search(r"missing +business_metric_slow: .*time.*; give it a longer timeout, or", said)
    assert re.search("missing +business_metric_broken: .*unit_shop.missing", said)
    run_as_root(server, remedy)
    assert "ok       business_metric_forbidden: 0 forbidden" in check(file)


def test_check_prints_what_else_a_refused_query_needs(
    private_server: ServerFactory, flavour: Flavour, tmp_path: Path
) -> None:
    """A global privilege, the schema of a table, or a view's definer; values are written out."""
    server = private_server(flavour)
    there = shop(server, tmp_path)
    run_as_root(
        server,
        "CREATE USER gone@localhost",
        "CREATE DEFINER = gone@localhost VIEW unit_shop.of_gone AS SELECT n FROM unit_shop.users",
        "DROP USER gone@localhost",
    )
    queries = {
        "transactions": "SELECT COUNT(*) FROM information_schema.innodb_trx",
        "bare": "SELECT COUNT(*) FROM users",
        "of_gone": "SELECT n FROM unit_shop.of_gone",
        "many": "SELECT 1234567",
    }
    metrics = [{"name": name, "unit": "u", "query": query} for name, query in queries.items()]
    file, _ = write_config(tmp_path, there | {"business_metrics": metrics})
    said = check(file)
    [remedy] = re.findall(r"remedy: (GRANT PROCESS ON \*\.\* TO .*)", said)
    assert re.search(r"metric_bare: .*\(1046\); name its tables as SCHEMA.TABLE", said)
    assert re.search(r"metric_of_gone: .*\(1045\); its view or function has a definer", said)
    assert "ok       business_metric_many: 1,234,567 u\n" in said
    run_as_root(server, remedy)
    assert "ok       business_metric_transactions: " in check(file)


def check(file: Path) -> str:
    """What the command prints; the target can be watched."""
    command = [str(COMMAND), "check", "--config.file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def test_a_query_has_its_own_timeout(mysql_server: PrivateServer, tmp_path: Path) -> None:
    """Not that of the target."""
    slow = {"name": "slow", "unit": "slow", "query": "SELECT 5 + SLEEP(1.5)"}
    there = target(tmp_path, mysql_server) | {
        "timeout": "1s",
        "business_metrics": [{**slow, "interval": "10s", "timeout": "2s"}],
    }
    [watched] = Config.validated({"targets": [there]}).targets
    reader = BusinessMetricsReader(watched)
    try:
        reader.tick(time.monotonic())
    finally:
        reader.close()
    assert reader.series["slow"].latest is not None
    assert reader.series["slow"].latest[1] == 5


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT COUNT(*) FROM unit_shop.locked FOR UPDATE",
        "DELETE FROM unit_shop.locked",
        "SELECT GET_LOCK('shop', 60)",
        "SELECT COUNT(*) FROM unit_shop.locked LOCK IN SHARE MODE",
    ],
)
def test_a_refused_query_would_do_no_harm_either(
    shop_server: PrivateServer, statement: str
) -> None:
    """A statement that locks or writes is refused or aborted, and holds nothing after."""
    account = Login("root", "")
    connection = Connection(
        Endpoint(socket=shop_server.socket), lambda: account, timeout=3.0, limit=0.3
    )
    connection.open()
    try:
        read = business_query.prepare(connection, statement, 0.3).read
        assert read is not None
        with root(shop_server) as ask:
            ask("SELECT GET_LOCK('shop', 0)")
            ask("BEGIN")
            ask("SELECT id FROM unit_shop.locked WHERE id = 1 FOR UPDATE")
            began = time.monotonic()
            with pytest.raises(CollectorError):
                read()
            assert time.monotonic() - began < 3.0
            ask("UPDATE unit_shop.locked SET id = 3 WHERE id = 2")
            ask("ROLLBACK")
    finally:
        connection.close()


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def shop_server(request: pytest.FixtureRequest) -> Iterator[PrivateServer]:
    """A server that others use too, with the shop's tables for a while."""
    server: PrivateServer = request.getfixturevalue(f"{request.param}_server")
    run_as_root(server, *SETUP.split(";"))
    yield server
    run_as_root(server, "DROP SCHEMA unit_shop", "DROP SCHEMA unit_secret")
