"""Sessions lost and found again, hundreds with --long: nothing is left behind, there or here.

-rP prints what was held.
"""

import gc
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import psutil
import pytest
from conftest import FLAVOURS, ServerFactory
from proxy import Proxy

from agent.config.loader import load_config
from agent.demo.private_server import PrivateServer
from agent.service import target_session
from agent.service.daemon import Agent
from collectors.endpoint import Endpoint
from testbed.real.clients import sessions
from testbed.real.daemon import target, wait_until, write_config

USER = "headroom"
BREAKS, MANY_BREAKS = 50, 400  # sessions that are reset, of each server; the second with --long
CRASHES = {"mysql": 4, "mariadb": 10}  # one of MariaDB takes half the time
LONGER = 15  # times as many crashes with --long
LIFE = 5.0  # seconds
SETTLED = 25  # cycles after which nothing may grow any more
GROWTH = 10 * 2**20  # bytes of memory that all the cycles after those may cost


@dataclass(frozen=True)
class Burden:
    """What this process holds."""

    descriptors: int
    threads: int
    memory: int  # bytes


def burden() -> Burden:
    """What this process holds now, rubbish aside."""
    gc.collect()
    descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
    return Burden(descriptors, threading.active_count(), psutil.Process().memory_info().rss)


def connects(agent: Agent) -> dict[str, int]:
    """How many sessions each target has had."""
    return {one.target: one.connects for one in agent.own_state().targets}


def are_back(agent: Agent, before: dict[str, int]) -> bool:
    """Whether every target has a session that came later than those."""
    return all(count > before.get(name, 0) for name, count in connects(agent).items())


def are_up(agent: Agent) -> bool:
    """Whether every target is up."""
    return all(snapshot.health.up for snapshot in agent.snapshots())


@contextmanager
def hasty(
    servers: list[PrivateServer], folder: Path, patch: pytest.MonkeyPatch
) -> Iterator[tuple[Agent, list[Proxy]]]:
    """An agent of these servers, each behind a proxy, that tries again at once."""
    patch.setattr(target_session, "RECONNECT_MIN", 0.01)
    patch.setattr(target_session, "RECONNECT_MAX", 0.05)
    with ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(server.port)) for server in servers]
        targets = [
            target(folder, server, name=server.flavour, over=Endpoint(port=proxy.port))
            for server, proxy in zip(servers, proxies, strict=True)
        ]
        often = {name: {"interval": "100ms"} for name in ("status", "statements", "threads")}
        file, _ = write_config(folder, *targets, collectors=often)
        agent = Agent(load_config(file))
        agent.start()
        stack.callback(agent.stop)
        wait_until("up", lambda: are_up(agent))
        yield agent, proxies


def is_even(agent: Agent, servers: list[PrivateServer], settled: Burden) -> None:
    """One session on each server, and here no more than there was when all had settled."""
    for server in servers:
        wait_until("one session", lambda s=server: sessions(s, USER) == 1)  # type: ignore[misc]
    wait_until("descriptors", lambda: burden().descriptors <= settled.descriptors + 2)
    wait_until("threads", lambda: burden().threads <= settled.threads + 1)
    print(f"settled: {settled}; in the end: {burden()}")
    assert burden().memory < settled.memory + GROWTH
    wait_until("up", lambda: are_up(agent))


def test_repeatedly_broken_sessions_leave_nothing_behind(
    private_server: ServerFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    """It reconnects each time; no session, descriptor, thread or memory is left."""
    servers = [private_server(flavour) for flavour in FLAVOURS]
    with hasty(servers, tmp_path, monkeypatch) as (agent, proxies):
        settled, breaks = burden(), MANY_BREAKS if is_long else BREAKS
        for cycle in range(breaks):
            before = connects(agent)
            for proxy in proxies:
                proxy.reset()
            wait_until("again", lambda b=before: are_back(agent, b))  # type: ignore[misc]
            if cycle == SETTLED:
                settled = burden()
        assert min(connects(agent).values()) > breaks
        is_even(agent, servers, settled)


def crash(agent: Agent, server: PrivateServer, times: int) -> None:
    """Kill it and start it, so many times; each time the agent finds it again."""
    name = server.flavour
    for _ in range(times):
        before = connects(agent)[name]
        server.kill()
        server.start()
        wait_until("again", lambda b=before: connects(agent)[name] > b, 40)  # type: ignore[misc]


@pytest.mark.timeout(900)
def test_repeatedly_crashing_servers_leave_nothing_behind(
    private_server: ServerFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    """After each crash the agent has one session, and each crash is counted once."""
    servers = [private_server(flavour) for flavour in FLAVOURS]
    crashes = {name: count * (LONGER if is_long else 1) for name, count in CRASHES.items()}
    early = [crashes[server.flavour] // 4 for server in servers]
    late = [crashes[server.flavour] - times for server, times in zip(servers, early, strict=True)]
    with hasty(servers, tmp_path, monkeypatch) as (agent, _), ThreadPoolExecutor() as pool:
        list(pool.map(crash, repeat(agent), servers, early))
        settled = burden()
        list(pool.map(crash, repeat(agent), servers, late))
        is_even(agent, servers, settled)
        time.sleep(LIFE)  # a life that is as short as the one before it cannot be told from that
        list(pool.map(crash, repeat(agent), servers, repeat(1)))
        wait_until("restarts", lambda: all(s.health.restarts for s in agent.snapshots()), 40)
        for found in agent.snapshots():
            assert found.health.restarts <= crashes[found.target] + 1
