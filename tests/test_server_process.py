"""Finding the server's process: files that the server names are read as hostile."""

import os
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from agent.demo.private_server import PrivateServer
from collectors import host, status
from collectors.connection import Connection, Login
from collectors.endpoint import Endpoint
from collectors.process_lookup import find_server_process
from testbed.attacks.lying_server import LyingServer
from testbed.real.server_account import least_account

SECONDS = 3.0


@pytest.fixture
def traps(tmp_path: Path) -> dict[str, str]:
    """Paths that a server may name, none of which is a pid file."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    (tmp_path / "to_zero").symlink_to("/dev/zero")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**40)
    (tmp_path / "digits").write_text("9" * 1_000_000)
    (tmp_path / "negative").write_text("-1")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    named = {path.name: str(path) for path in tmp_path.iterdir()}
    special = ("/dev/zero", "/dev/urandom", "/proc/kmsg", "/dev/stdin", "/", "/nowhere/at/all")
    return {**named, **{path: path for path in special}, "long": "/" + "x" * 400, "nul": "a\0b"}


def test_a_hostile_pid_file_is_ignored(traps: dict[str, str]) -> None:
    """A pipe, a device, a link to one, an endless file: without blocking."""
    for name, path in traps.items():
        with LyingServer(variables={"pid_file": path}) as server:
            login = Login("headroom", "Qz7")
            found = Connection(Endpoint(port=server.port), lambda: login, timeout=1, limit=1)  # noqa: B023
            found.open()
            begun = time.monotonic()
            prepared = host.prepare(found)
            found.close()
        assert prepared.read is None, name
        assert "no process of this server" in prepared.features[0].reason, name
        assert time.monotonic() - begun < SECONDS, name


def test_an_uptime_that_the_status_has_read_is_not_queried(mysql_server: PrivateServer) -> None:
    """Over TCP, where the process is looked for each minute while a feature is missing."""
    login = Login(*least_account(mysql_server))
    found = Connection(Endpoint(port=mysql_server.port), lambda: login, timeout=5, limit=5)
    with closing(found):
        found.open()
        read = status.prepare(found).read
        for is_told in (False, True):
            found.sent_statements.clear()
            process = find_server_process(found)
            assert isinstance(process, psutil.Process)
            assert process.pid == mysql_server.pid
            assert ("SHOW GLOBAL STATUS LIKE" in found.sent_statements) != is_told
            assert read is not None
            read()
        found.open()
        assert found.uptime_read is None  # another server may have answered
