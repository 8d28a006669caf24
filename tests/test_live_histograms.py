"""Response times per digest as real servers count them; MariaDB does not."""

import time
from collections.abc import Iterator

import pytest
from binary_protocol import Prepared
from collector_session import connected

from agent.demo.private_server import PrivateServer
from agent.query_classes.recent_response_times import RecentResponseTimes
from collectors import histograms
from collectors.histograms import NO_TABLE, HistogramValues
from testbed.real.clients import run_as_root
from testbed.real.daemon import wait_until

NAP = 0.01
CALLS = 60
SCHEMAS = ("one", "other`s")
COUNTED = """
SELECT COALESCE(SUM(COUNT_BUCKET), 0)
  FROM performance_schema.events_statements_histogram_by_digest
 WHERE DIGEST = STATEMENT_DIGEST('DO SLEEP(0.5)')"""

EXECUTED = """
SELECT DIGEST FROM performance_schema.events_statements_summary_by_digest
 WHERE DIGEST_TEXT LIKE 'EXECUTE SELECT `SQRT` %' OR DIGEST_TEXT LIKE 'EXECUTE SELECT SQRT %'"""


@pytest.fixture
def schemas(mysql_server: PrivateServer) -> Iterator[None]:
    """Two schemas, one of a strange name."""
    names = ["`" + name.replace("`", "``") + "`" for name in SCHEMAS]
    run_as_root(mysql_server, *(f"CREATE DATABASE {name}" for name in names))
    yield
    run_as_root(mysql_server, *(f"DROP DATABASE {name}" for name in names))


def naps(server: PrivateServer, seconds: float, count: int, *first: str) -> None:
    """So many statements of one class that sleep so long; when it ends, the server counts them.

    It does so after the client has the answer.
    """
    before = counted(server)
    run_as_root(server, *first, *[f"DO SLEEP({seconds})"] * count)
    wait_until("the last is counted", lambda: counted(server) == before + count)


def counted(server: PrivateServer) -> int:
    """How many statements of that class are in the server's histograms."""
    return int(run_as_root(server, COUNTED)[0][0])


@pytest.mark.usefixtures("schemas")
def test_recent_response_times_are_those_of_the_clients(mysql_server: PrivateServer) -> None:
    """Of all schemas and without one, and none from before; a class that was never met has none."""
    digest = run_as_root(mysql_server, "SELECT STATEMENT_DIGEST('DO SLEEP(0.5)')")[0][0]
    naps(mysql_server, 0.05, 20)
    with connected(mysql_server, "socket") as connection:
        prepared = histograms.prepare(connection, (digest, "f" * 64))
        assert prepared.read is not None
        assert [feature.enabled for feature in prepared.features] == [True]
        times = RecentResponseTimes()
        for _ in range(2):
            values = prepared.read()
            assert isinstance(values, HistogramValues)
            times.append(time.monotonic(), values)
            if times.latest(digest, 0.5, time.monotonic()) is None:
                for name in SCHEMAS:
                    naps(mysql_server, NAP, CALLS, "USE `" + name.replace("`", "``") + "`")
                naps(mysql_server, NAP, CALLS)
    found = times.latest(digest, 0.5, time.monotonic())
    assert found is not None
    assert found.times.calls == 3 * CALLS
    assert NAP <= float(found.times.quantile(0.1)) < 0.05
    assert times.latest("f" * 64, 0.5, time.monotonic()) is None


def test_a_prepared_statement_is_a_class_of_its_own(mysql_server: PrivateServer) -> None:
    """STATEMENT_DIGEST() returns the digest of the other one, as docs/sla.md says."""
    select = "SELECT SQRT(1234)"
    session = mysql_server.connect_as_root()
    try:
        Prepared(session, select).execute()
    finally:
        session.close()
    of_text = run_as_root(mysql_server, f"SELECT STATEMENT_DIGEST('{select}')")[0][0]
    rows = wait_until("it is counted", lambda: run_as_root(mysql_server, EXECUTED))
    assert [row[0] == of_text for row in rows] == [False]


def test_mariadb_has_no_histograms(mariadb_server: PrivateServer) -> None:
    """And no statement enables them; the reason says which servers have them."""
    with connected(mariadb_server, "socket") as connection:
        prepared = histograms.prepare(connection, ("f" * 64,))
    assert prepared.read is None
    [feature] = prepared.features
    assert (feature.enabled, feature.reason, feature.remedy) == (False, NO_TABLE, "")
    assert "(MySQL has them from 8.0 on, MariaDB has none): class_slas" in feature.reason
