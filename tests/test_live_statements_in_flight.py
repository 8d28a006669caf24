"""Statements in flight on a MariaDB, whose class the agent finds by the words of their texts."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from binary_protocol import Prepared
from collector_session import connected
from conftest import ServerFactory

from agent.demo.private_server import PrivateServer
from collectors import digests as digest_collector
from collectors.base import Prepared as PreparedCollector
from collectors.digests import DigestValues
from testbed.real.clients import Threads, root, run_as_root
from testbed.real.server_programs import Release

pytestmark = [
    pytest.mark.live,
    pytest.mark.parametrize("release", ["mariadb", "mariadb-11.8"], indirect=True),
]
INSIDE = "SELECT SLEEP(0.1) AS inside"
SCHEMA = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.t (a INT)",
    "INSERT INTO shop.t VALUES (1)",
    f"CREATE PROCEDURE shop.waits(n INT) FOR i IN 1 .. n DO {INSIDE}; END FOR",
)
CALL, LOCKED = "CALL shop.waits({})", "SELECT a, SLEEP({}) AS after_a_lock FROM shop.t"
PREPARED = "SELECT SLEEP({}) AS prepared"


class InFlight:
    """The collector over TCP, as on another host; it has read the texts of all digests."""

    def __init__(self, prepared: PreparedCollector) -> None:
        assert "digests_in_flight" in [each.name for each in prepared.features if each.enabled]
        self._read, self._texts = prepared.read, dict[str, str]()
        for _ in range(2):
            self.seconds("")

    def seconds(self, word: str) -> list[float]:
        """The elapsed time of each class whose text has that word."""
        assert self._read is not None
        values = self._read()
        assert isinstance(values, DigestValues)
        self._texts.update(values.rows.texts)
        running = values.rows.running.items()
        return [s for name, s in running if word in self._texts[name.partition("|")[0]]]


@pytest.fixture
def server(private_server: ServerFactory, release: Release) -> PrivateServer:
    """One with the consumer of statements in flight, which has run a short statement of each."""
    option = "--performance-schema-consumer-events-statements-current=ON"
    found = private_server(release, options=[option])
    run_as_root(found, *SCHEMA, INSIDE, CALL.format(1), LOCKED.format(0), PREPARED.format(0))
    return found


@pytest.fixture
def in_flight(server: PrivateServer) -> Iterator[InFlight]:
    """A session of the agent that reads them."""
    with connected(server, "port") as connection:
        yield InFlight(digest_collector.prepare(connection))


@contextmanager
def running(server: PrivateServer, statement: str) -> Iterator[float]:
    """Run a statement; yield the time at which it begins, about."""
    with Threads([lambda: run_as_root(server, statement)]):
        yield time.monotonic()


def test_a_statement_inside_a_procedure_is_its_call(
    server: PrivateServer, in_flight: InFlight
) -> None:
    """Also where clients run the same statement."""
    with running(server, CALL.format(30)) as begun:
        for _ in range(2):
            time.sleep(1)
            [seconds], most = in_flight.seconds("waits"), time.monotonic() - begun
            assert most - 0.9 < seconds < time.monotonic() - begun
            assert not in_flight.seconds("inside")


def test_a_wait_for_a_lock_is_left_out(server: PrivateServer, in_flight: InFlight) -> None:
    """The lock time that the statement has when it ends has it."""
    with root(server) as ask:
        ask("LOCK TABLES shop.t WRITE")
        with running(server, LOCKED.format(3)):
            time.sleep(1.5)
            assert not in_flight.seconds("after_a_lock")
            ask("UNLOCK TABLES")
            released = time.monotonic()
            time.sleep(1)
            [seconds] = in_flight.seconds("after_a_lock")
            assert 0.5 < seconds < time.monotonic() - released + 0.1


def test_a_statement_of_the_binary_protocol_has_no_class(
    server: PrivateServer, in_flight: InFlight
) -> None:
    """It has no digest when it ends: not that of the same words in the text protocol."""

    def execute() -> None:
        with closing(server.connect_as_root()) as connection:
            Prepared(connection, PREPARED.format(3)).execute()

    with Threads([execute]):
        for _ in range(2):
            time.sleep(1)
            assert not in_flight.seconds("prepared")
    with running(server, PREPARED.format(2)):
        time.sleep(1)
        assert len(in_flight.seconds("prepared")) == 1
