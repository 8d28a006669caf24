"""A session prepares the statements of its readings, or sends them as they are, on real servers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from collector_session import connected

from agent.demo.private_server import PrivateServer
from collectors import COLLECTORS
from collectors.base import CollectorError, FailureKind, Values
from collectors.connection import Connection
from collectors.digests import DigestValues
from collectors.prepared_statements import MAX_STATEMENTS
from testbed.real.clients import global_variables, root

COUNTED = "SELECT COUNT(*) FROM performance_schema.threads"
COUNTS = ("Questions", "Com_prepare_sql", "Com_execute_sql")
INSTRUMENTS = "performance_schema.setup_instruments"
HEAVY = (
    "SELECT SUM(a.NAME < b.NAME AND b.NAME < c.NAME)"
    f" FROM {INSTRUMENTS} a JOIN {INSTRUMENTS} b JOIN {INSTRUMENTS} c"
)


@contextmanager
def counted(server: PrivateServer) -> Iterator[dict[str, int]]:
    """How many statements of these kinds the server counts during the block, all clients'."""
    found = dict[str, int]()
    with root(server) as ask:
        show = f"SHOW GLOBAL STATUS WHERE Variable_name IN {COUNTS}"
        before = dict(ask(show))
        yield found
        after = dict(ask(show))
    found.update({name: int(after[name]) - int(before[name]) for name in COUNTS})


def readings_of(connection: Connection) -> list[Callable[[], Values]]:
    """The collectors that read through this session."""
    prepared = [spec.prepare(connection).read for spec in COLLECTORS if spec.on_server]
    return [read for read in prepared if read is not None]


def test_readings_are_prepared_once_and_own(server: PrivateServer) -> None:
    """Each is sent by its name from then on; its digests are the agent's."""
    with connected(server, "socket") as connection:
        readings = readings_of(connection)
        texts, own, prepared, executed = dict[str, str](), set[str](), list[int](), list[int]()
        for _ in range(4):
            with counted(server) as counts:
                for values in [reading() for reading in readings]:
                    if isinstance(values, DigestValues):
                        texts |= values.rows.texts
                        own |= values.rows.own_digests
            prepared.append(counts["Com_prepare_sql"])
            executed.append(counts["Com_execute_sql"])
    assert prepared[1:] == [0, 1, 0]  # the third is the first that reads the recent rows alone
    assert prepared[0] + 1 == executed[0] == executed[2] == executed[3] >= 4
    by_name = {d for d, text in texts.items() if text.startswith(("PREPARE", "EXECUTE"))}
    assert len(by_name) >= 8
    assert by_name <= own


def test_a_prepared_statement_has_the_rows_of_the_statement(server: PrivateServer) -> None:
    """With quotes, backslashes and signs of other languages in it; it is read anew each time."""
    for literal in ("'it''s'", r"'\\ \' \n'", "'\x1f é 日本'", "'%_{}'"):
        with connected(server, "socket") as connection:
            statement = f"SELECT {literal}"
            known = connection.cell(statement)
            assert connection.cell(connection.repeated(statement)) == known
        with connected(server, "tcp") as connection:
            before = connection.cell(connection.repeated(COUNTED))
            with connected(server, "tcp"):
                assert int(connection.cell(COUNTED) or 0) > int(before or 0)


def test_a_statement_with_another_literal_is_prepared_anew(server: PrivateServer) -> None:
    """By the same name, so that it is one digest more, and not many."""
    with connected(server, "socket") as connection, counted(server) as counts:
        for number in (1, 1, 2, 2, 1):
            statement = connection.repeated(f"SELECT {number} AS `one`")
            assert connection.cell(statement) == str(number).encode()
    assert (counts["Com_prepare_sql"], counts["Com_execute_sql"]) == (3, 5)


def test_a_server_that_prepares_nothing_is_read_by_the_statements(server: PrivateServer) -> None:
    """It refuses one, and no more are tried in this session; each of all is counted as own."""
    with (
        global_variables(server, {"max_prepared_stmt_count": 0}),
        connected(server, "socket") as connection,
        counted(server) as counts,
    ):
        before = connection.own_statements
        readings = readings_of(connection)
        for _ in range(2):
            for reading in readings:
                assert reading()
        sent = connection.own_statements - before
    assert counts["Com_prepare_sql"] == 1
    assert counts["Com_execute_sql"] == 0
    assert sent == counts["Questions"] - 1  # that which counts them


def test_a_forgotten_statement_is_sent_as_it_is(server: PrivateServer) -> None:
    """As by a proxy that changes to another session; from then on all are."""
    with connected(server, "socket") as connection:
        statement = connection.repeated(COUNTED)
        connection.cell(statement)
        connection.run("DEALLOCATE PREPARE mysql_headroom_1")
        with counted(server) as counts:
            for _ in range(3):
                assert int(connection.cell(connection.repeated(statement)) or 0) > 0
    assert counts["Com_execute_sql"] == 1
    assert counts["Com_prepare_sql"] == 0


def test_the_time_limit_holds_for_a_prepared_statement(server: PrivateServer) -> None:
    """The server aborts it, and it is not sent again as it is."""
    with connected(server, "socket") as connection:
        variable, limit = (
            ("max_statement_time", 0.2) if connection.is_mariadb else ("max_execution_time", 200)
        )
        connection.run(f"SET SESSION {variable} = {limit}")
        with pytest.raises(CollectorError) as aborted:
            connection.cell(connection.repeated(HEAVY))
        assert aborted.value.kind is FailureKind.SLOW
        assert connection.is_open


def test_a_session_prepares_a_limited_number(server: PrivateServer) -> None:
    """Further statements are sent as they are."""
    with connected(server, "socket") as connection, counted(server) as counts:
        for number in range(MAX_STATEMENTS + 3):
            connection.cell(connection.repeated(f"SELECT 1 AS `each{number}`"))
    assert counts["Com_prepare_sql"] == counts["Com_execute_sql"] == MAX_STATEMENTS
