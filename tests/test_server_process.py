"""Finding the server's process: files that the server names are read as hostile."""

import os
import time
from pathlib import Path

import pytest

from collectors import host
from collectors.connection import Connection, Endpoint, Login
from testbed.attacks.lying_server import LyingServer

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


def test_a_trap_for_a_pid_file_is_no_pid_file(traps: dict[str, str]) -> None:
    """A pipe, a device, a link to one, an endless file: the host is looked at without a wait."""
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
