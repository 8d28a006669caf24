"""Sessions that the server, a proxy or its operator ends while they are idle."""

import time
from contextlib import suppress
from pathlib import Path

import pymysql
import pytest
from conftest import ServerFactory

from agent.config.settings import Config
from agent.demo.private_server import Flavour, PrivateServer
from agent.service import target_session
from agent.service.target_monitor import TargetMonitor
from testbed.real.clients import root
from testbed.real.daemon import COLLECTORS, target, wait_until

SESSIONS = "SELECT id FROM information_schema.processlist WHERE user = '{}'"


def watcher(server: PrivateServer, folder: Path) -> TargetMonitor:
    """A monitor of this server whose session has read its status."""
    config = Config.validated({"targets": [target(folder, server)], "collectors": COLLECTORS})
    monitor = TargetMonitor(config, config.targets[0])
    monitor.server_tick(time.monotonic())
    assert monitor.session.health.up
    return monitor


def kill_and_read(server: PrivateServer, monitor: TargetMonitor) -> float:
    """Kill the agent's session, and have it read; how soon it wants to be run again (s)."""
    user = monitor.target.credentials.login().user
    with root(server) as ask:
        for (session,) in ask(SESSIONS.format(user)):
            with suppress(pymysql.MySQLError):
                ask(f"KILL {session}")
        wait_until("it has ended", lambda: not ask(SESSIONS.format(user)))
    time.sleep(0.5)  # until its next reading
    again = monitor.server_tick(time.monotonic())
    return again - time.monotonic()


def test_an_idle_session_that_is_killed_is_opened_again_at_once(
    server: PrivateServer, tmp_path: Path
) -> None:
    """As by those who end idle sessions: it was of use until then, and the server stays up."""
    monitor = watcher(server, tmp_path)
    for connects in (2, 3):
        time.sleep(target_session.USEFUL_SESSION_SECONDS)
        assert kill_and_read(server, monitor) <= 0.0
        assert monitor.session.health.up
        monitor.server_tick(time.monotonic())
        assert monitor.session.connects == connects
        assert monitor.session.health.up
    monitor.close()


def test_a_server_that_is_gone_is_down_with_the_next_reading(
    private_server: ServerFactory, flavour: Flavour, tmp_path: Path
) -> None:
    """A session that is lost with its server is tried again once, and then after a pause."""
    server = private_server(flavour)
    monitor = watcher(server, tmp_path)
    time.sleep(target_session.USEFUL_SESSION_SECONDS)
    server.kill()
    monitor.server_tick(time.monotonic())
    pause = monitor.server_tick(time.monotonic()) - time.monotonic()
    assert pause > 0.0
    assert not monitor.session.health.up


def test_a_session_that_is_killed_soon_is_opened_again_after_a_pause(
    server: PrivateServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ends each session after its first reading is not flooded with logins."""
    monkeypatch.setattr(target_session, "USEFUL_SESSION_SECONDS", 3600.0)
    monitor = watcher(server, tmp_path)
    assert kill_and_read(server, monitor) > 0.0
    assert not monitor.session.health.up
    monitor.close()
