"""Threads that work for no client, where performance_schema does not list the server's threads."""

from collections.abc import Callable
from functools import partial

import pytest
from collector_session import connected
from conftest import ServerFactory

from collectors import status, threads_table
from collectors.connection import Connection
from testbed.real.clients import run_as_root
from testbed.real.daemon import wait_until
from testbed.real.replication import REPLICA, STOP, let_follow
from testbed.real.server_programs import Release

Counts = tuple[float, float]


def running_threads(connection: Connection) -> Callable[[], Counts]:
    """What reads how many threads run that are no client's, and how many others."""
    counted, known = (found.prepare(connection).read for found in (threads_table, status))
    assert counted is not None
    assert known is not None

    def read() -> Counts:
        system = counted()["system"]
        return system, known()["threads_running"] - system - 1

    return read


def shows(read: Callable[[], Counts], wanted: Counts) -> bool:
    """Whether these threads run now."""
    return read() == wanted


def test_an_event_scheduler_that_is_switched_while_the_agent_watches_is_no_client(
    private_server: ServerFactory, release: Release
) -> None:
    """Threads_running counts it at once, and the session goes on."""
    server = private_server(release, performance_schema=False)
    with connected(server, "socket") as connection:
        read = running_threads(connection)
        for value, wanted in (("ON", (1, 0)), ("OFF", (0, 0)), ("ON", (1, 0))):
            run_as_root(server, f"SET GLOBAL event_scheduler = {value}")
            wait_until(f"the scheduler is {value}", partial(shows, read, wanted))


@pytest.mark.parametrize("workers", [0, 4])
@pytest.mark.parametrize("release", ["mariadb", "mariadb-11.8"])
def test_a_replicas_own_threads_are_no_client(
    private_server: ServerFactory, release: Release, workers: int
) -> None:
    """MariaDB's Threads_running counts them, also while they wait for work."""
    source = private_server(release, log_bin=True)
    options = [*REPLICA, f"--slave-parallel-threads={workers}", "--event-scheduler=OFF"]
    replica = private_server(release, performance_schema=False, options=options)
    with connected(replica, "socket") as connection:
        read = running_threads(connection)
        assert read() == (0, 0)
        let_follow(source, replica)
        wait_until("it replicates", partial(shows, read, (2 + workers, 0)))
        run_as_root(replica, STOP["mariadb"])
        wait_until("it has stopped", partial(shows, read, (0, 0)))


def test_an_event_that_runs_is_no_client(private_server: ServerFactory, release: Release) -> None:
    """Beside the scheduler itself; its statements are in neither Questions nor statement time."""
    server = private_server(release, options=["--event-scheduler=ON"])
    event = "CREATE EVENT live.nap ON SCHEDULE AT CURRENT_TIMESTAMP DO DO SLEEP(600)"
    with connected(server, "socket") as connection:
        read = running_threads(connection)
        wait_until("the scheduler runs", partial(shows, read, (1, 0)))
        run_as_root(server, "CREATE DATABASE live", event)
        wait_until("the event runs", partial(shows, read, (2, 0)))
