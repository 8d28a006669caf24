"""A network that drops packets: nobody is told, and the agent says what it can know."""

import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from conftest import FLAVOURS
from faults import BACK_WITHIN, CALM, CLIENTS, NAP
from page_changes import ALWAYS_POSSIBLE, falls, increases, was_undisturbed

from agent.demo.private_server import PrivateServer
from collectors.endpoint import Endpoint
from testbed.real.clients import Clients, sessions
from testbed.real.daemon import Daemon, Page, PlausiblePage, is_root, target, wait_until, watching
from testbed.real.namespaces import RoutedHost, routed_host, server_inside

LASTS = 10.0  # seconds, after it was noticed
ANSWER_WITHIN = 2.0  # seconds: a packet needs less than a millisecond there
ASK = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3])).close()
except TimeoutError:
    sys.exit("silence")
except ConnectionRefusedError:
    pass
"""
SANE = PlausiblePage(queries=1.2 * CLIENTS / NAP + 200, threads=CLIENTS + 1.5)


@pytest.mark.live
@pytest.mark.skipif(not is_root(), reason="only root makes network namespaces")
def test_a_host_whose_packets_are_dropped_is_down(
    templates: Path, mariadb_without_schema: PrivateServer, tmp_path: Path
) -> None:
    """By timeout, in either direction; up soon after, no false rates, others unaffected."""
    with ExitStack() as stack:
        there = stack.enter_context(routed_host())
        within = ("ip", "netns", "exec", there.host)
        servers = [
            stack.enter_context(
                server_inside(flavour, templates, *within, options=("--bind-address=0.0.0.0",))
            )
            for flavour in FLAVOURS
        ]
        targets = [
            target(tmp_path, server, name=server.flavour, over=Endpoint(there.theirs, server.port))
            for server in servers
        ]
        targets.append(target(tmp_path, mariadb_without_schema, name=CALM))
        loads = [
            stack.enter_context(Clients(server, f"SELECT SLEEP({NAP})", CLIENTS))
            for server in servers
        ]
        agent = stack.enter_context(watching(tmp_path, *targets, sane=SANE))
        wait_until("all is well", partial(is_sound, agent, servers), BACK_WITHIN)
        assert is_answered(there, servers) == [True] * 3
        before, began, complained = agent.page, time.monotonic(), there.complaints()
        there.drop()
        try:
            wait_until("down", lambda: ups(agent.page) == [0, 0])
            noticed, done = time.monotonic(), [load.done for load in loads]
            assert is_answered(there, servers) == [False] * 3
            wait_until("it lasts", lambda: time.monotonic() > noticed + LASTS, LASTS + 5)
            meanwhile = [page for page in agent.pages if page.requested_at > noticed]
            assert there.complaints() == complained
        finally:
            there.let_pass()
        wait_until("all is well again", partial(is_sound, agent, servers), BACK_WITHIN)
        after, pages = agent.page, [page for page in agent.pages if page.at > began]
    assert all(ups(page) == [0, 0] for page in meanwhile)
    assert all(load.done > earlier for load, earlier in zip(loads, done, strict=True))
    for server in servers:
        name = server.flavour
        assert not [p for p in meanwhile if p.all("throughput_queries_per_second", target=name)]
        counted = {kind for kind, n in increases(name, before, after).items() if n}
        assert "timeout" in counted
        assert counted <= {"timeout"} | ALWAYS_POSSIBLE
        assert after.get("server_restarts_total", target=name) == 0
    assert falls(pages, only=None) == []
    was_undisturbed(CALM, pages)


def ups(page: Page) -> list[float]:
    """Whether each server of the other host is said to be up."""
    return [page.get("up", target=name) or 0.0 for name in FLAVOURS]


def is_sound(agent: Daemon, servers: list[PrivateServer]) -> bool:
    """Whether each is up, under its load, and has noticed the end of every session but one."""
    page = agent.page
    return ups(page) == [1, 1] and all(
        (page.get("concurrency", target=s.flavour, source="threads_running") or 0) > 2
        and sessions(s, "headroom") == 1
        for s in servers
    )


def is_answered(there: RoutedHost, servers: list[PrivateServer]) -> list[bool]:
    """Whether a packet to each server has an answer, be it a refusal; and one from there to us."""
    answered = []
    for server in servers:
        try:
            socket.create_connection((there.theirs, server.port), timeout=ANSWER_WITHIN).close()
            answered.append(True)
        except TimeoutError:
            answered.append(False)
    words = [sys.executable, "-c", ASK, there.ours, "9", f"{ANSWER_WITHIN}"]
    back = subprocess.run(["ip", "netns", "exec", there.host, *words], check=False)
    return [*answered, back.returncode == 0]
