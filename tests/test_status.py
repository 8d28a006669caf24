"""What the server counts about itself, read from real servers by accounts with few rights."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from conftest import ServerFactory

from agent.demo.server import PrivateServer
from collectors import status
from collectors.base import Values
from collectors.connection import Connection, Endpoint, Login
from testbed.real.server_programs import least_account

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


def test_an_account_without_privileges_reads_what_the_agents_own_reads(
    server: PrivateServer,
) -> None:
    """From the table or by SHOW: the same names, and counters that go on."""
    with session(server, Login(*least_account(server))) as known:
        ours = read(known)
    with session(server, stranger(server)) as unknown:
        theirs = read(unknown)
    assert theirs.keys() == ours.keys()
    assert all(theirs[name] >= ours[name] for name in ("questions", "uptime", "bytes_sent"))


def test_mariadb_has_the_same_in_its_table_and_by_show(mariadb_server: PrivateServer) -> None:
    """Whose names are in capitals in the table."""
    with session(mariadb_server, Login(*least_account(mariadb_server))) as connection:
        shown, read_in_table = (
            {(name or b"").lower() for name, _ in connection.query(query, status.SHAPE)}
            for query in (status.SHOW, status.SELECT_MARIADB)
        )
    assert shown == read_in_table - {status.TIME.lower().encode()}
    assert b"binlog_group_commits" in shown


@pytest.mark.parametrize("performance_schema", [True, False])
def test_mysql_has_the_same_in_its_table_and_by_show(
    private_server: ServerFactory, performance_schema: bool
) -> None:
    """Where performance_schema is off SHOW is asked for it."""
    server = private_server("mysql", performance_schema=performance_schema)
    with session(server, Login(*least_account(server))) as connection:
        read(connection)
        asked = status.SELECT_MYSQL if performance_schema else status.SHOW
        assert ({status.SELECT_MYSQL, status.SHOW} & connection.sent_statements) == {asked}
        names = [
            {name for name, _ in connection.query(query, status.SHAPE)}
            for query in (status.SHOW, asked)
        ]
    assert names[0] == names[1] - {status.TIME.encode()}
    assert {b"Questions", b"Uptime", b"Threads_running"} <= names[0]
