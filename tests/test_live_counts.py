"""What a server did while nobody could ask it: every statement is counted, and none twice."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pymysql
import pytest
from conftest import FLAVOURS, ServerFactory
from page_changes import lost
from proxy import Proxy

from agent.demo.private_server import PrivateServer
from collectors.endpoint import Endpoint
from testbed.real.clients import Clients, root, run_as_root
from testbed.real.daemon import Daemon, target, wait_until, watching
from testbed.real.server_faults import freeze_server, thaw_server

LOAD, CLIENTS = "SELECT SLEEP(0.05) AS counted", 3
DONE = (
    "SELECT DIGEST, COUNT_STAR FROM performance_schema.events_statements_summary_by_digest"
    " WHERE DIGEST_TEXT LIKE 'SELECT %SLEEP%counted%'"
)
CLASSES = {"interval": "5s", "top": 200}
INTERVALS = 12.0  # seconds in which two intervals of query classes end
LASTS = 4.0  # seconds of each trouble
FOUND_WITHIN = 60.0  # seconds: the longest pause between two tries, an interval, a busy machine
COUNTED_WITHIN = 300.0
"""Seconds: digests whose reading was cut off are read again after 5, 10, 20, ... of them more."""


@dataclass(frozen=True)
class Scene:
    """The agent, and the servers that it watches, each behind a proxy."""

    agent: Daemon
    servers: list[PrivateServer]
    proxies: list[Proxy]


def resets(scene: Scene) -> Iterator[None]:
    """The sessions break, and those after them."""
    for _ in range(4):
        for proxy in scene.proxies:
            proxy.reset()
        yield


def silence(scene: Scene) -> Iterator[None]:
    """Nothing passes."""
    for proxy in scene.proxies:
        proxy.silent.set()
    yield
    for proxy in scene.proxies:
        proxy.silent.clear()


def slowness(scene: Scene) -> Iterator[None]:
    """Each answer takes most of the time-out."""
    for proxy in scene.proxies:
        proxy.delay = 0.6
    yield
    for proxy in scene.proxies:
        proxy.delay = 0.0


def standstill(scene: Scene) -> Iterator[None]:
    """The servers are halted in the middle of it all."""
    for server in scene.servers:
        freeze_server(server)
    yield
    for server in scene.servers:
        thaw_server(server)


def sleep(scene: Scene) -> Iterator[None]:
    """The agent is halted, for less time than a scrape waits."""
    scene.agent.process.send_signal(signal.SIGSTOP)
    yield
    scene.agent.process.send_signal(signal.SIGCONT)


def kills(scene: Scene) -> Iterator[None]:
    """The server ends the session."""
    for server in scene.servers:
        with root(server) as ask:
            query = "SELECT id FROM information_schema.processlist WHERE user = 'headroom'"
            for (session,) in ask(query):
                with suppress(pymysql.MySQLError):  # it has ended
                    ask(f"KILL {session}")
    yield


TROUBLES: tuple[Callable[[Scene], Iterator[None]], ...] = (
    resets,
    silence,
    slowness,
    standstill,
    sleep,
    kills,
)


@pytest.fixture
def scene(private_server: ServerFactory, tmp_path: Path) -> Iterator[Scene]:
    """An agent that has begun to tell the classes of a server of each flavour."""
    with ExitStack() as stack:
        servers = [private_server(flavour) for flavour in FLAVOURS]
        proxies = [stack.enter_context(Proxy(server.port)) for server in servers]
        targets = [
            target(tmp_path, server, name=server.flavour, over=Endpoint(port=proxy.port))
            for server, proxy in zip(servers, proxies, strict=True)
        ]
        agent = stack.enter_context(watching(tmp_path, *targets, classes=CLASSES))
        wait_until("classes", lambda: len(agent.page.all("query_classes")) == len(FLAVOURS))
        yield Scene(agent, servers, proxies)


@pytest.mark.timeout(900)
def test_every_statement_is_counted_through_faults(scene: Scene) -> None:
    """Reset and killed sessions, a silent and slow network, halted server and agent lose none.

    The load does not pass the faulty network. In the end the agent has counted as many statements
    as the server, no more in the interval after it, and no interval was lost.
    """
    agent = scene.agent
    for server in scene.servers:
        make_known(agent, server)

    def settled() -> list[float]:
        return [uncounted(agent, server) for server in scene.servers]

    known = stays(settled)
    before = agent.page
    with ExitStack() as stack:
        loads = [stack.enter_context(Clients(s, LOAD, CLIENTS)) for s in scene.servers]
        for trouble in TROUBLES:
            wait_until("up", lambda: agent.page.all("up") == [1, 1], FOUND_WITHIN)
            for _ in trouble(scene):
                time.sleep(LASTS)

    def is_settled() -> bool:
        found = settled()
        print(f"not counted yet: {found}, before {known}")
        return found == known

    wait_until("all were counted", is_settled, COUNTED_WITHIN)
    time.sleep(INTERVALS)
    assert settled() == known
    assert [lost(server.flavour, before, agent.page) for server in scene.servers] == [{}, {}]
    assert min(load.done for load in loads) > len(TROUBLES) * LASTS * CLIENTS


def stays(seen: Callable[[], list[float]]) -> list[float]:
    """What is seen twice, with whole intervals in between."""
    found = [seen()]

    def is_again() -> bool:
        time.sleep(INTERVALS)
        found.append(seen())
        return found[-1] == found[-2]

    wait_until("it stays", is_again, COUNTED_WITHIN)
    return found[-1]


def make_known(agent: Daemon, server: PrivateServer) -> None:
    """Have the load's class shown by itself; until then it is one of the others."""
    with Clients(server, LOAD, CLIENTS):
        [(digest, _)] = wait_until("its digest", partial(run_as_root, server, DONE))
        of_it = {"target": server.flavour, "digest": str(digest)}
        wait_until("its class", lambda: agent.page.all("query_calls_total", **of_it))


def uncounted(agent: Daemon, server: PrivateServer) -> float:
    """By how much the server's count of the load is ahead of ours.

    It counts without a lock, and may itself miss one that its clients have seen.
    """
    [(digest, done)] = run_as_root(server, DONE)
    return float(done) - sum(
        agent.page.all("query_calls_total", target=server.flavour, digest=str(digest))
    )
