"""The table of digests, read from real servers: the same rows at once and row by row."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from conftest import ServerFactory

from agent.cli import main
from agent.demo.private_server import Flavour, PrivateServer
from agent.query_classes.class_registry import NONE, ClassRegistry
from agent.query_classes.digest_deltas import DigestDeltas
from agent.query_classes.one_off_profile import send_statements_once
from collectors import COLLECTORS, all_statements, digest_table, digest_texts, digests
from collectors.all_statements import AllStatements
from collectors.base import CollectorError, FailureKind, Values
from collectors.connection import Connection, Login
from collectors.digest_table import COUNTERS, Array, DigestTable, parse_numbers, unit_factors
from collectors.digests import DigestRows, DigestValues
from collectors.endpoint import Endpoint
from collectors.result_cells import (
    ONE_CELL,
    ResultCell,
    ResultLimits,
    ResultRow,
    number,
    number_or_zero,
    whole_number,
)
from testbed.real.clients import run_as_root
from testbed.real.daemon import target, write_config
from testbed.real.server_account import least_account

SIZE = "performance_schema_digests_size"
COLUMNS = {column: name for column, name in COUNTERS.items() if column != "SUM_CPU_TIME"}


@pytest.fixture
def connection(server: PrivateServer) -> Iterator[Connection]:
    """A session of the agent's account."""
    account = Login(*least_account(server))
    found = Connection(Endpoint(socket=server.socket), lambda: account, timeout=5, limit=5)
    found.open()
    yield found
    found.close()


def test_reading_all_rows_at_once_equals_reading_row_by_row(connection: Connection) -> None:
    """Keys and numbers are equal; the size of the table decides which way is used."""
    connection.run("DO SLEEP(1.1)")
    assert int(connection.variables[SIZE]) > 0
    at_once = DigestTable(connection, COLUMNS).read("")
    connection.variables[SIZE] = str(digest_table.MAX_ROWS + 1)
    one_by_one = DigestTable(connection, COLUMNS).read("")
    assert len(at_once[0]) > 10
    before, after = (
        dict(zip(keys, numbers, strict=True)) for keys, _, numbers in (at_once, one_by_one)
    )
    assert before.keys() <= after.keys()
    same = [key for key in before if np.array_equal(before[key], after[key])]
    assert len(same) > len(before) - 5  # but for what these very statements did


def test_statements_between_the_first_two_readings_have_their_digests(
    server: PrivateServer, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy server many end during the first reading; each of them has its digest."""
    read = digests.prepare(connection).read
    assert read is not None
    query = connection.query

    def busy(sql: str, limits: ResultLimits = ONE_CELL) -> list[ResultRow]:
        rows = query(sql, limits)
        run_as_root(server, *["SELECT 'busy'"] * 20)
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(connection, "query", busy)
        first = rows_of(read())
    registry = ClassRegistry()
    deltas = DigestDeltas(registry)
    assert deltas.take(first) is None
    changes = deltas.take(rows_of(read()))
    assert changes is not None
    calls = changes.names.index("calls")
    found = {registry.keys[n]: changes.values[i, calls] for i, n in enumerate(changes.classes)}
    assert sum(found.values()) > 0
    assert found.get(NONE, 0.0) == 0


def test_the_time_between_readings_counts_that_of_a_suspended_machine(
    server: PrivateServer, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The monotonic clock stands still meanwhile; the one that goes on is set ahead here."""
    read = digests.prepare(connection).read
    assert read is not None
    read()
    clock = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda number: clock(number) + 3600.0)
    since = rows_of(read()).since
    assert since is not None
    assert since > 3600.0


@pytest.mark.parametrize("sent_before", [0, 300])
def test_the_agents_own_statements_are_recognised(
    server: PrivateServer, connection: Connection, sent_before: int
) -> None:
    """Though the list of digests differs in every reading, and one may be new after hundreds."""
    run_as_root(server, f"TRUNCATE TABLE {digest_table.TABLE}")  # of other sessions' readings
    for each in range(sent_before):
        connection.query(f"SELECT {each}")
    read, texts, own = digests.prepare(connection).read, dict[str, str](), set[str]()
    assert read is not None
    read()
    for _ in range(3):
        run_as_root(server, *(f"SELECT 1 AS `many{each}`" for each in range(700)))
        rows = rows_of(read())
        texts |= rows.texts
        own |= rows.own_digests
    reads = re.compile("SELECT .*summary_by_digest")
    reading = {digest for digest, text in texts.items() if reads.match(text)}
    assert len(reading) > 2
    assert reading <= own


@pytest.mark.parametrize(("count", "passes"), [(400, 1), (700, 2)])
def test_all_texts_are_fetched_by_one_statement(
    server: PrivateServer,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    passes: int,
) -> None:
    """A statement costs the server a pass over its table, however many digests it names.

    The second reading has them with the rows, unless there are too many of these, as a digest has
    a row in each schema. What a limit omits follows at the next reading.
    """
    run_as_root(server, f"TRUNCATE TABLE {digest_table.TABLE}", "CREATE SCHEMA IF NOT EXISTS other")
    read = digests.prepare(connection).read
    assert read is not None
    read()
    statements = [f"SELECT 1 AS `each{number}`" for number in range(count)]
    run_as_root(server, "USE mysql", *statements, "USE other", *statements)
    asked, query = list[str](), connection.query

    def noted(sql: str, limits: ResultLimits = ONE_CELL) -> list[ResultRow]:
        asked.append(sql)
        return query(sql, limits)

    monkeypatch.setattr(connection, "query", noted)
    texts = dict(rows_of(read()).texts)
    assert sum("`each" in text for text in texts.values()) == count
    assert sum("DIGEST_TEXT" in sql for sql in asked) == passes
    assert len([sql for sql in asked if digest_table.TABLE in sql]) == 2 * passes - 1
    for _ in range(3):
        read()  # the agent's own statements are known with the others, and cause no further pass
    assert sum("DIGEST_TEXT" in sql for sql in asked) == passes
    run_as_root(server, *(f"SELECT 2 AS `more{number}`" for number in range(50)))
    monkeypatch.setattr(digest_texts, "TEXTS", digest_texts.TEXTS.replace("{limit}", "40"))
    found = [sum("`more" in text for text in rows_of(read()).texts.values()) for _ in range(3)]
    assert sum(found) == 50
    assert found[0] < 50


def test_rows_with_their_texts_equal_those_without(
    server: PrivateServer, connection: Connection
) -> None:
    """The same keys and numbers, and each digest has its text."""
    run_as_root(server, f"TRUNCATE TABLE {digest_table.TABLE}")  # of more rows than have texts
    run_as_root(server, *(f"SELECT 1 AS `with{number}`" for number in range(20)))
    connection.run("DO SLEEP(2.1)")
    table, where = DigestTable(connection, COLUMNS), " WHERE LAST_SEEN < NOW(6) - INTERVAL 1 SECOND"
    alone, found = table.read(where), digest_texts.rows_with_texts(table, where)
    assert found is not None
    rows, texts = found
    assert len(rows[0]) >= 20
    assert rows[0] == alone[0]
    assert np.array_equal(rows[2], alone[2])
    digests_of_rows = sorted({key.split("|")[1] for key in rows[0]} - {""})
    assert texts == digest_texts.texts_of(connection, digests_of_rows)


def test_sums_that_were_just_read_are_used(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that `statements` has read, unless they are too old or of other columns."""
    reads = {spec.name: spec.prepare(connection).read for spec in COLLECTORS if spec.on_server}
    for read in reads.values():
        assert read is not None
        read()
    asked, query = list[str](), connection.query

    def noted(sql: str, limits: ResultLimits = ONE_CELL) -> list[ResultRow]:
        asked.append(sql)
        return query(sql, limits)

    monkeypatch.setattr(connection, "query", noted)
    found = list[Array]()
    for longest, statements in ((60.0, 1), (0.0, 2)):
        monkeypatch.setattr(all_statements, "RECENT", longest)
        asked.clear()
        values = [read() for read in map(reads.get, ("statements", "digests")) if read][-1]
        assert sum(all_statements.CLIENT_STATEMENTS in sql for sql in asked) == statements
        sums = rows_of(values).all_statements
        assert sums is not None
        found.append(sums)
    assert found[0].shape == found[1].shape
    assert 0 < found[1][0] - found[0][0] < 50
    other = AllStatements(connection, {"SUM_ERRORS": "errors"})
    monkeypatch.setattr(all_statements, "RECENT", 60.0)
    last = other.recent_or_read()
    assert last is not None
    assert last.shape == (1,)


def test_targets_share_texts_and_words(server: PrivateServer, connection: Connection) -> None:
    """Those of the agent's own statements are of each target: a thousand kept copies of 50 KiB."""
    account, texts = Login(*least_account(server)), []
    other = Connection(Endpoint(socket=server.socket), lambda: account, timeout=5, limit=5)
    with closing(other):
        other.open()
        for each in (connection, other):
            read = digests.prepare(each).read
            assert read is not None
            read()
            texts.append(rows_of(read()).texts)
    same = texts[0].keys() & texts[1].keys()
    assert len(same) > 5
    assert all(texts[0][digest] is texts[1][digest] for digest in same)
    words = {id(sent) for sent in connection.sent_statements}
    assert len(words & {id(sent) for sent in other.sent_statements}) > 5


def test_the_statements_of_check_are_no_client_class(
    server: PrivateServer, connection: Connection, tmp_path: Path
) -> None:
    """Nor those of sessions for business metrics; the operator's own query is a class."""
    here = target(tmp_path, server, over=Endpoint(socket=server.socket))
    here["business_metrics"] = [{"name": "users", "unit": "users", "query": "SELECT 7 AS users"}]
    file, _ = write_config(tmp_path, here)
    for spec in COLLECTORS:
        send_statements_once(spec, connection)
    run_as_root(server, f"TRUNCATE TABLE {digest_table.TABLE}")
    read = digests.prepare(connection).read
    assert read is not None
    read()
    assert main(["check", "--config.file", str(file)]) == 0
    rows = rows_of(read())
    others = {t.strip() for digest, t in rows.texts.items() if digest not in rows.own_digests}
    assert {text for text in others if "TRUNCATE" not in text} == {"SELECT ? AS `users`"}


def rows_of(values: Values) -> DigestRows:
    """The rows of a reading."""
    assert isinstance(values, DigestValues)
    return values.rows


def test_an_empty_result_is_no_error(connection: Connection) -> None:
    """Nothing was used since the previous reading."""
    for size in (1, digest_table.MAX_ROWS + 1):
        connection.variables[SIZE] = str(size)
        keys, age, counters = DigestTable(connection, COLUMNS).read(" WHERE DIGEST = 'none'")
        assert len(keys) == len(age) == 0
        assert counters.shape == (0, len(COLUMNS))


def test_an_incomplete_text_of_rows_is_read_row_by_row(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then and later: the server sends less than all of its rows."""
    monkeypatch.setattr(digest_table, "SESSION_SETTINGS", "SET SESSION group_concat_max_len = 500")
    for index in range(12):
        connection.query(f"SELECT 1 AS `cut{index}`")
    table = DigestTable(connection, COLUMNS)
    for _ in range(2):
        before = connection.statement_count
        keys, age, counters = table.read("")
        assert len(keys) == len(age) == len(counters) > 10
    assert connection.statement_count == before + 1


def test_a_server_with_small_packets_is_read_completely(
    private_server: ServerFactory, flavour: Flavour
) -> None:
    """They truncate a text of all rows; the smallest that a server allows is 1 KiB."""
    server = private_server(flavour, options=["--max-allowed-packet=16K"])
    with closing(server.connect_as_root()) as root, root.cursor() as cursor:
        for number in range(150):
            cursor.execute(f"SELECT 1 AS `q{number}`")
    account = Login(*least_account(server))
    found = Connection(Endpoint(socket=server.socket), lambda: account, timeout=5, limit=5)
    found.open()
    try:
        keys, _, counters = DigestTable(found, COLUMNS).read("")
    finally:
        found.close()
    assert len(keys) == len(set(keys)) > 150
    assert counters[:, list(COLUMNS.values()).index("calls")].min() >= 1


@pytest.mark.parametrize("setting", [SIZE, "max_digest_length"])
def test_a_server_that_keeps_no_digests_is_reported_with_the_setting(
    private_server: ServerFactory, flavour: Flavour, setting: str
) -> None:
    """The table is there and empty, or has one row for all statements."""
    option = f"--{setting.replace('_', '-')}=0"
    server = private_server(flavour, options=[option])
    account = Login(*least_account(server))
    found = Connection(Endpoint(socket=server.socket), lambda: account, timeout=5, limit=5)
    found.open()
    try:
        prepared = digests.prepare(found)
    finally:
        found.close()
    [feature] = prepared.features
    assert not feature.enabled
    assert feature.reason == f"{setting} is 0: statements are not classified"
    assert setting in feature.remedy
    assert prepared.read is None


class Torn(Connection):
    """A session whose answers lack the last number of each row."""

    def query(self, sql: str, limits: ResultLimits = ONE_CELL) -> list[ResultRow]:
        """The server's answer, cut as something on the way might."""
        rows = super().query(sql, limits)
        if limits != digest_table.SOME_ROWS:
            return rows
        return [((row[0] or b"").rpartition(b" ")[0], *row[1:]) for row in rows]


def test_rows_with_missing_numbers_are_refused(server: PrivateServer) -> None:
    """The message names the server."""
    account = Login(*least_account(server))
    torn = Torn(Endpoint(socket=server.socket), lambda: account, timeout=5, limit=5)
    torn.open()
    torn.variables[SIZE] = str(digest_table.MAX_ROWS + 1)
    try:
        with pytest.raises(CollectorError, match=re.escape(str(torn.endpoint))) as refused:
            DigestTable(torn, COLUMNS).read("")
    finally:
        torn.close()
    assert refused.value.kind is FailureKind.UNREADABLE


def test_a_text_of_numbers_is_parsed_up_to_its_limits() -> None:
    """As many as allowed, each finite; an empty text is not a number."""
    assert parse_numbers(b"1 2.5 -3e2", 3).tolist() == [1, 2.5, -300]
    assert parse_numbers(b"1e30 -1e30", 2).tolist() == [1e30, -1e30]
    assert parse_numbers(b"", 3).size == parse_numbers(None, 3).size == 0


@pytest.mark.parametrize(
    "cell", [b"1 2 3", b"1 x", b"x", b"1 2\xa0", b"1 nan", b"inf 1", b"1.001e30", b"-1.001e30"]
)
def test_a_text_that_is_not_numbers_is_refused(cell: bytes) -> None:
    """One too many, a word, a sign that is no digit, and a number that is not finite."""
    with pytest.raises(ValueError, match="number"):
        parse_numbers(cell, 2)


def test_times_are_converted_from_picoseconds_and_counts_are_not() -> None:
    """For every column that is read."""
    times = {"statement_time", "lock_time", "cpu_time"}
    names = list(COUNTERS.values())
    assert times < set(names)
    assert dict(zip(names, unit_factors(names), strict=True)) == {
        name: 1e-12 if name in times else 1 for name in names
    }


@pytest.mark.parametrize("read", [number, whole_number, number_or_zero])
def test_an_invalid_number_is_reported_with_its_name(
    read: Callable[[str, ResultCell], float],
) -> None:
    """A reader of the log sees which variable or column of the server it was."""
    with pytest.raises(CollectorError) as caught:
        read("Uptime", b"x")
    assert str(caught.value) == "Uptime is not a usable number: 'x'"
