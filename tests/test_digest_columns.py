"""What the digest table's columns say of statements whose doing is known, on real servers."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pymysql
import pytest
from class_recording import CPU_ON, connected
from conftest import ServerFactory

from agent.demo.private_server import PrivateServer
from agent.query_classes.class_intervals import ClassInterval
from agent.query_classes.class_registry import ClassRegistry, class_name_of
from agent.query_classes.digest_deltas import ClassDeltas, DigestDeltas
from agent.query_classes.tracked_classes import class_table
from collectors import digests
from collectors.connection import Connection
from collectors.digests import DigestRows, DigestValues
from models.attribution.call_and_row_costs import USUAL_CPU
from testbed.real.clients import root

pytestmark = pytest.mark.live

TIMES, ROWS = 3, 10
TABLES = (
    "DROP DATABASE IF EXISTS known",
    "CREATE DATABASE known",
    "CREATE TABLE known.t (id INT PRIMARY KEY AUTO_INCREMENT, b INT, long_text LONGTEXT)",
    *["INSERT INTO known.t (b, long_text) VALUES (7, REPEAT('x', 5000))"] * ROWS,
)
SHORT = 300
"""Calls of a short statement."""
FILLER = 300
"""Statements more than a small table of digests takes."""
REFUSED = "SELECT no_such_column AS refused FROM known.t"
DONE: dict[str, dict[str, float]] = {
    "SELECT id AS scanned FROM known.t WHERE b = 7": {
        "rows_examined": ROWS,
        "rows_sent": ROWS,
        "no_index_used": 1,
    },
    "SELECT id AS sorted FROM known.t ORDER BY b": {"sort_rows": ROWS, "no_index_used": 1},
    "SELECT b AS grouped, COUNT(*) FROM known.t GROUP BY b": {"tmp_tables": 1, "rows_sent": 1},
    "SELECT id AS looked_up FROM known.t WHERE id = 1": {"rows_sent": 1, "no_index_used": 0},
    "UPDATE known.t AS raised SET b = b + 1": {"rows_affected": ROWS, "rows_sent": 0},
    REFUSED: {"errors": 1},
    "SELECT SLEEP(0.1) AS slept": {"errors": 0, "rows_sent": 1},
    "SELECT BENCHMARK(300000, 1 + 1) AS computed": {"rows_sent": 1},
}
"""Statements, each known by its alias, and what one of them does."""


class Watched:
    """A server's digests, read as the agent reads them."""

    def __init__(self, connection: Connection) -> None:
        read = digests.prepare(connection).read
        assert read is not None
        self._read, self._registry = read, ClassRegistry()
        self._deltas = DigestDeltas(self._registry)
        self.changes()

    def rows(self) -> DigestRows:
        """One reading."""
        values = self._read()
        assert isinstance(values, DigestValues)
        self._registry.add_texts(values.rows.texts, values.rows.own_digests)
        return values.rows

    def changes(self) -> ClassDeltas | None:
        """What rose since the last time."""
        return self._deltas.take(self.rows())

    def key(self, number: int) -> str:
        """The class with that number."""
        return self._registry.keys[number]

    def text(self, row: str) -> str:
        """The text of the class that a row is of."""
        return self._registry.text(row.partition("|")[2]) or ""

    def by_word(self) -> dict[str, dict[str, float]]:
        """The same by a word in the class's text, or by what stands for its digest."""
        changes = self.changes()
        assert changes is not None
        found = {}
        for number, values in zip(changes.classes, changes.values, strict=True):
            key = self._registry.keys[number]
            counted = dict(zip(changes.names, map(float, values), strict=True))
            found[self._registry.text(key) or class_name_of(key).digest] = counted
        return found


@pytest.fixture
def watched(server: PrivateServer) -> Iterator[Watched]:
    """The shared server, watched from now on."""
    with root(server) as ask:
        for statement in (*TABLES, CPU_ON):
            ask(statement)
    with connected(server) as connection:
        yield Watched(connection)


def of(found: dict[str, dict[str, float]], alias: str) -> dict[str, float]:
    """What was counted of the one class whose text has that word."""
    [counted] = [counted for text, counted in found.items() if f"`{alias}`" in text]
    return counted


def alias_of(statement: str) -> str:
    """The word that a statement is known by."""
    words = statement.replace(",", "").split()
    return words[words.index("AS") + 1]


def test_every_column_counts_its_statements(server: PrivateServer, watched: Watched) -> None:
    """Rows, sorts, temporary tables, errors, no index used; times within the elapsed time."""
    with root(server) as ask:
        begun = time.monotonic()
        for statement in DONE:
            for _ in range(TIMES):
                try:
                    ask(statement)
                except pymysql.MySQLError:
                    assert statement == REFUSED
        ask("SELECT 1")  # a statement is in the sums when its session begins another
        passed = time.monotonic() - begun
    found = watched.by_word()
    for statement, each in DONE.items():
        counted = of(found, alias_of(statement))
        assert counted["calls"] == TIMES, statement
        for name, count in each.items():
            assert counted[name] == TIMES * count, (statement, name)
        assert 0 < counted["statement_time"] < passed
        assert counted["lock_time"] <= counted["statement_time"]
    assert of(found, "slept")["statement_time"] == pytest.approx(0.1 * TIMES, rel=0.3)
    assert of(found, "sorted")["tmp_disk_tables"] == 0
    if "cpu_time" in next(iter(found.values())):
        computed, slept = of(found, "computed"), of(found, "slept")
        assert 0 < computed["cpu_time"] <= computed["statement_time"]
        assert slept["cpu_time"] < 0.1 * slept["statement_time"]
    else:
        assert server.flavour == "mariadb"


def test_opening_a_table_is_no_wait_for_a_lock(server: PrivateServer, watched: Watched) -> None:
    """MariaDB counts it as lock time, of which a call's least CPU is work; MySQL does not."""
    with root(server) as ask:
        for _ in range(SHORT):
            ask("SELECT b AS short FROM known.t WHERE id = 1")
        ask("SELECT 1")
    changes = watched.changes()
    assert changes is not None
    keys = [watched.key(number) for number in range(1 + changes.classes.max())]
    table = class_table(
        [ClassInterval(1.0, 1.0, changes, {})], np.arange(len(keys)), tuple(keys), None
    )
    [short] = [k for k, key in enumerate(keys) if "`short`" in watched.text(f"|{key}")]
    [row] = np.flatnonzero(changes.classes == short)
    counted = dict(zip(changes.names, map(float, changes.values[row]), strict=True))
    time, locked = counted["statement_time"], counted["lock_time"]
    is_mariadb = server.flavour == "mariadb"
    assert (locked > 0.1 * time) == is_mariadb
    opening = min(USUAL_CPU["calls"] * SHORT, locked) if is_mariadb else 0.0
    assert table.work_time[0, short] == pytest.approx(time - locked + opening)
    assert table.lock_time is not None
    assert table.lock_time[0, short] > 0


def test_only_recently_used_rows_are_read_again(server: PrivateServer, watched: Watched) -> None:
    """All of those, though the server's clock has no fraction."""
    with root(server) as ask:
        for number in range(30):
            ask(f"SELECT {number} AS `old_{number}`")
        before = watched.rows()
        time.sleep(digests.LAST_SEEN_STEP + 2.2)
        watched.rows()
        ask("SELECT 1 AS old_7")
        again = watched.rows()
    assert len(before.keys) > 30
    assert not again.complete
    last = np.array(before.counters)[:, before.names.index("calls")]
    known = dict(zip(before.keys, last, strict=True))
    calls = again.counters[:, again.names.index("calls")]
    risen = [k for k, n in zip(again.keys, calls, strict=True) if n != known.get(k, 0.0)]
    assert len(again.keys) < 15, "old rows are read again"
    assert len(risen) >= 1
    assert any("`old_7`" in watched.text(key) for key in risen)


LEAP = 10.0
"""Seconds until the local time of a server leaps by an hour: enough for it to start."""


def test_a_change_to_summer_time_hides_no_row(
    private_server: ServerFactory, flavour: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class used just before it is read just after it, and one new then is new."""
    leap = datetime.now(UTC) + timedelta(seconds=LEAP)
    day = leap.timetuple().tm_yday - 1
    monkeypatch.setenv("TZ", f"STD0DST-1,{day}/{leap:%H:%M:%S},{(day + 100) % 365}")
    server = private_server(flavour)
    with connected(server) as connection, root(server) as ask:
        ask("SELECT 1 AS known_before")
        watched = Watched(connection)
        ask("SELECT 1 AS known_before")
        ask("SELECT 1 AS new_before")
        time.sleep(max(0.0, (leap - datetime.now(UTC)).total_seconds() + 1.0))
        found = watched.by_word()
    assert of(found, "known_before")["calls"] == 1
    assert of(found, "new_before")["calls"] == 1


def test_statements_that_found_the_table_full_are_one_class(
    private_server: ServerFactory, flavour: Any
) -> None:
    """All calls of classes that came too late, and of no other."""
    options = ["--performance-schema-digests-size=200"]
    server = private_server(flavour, options=options)
    with connected(server) as connection, root(server) as ask:
        ask("SELECT 1 AS early")
        watched = Watched(connection)
        for number in range(FILLER):
            ask(f"SELECT {number} AS `filler_{number}`")
        watched.changes()
        for number in range(TIMES):
            ask(f"SELECT {number} AS `late_{number}`")
        ask("SELECT 1 AS early")
        found = watched.by_word()
    assert of(found, "early")["calls"] == 1
    assert TIMES <= found["overflow"]["calls"] <= TIMES + 5
    assert found["overflow"]["rows_sent"] >= TIMES


def test_cpu_is_read_only_with_its_consumer(
    private_server: ServerFactory,
) -> None:
    """Without, the column is 0 and left out, and the remedy is reported."""
    server = private_server("mysql")
    for consumer in ("NO", "YES"):
        with root(server) as ask:
            ask(
                "UPDATE performance_schema.setup_consumers"
                f" SET ENABLED = '{consumer}' WHERE NAME = 'events_statements_cpu'"
            )
        with connected(server) as connection, root(server) as ask:
            prepared = digests.prepare(connection)
            [cpu] = [one for one in prepared.features if one.name == "digests_cpu"]
            watched = Watched(connection)
            ask("SELECT BENCHMARK(300000, 1 + 1) AS computed")
            ask("SELECT 1")  # a statement is in the sums when its session begins another
            computed = of(watched.by_word(), "computed")
        assert cpu.enabled == (consumer == "YES")
        assert ("events_statements_cpu" in (cpu.remedy or "")) == (consumer == "NO")
        assert (computed.get("cpu_time", 0.0) > 0) == ("cpu_time" in computed) == cpu.enabled


def test_one_statement_in_two_schemas_and_in_none_is_three_classes(
    server: PrivateServer, watched: Watched
) -> None:
    """Each with its calls, though all have one digest."""
    statement = "SELECT 1 AS anywhere"
    with root(server) as ask:
        ask(statement)
        for schema, times in (("known", 2), ("performance_schema", 3)):
            ask(f"USE {schema}")
            for _ in range(times):
                ask(statement)
    changes = watched.changes()
    assert changes is not None
    calls = {}
    for number, values in zip(changes.classes, changes.values, strict=True):
        name = class_name_of(watched.key(number))
        if "`anywhere`" in watched.text(f"|{watched.key(number)}"):
            calls[name.schema] = values[changes.names.index("calls")]
    assert calls == {"": 1, "known": 2, "performance_schema": 3}
