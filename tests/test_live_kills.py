"""The agent killed again and again, at any moment: nothing that it has written is lost."""

import random
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest
from conftest import FLAVOURS
from history_rows import everything, is_sound

from agent.demo.private_server import PrivateServer
from agent.history.failures import StoreError
from agent.history.row_kinds import Row
from testbed.real.clients import Clients, sessions
from testbed.real.daemon import COMMAND, target, wait_until, write_config

KILLS, MANY_KILLS = 12, 50  # the latter with --long
STARTING, WORKING = 1.5, 0.5  # seconds within which one that starts, or writes, is killed
PATIENCE = 60.0  # seconds, for the first rows on a busy machine

Rows = dict[str, list[Row]]


def committed(path: Path, before: Rows) -> Rows:
    """Every row that a reader sees; none while the file is being made."""
    try:
        return everything(path)
    except StoreError:
        if before:
            raise
        return {}


def is_longer(path: Path, before: Rows) -> bool:
    """Whether an interval of each target has been committed since."""
    earlier = len(before.get("intervals", []))
    later = committed(path, before).get("intervals", [])
    new = len(later) - earlier
    return new > 0 and {row.labels[0] for row in later} == set(FLAVOURS)


def lost(before: Rows, after: Rows) -> list[str]:
    """Rows that are not there any more, or not as they were."""
    return [
        f"{kind}: {row}"
        for kind, rows in before.items()
        for row in set(map(str, rows)) - set(map(str, after.get(kind, [])))
    ]


@pytest.mark.timeout(120 + 12 * MANY_KILLS)
def test_no_kill_loses_a_row_or_leaves_a_session(
    mysql_server: PrivateServer, mariadb_server: PrivateServer, tmp_path: Path, is_long: bool
) -> None:
    """During start, reading or writing; the file stays valid."""
    servers = (mysql_server, mariadb_server)
    path, chance = tmp_path / "state" / "history.db", random.Random(50)
    history = {"path": str(path), "retention": {"samples": "1d"}}
    targets = [target(tmp_path, server, name=server.flavour) for server in servers]
    file, _ = write_config(tmp_path, *targets, history=history)
    command = (COMMAND, "run", "--config.file", file)
    known: Rows = {}
    with (
        (tmp_path / "agent.log").open("ab") as log,
        Clients(mysql_server, "SELECT SLEEP(0.05)", 2),
        Clients(mariadb_server, "SELECT SLEEP(0.05)", 2),
    ):
        for number in range(MANY_KILLS if is_long else KILLS):
            with subprocess.Popen(command, stderr=log) as agent:
                try:
                    if number % 2 == 0:
                        wait_until("a write", partial(is_longer, path, known), PATIENCE)
                    time.sleep(chance.random() * (STARTING if number % 2 else WORKING))
                    assert agent.poll() is None, (tmp_path / "agent.log").read_text()
                    before, known = known, committed(path, known)
                    assert lost(before, known) == []
                finally:
                    agent.kill()
            assert lost(known, committed(path, known)) == []
        for server in servers:
            wait_until("no session", partial(has_none, server))
    assert is_sound(path)
    assert len(known["intervals"]) >= KILLS // 2
    assert "Traceback" not in (tmp_path / "agent.log").read_text()


def has_none(server: PrivateServer) -> bool:
    """Whether the server has noticed that the agent is gone, each time."""
    return sessions(server, "headroom") == 0
