"""Settings that an operator makes for all sessions, and limits of the account, on real servers."""

import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pymysql
import pytest
from collector_session import connected
from conftest import ServerFactory

from agent.demo.private_server import Flavour, PrivateServer
from collectors import COLLECTORS, business_query
from collectors.base import CollectorError, FailureKind, Values
from collectors.connection import Connection, Login
from collectors.digests import DigestValues
from collectors.driver_errors import failure
from collectors.endpoint import Endpoint
from testbed.real.clients import run_as_root
from testbed.real.daemon import target, wait_until, watching
from testbed.real.server_account import Account, least_account
from testbed.real.server_programs import Release

HIDE_ROWS = ("sql_select_limit = 1", "max_join_size = 1")
MODES = {
    "mysql": "ANSI,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,PAD_CHAR_TO_FULL_LENGTH",
    "mariadb": "ORACLE,EMPTY_STRING_IS_NULL,PAD_CHAR_TO_FULL_LENGTH",
}
SHAPES = (
    "group_concat_max_len = 4",
    "div_precision_increment = 0",
    "time_zone = '+13:00'",
    "character_set_results = utf16",
    "collation_connection = utf16_bin",
    "lc_messages = 'ja_JP'",
    "tmp_table_size = 1024",
    "autocommit = 0",
)


def settings(release: Release) -> list[str]:
    """The settings: fewer rows, another SQL mode, language, character set and time zone."""
    return [*HIDE_ROWS, f"sql_mode = '{MODES[release.partition('-')[0]]}'", *SHAPES]


@contextmanager
def set_globally(server: PrivateServer, assignments: Sequence[str]) -> Iterator[None]:
    """Root sets that for all sessions to come."""
    run_as_root(server, *(f"SET GLOBAL {one}" for one in assignments))
    try:
        yield
    finally:
        names = [one.partition(" ")[0] for one in assignments]
        run_as_root(server, *(f"SET GLOBAL {name} = DEFAULT" for name in names))


def readings(connection: Connection) -> dict[str, Values]:
    """Read a sample of each collector from a server."""
    found = {}
    for spec in COLLECTORS:
        read = spec.prepare(connection).read
        if read is not None:
            read()
            found[spec.name] = read()
    return found


def test_global_settings_do_not_affect_the_collectors(
    private_server: ServerFactory, release: Release
) -> None:
    """Each collector reads as much as before, and a query class keeps its key."""
    server = private_server(release)
    run_as_root(server, "SELECT 'known' AS a_class")
    with connected(server, "socket") as connection:
        before = readings(connection)
    with set_globally(server, settings(release)), connected(server, "socket") as connection:
        after = readings(connection)
    assert {name: set(values) for name, values in after.items()} == {
        name: set(values) for name, values in before.items()
    }
    assert known_class(before) == known_class(after)


def test_a_business_query_uses_the_servers_sql_mode(
    private_server: ServerFactory, release: Release
) -> None:
    """Where `||` concatenates, it does so here too."""
    server = private_server(release)
    with set_globally(server, settings(release)), connected(server, "socket") as connection:
        read = business_query.prepare(connection, "SELECT 4 || 2", timeout=1.0).read
        assert read
        assert read() == {business_query.VALUE: 42.0}


def known_class(found: dict[str, Values]) -> list[str]:
    """The keys of root's statement, which has no schema."""
    rows = found["digests"]
    assert isinstance(rows, DigestValues)
    [digest] = [d for d, text in rows.rows.texts.items() if "`a_class`" in text]
    return [key for key in rows.rows.keys if key.split("|")[1] == digest]


LIMITED = {
    "WITH MAX_QUERIES_PER_HOUR 3": "ALTER USER ... WITH MAX_QUERIES_PER_HOUR 0",
    "WITH MAX_CONNECTIONS_PER_HOUR 1": "ALTER USER ... WITH MAX_CONNECTIONS_PER_HOUR 0",
    "PASSWORD EXPIRE": "ALTER USER ... IDENTIFIED BY '...' PASSWORD EXPIRE NEVER",
    "ACCOUNT LOCK": "ALTER USER ... ACCOUNT UNLOCK",
}


@pytest.mark.parametrize("limit", LIMITED)
def test_each_restriction_of_the_account_has_its_remedy(server: PrivateServer, limit: str) -> None:
    """The message is the same at each attempt."""
    connection = new_connection(server, least_account(server))
    said = []
    connection.open()
    connection.close()
    run_as_root(server, f"ALTER USER 'headroom'@'%' {limit}")
    for _ in range(4):
        try:
            connection.open()
        except CollectorError as error:
            said.append(str(error))
        connection.close()
    assert len(said) >= 2
    assert len(set(said)) == 1
    assert said[0].endswith(f"; {LIMITED[limit]}")


def test_a_blocked_host_is_let_in_by_its_remedy(private_server: ServerFactory) -> None:
    """A client that is no client of MySQL has used the port: the account is not at fault.

    On MariaDB only: a MySQL does not take back --skip-name-resolve, which private servers have.
    """
    options = ("--skip-name-resolve=OFF", "--max-connect-errors=1")
    server = private_server("mariadb", options=options)
    account = least_account(server)
    for _ in range(3):
        other = (OTHER_HOST, 0)
        with (
            suppress(ConnectionError),  # once it is blocked
            socket.create_connection(("127.0.0.1", server.port), source_address=other) as sock,
        ):
            sock.sendall(NO_LOGIN)
            while sock.recv(1024):
                pass
    error = refusal_of(server, account)
    assert error is not None
    assert error.args[0] == BLOCKED
    remedy = str(failure(error, "db", account.user)).rpartition("; ")[2]
    assert remedy.endswith(" lets it in again")
    run_as_root(server, remedy.removesuffix(" lets it in again"))
    assert refusal_of(server, account) is None


OTHER_HOST = "127.0.0.5"  # a server's cache of hosts leaves 127.0.0.1 out
BLOCKED = 1129
NO_LOGIN = b"\x05\x00\x00\x01abcde"  # a packet of five bytes


def refusal_of(server: PrivateServer, account: Account) -> pymysql.MySQLError | None:
    """The error with which the server refuses a session from the other host."""
    try:
        pymysql.connect(
            host="127.0.0.1",
            port=server.port,
            user=account.user,
            password=account.password,
            bind_address=OTHER_HOST,
        ).close()
    except pymysql.MySQLError as error:
        return error
    return None


def test_a_failing_init_connect_is_logged_once(
    private_server: ServerFactory, flavour: Flavour
) -> None:
    """The connection ID is not in the message, which would be logged again."""
    server = private_server(flavour)
    connection = new_connection(server, least_account(server))
    said = set()
    with set_globally(server, ["init_connect = 'SELECT nonsense'"]):
        for _ in range(2):
            with pytest.raises(CollectorError) as caught:
                connection.open()
            said.add((caught.value.kind, str(caught.value)))
    [(kind, message)] = said
    assert kind is FailureKind.REFUSED
    assert "init_connect" in message


def test_init_connect_does_not_leave_a_transaction_open(
    private_server: ServerFactory, release: Release
) -> None:
    """After a reading, tables are free to be altered, whether init_connect ends autocommit."""
    server = private_server(release)
    run_as_root(server, "CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT)")
    off = set_globally(server, ["init_connect = 'SET autocommit = 0'"])
    with off, connected(server, "socket") as connection:
        run_as_root(server, "GRANT SELECT ON shop.* TO 'headroom'@'%'")
        readings(connection)
        query = "SELECT COUNT(*) FROM shop.orders"
        read = business_query.prepare(connection, query, timeout=1.0).read
        assert read
        assert read() == {business_query.VALUE: 0.0}
        run_as_root(
            server,
            "SET SESSION lock_wait_timeout = 2",
            "ALTER TABLE shop.orders ADD paid INT",
            "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest",
        )


LOCKS = {
    "mysql": "ALTER USER 'headroom'@'%' FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME UNBOUNDED",
    "mariadb": "SET GLOBAL max_password_errors = 3",
}


def test_a_late_password_rotation_does_not_lock_the_account(
    private_server: ServerFactory, flavour: Flavour, tmp_path: Path
) -> None:
    """Three wrong ones would: the agent sends it once, and the right one once it is there."""
    server = private_server(flavour)
    account = least_account(server)
    here = target(tmp_path, server, account)
    with watching(tmp_path, here) as agent:
        wait_until("up", lambda: agent.get("up") == 1)
        run_as_root(server, LOCKS[flavour], f"ALTER USER 'headroom'@'%' IDENTIFIED BY '{ROTATED}'")
        end_sessions(server)
        wait_until("denied", lambda: (agent.get("collector_failures_total", **DENIED) or 0) >= 4)
        (tmp_path / "db.password").write_text(ROTATED)
        wait_until("up again", lambda: agent.get("up") == 1, 45)
        assert agent.log.count("sends the same password again after") == 1


def test_an_account_created_later_is_used_after_a_reload(
    private_server: ServerFactory, flavour: Flavour, tmp_path: Path
) -> None:
    """A refused password is sent again only when the operator asks for it."""
    server = private_server(flavour)
    account = least_account(server)
    run_as_root(server, f"ALTER USER 'headroom'@'%' IDENTIFIED BY '{ROTATED}'")
    with watching(tmp_path, target(tmp_path, server, account)) as agent:
        wait_until("denied", lambda: (agent.get("collector_failures_total", **DENIED) or 0) >= 2)
        run_as_root(server, f"ALTER USER 'headroom'@'%' IDENTIFIED BY '{account.password}'")
        agent.process.send_signal(signal.SIGHUP)
        wait_until("up", lambda: agent.get("up") == 1, 45)


REFUSALS = {
    "mysql": "SELECT SUM(SUM_ERROR_RAISED) FROM performance_schema."
    "events_errors_summary_global_by_error WHERE ERROR_NUMBER = 1045",
    "mariadb": "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS"
    " WHERE VARIABLE_NAME = 'ACCESS_DENIED_ERRORS'",
}


def test_two_sessions_of_a_target_send_a_wrong_password_once(
    private_server: ServerFactory, flavour: Flavour
) -> None:
    """The session of the business metrics logs in at the same time, as at the start."""
    server = private_server(flavour)
    wrong = least_account(server)._replace(password="wrong")
    one, both = new_connection(server, wrong), threading.Barrier(2)

    def login() -> Login:
        both.wait()
        return Login(*wrong)

    sessions = [
        Connection(one.endpoint, login, timeout=5, limit=5, sibling=sibling)
        for sibling in (one, one)
    ]
    with ThreadPoolExecutor(2) as pool:
        said = [str(ended.exception()) for ended in [pool.submit(s.open) for s in sessions]]
    assert ["the same password again after 2 min" in text for text in said] == [True, True]
    [(count,)] = run_as_root(server, REFUSALS[flavour])
    assert int(count or 0) == 1


def end_sessions(server: PrivateServer) -> None:
    """Kill those of the agent."""
    found = "SELECT id FROM information_schema.processlist WHERE user = 'headroom'"
    run_as_root(server, *(f"KILL {session}" for (session,) in run_as_root(server, found)))


ROTATED = "rotated-1"
DENIED = {"collector": "status", "kind": "denied"}


def new_connection(server: PrivateServer, account: Account) -> Connection:
    """As the agent has one, with the same account at each attempt."""
    endpoint = Endpoint(port=server.port)
    return Connection(endpoint, lambda: Login(*account), timeout=5, limit=5)
