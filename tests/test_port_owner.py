"""Finding the process that listens on a port."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collectors import port_owner
from collectors.port_owner import listening_process

LISTEN = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
sys.stdin.read()
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0"])
def test_a_listener_is_found_by_its_port(host: str) -> None:
    """On IPv4 and IPv6; connections to that port do not count, nor an unused port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as server:
        server.bind((host, 0))
        port = server.getsockname()[1]
        assert listening_process(port) is None
        server.listen()
        assert listening_process(port) == os.getpid()
        with socket.create_connection(server.getsockname()[:2]) as client:
            assert listening_process(client.getsockname()[1]) is None
    assert listening_process(port) is None


def test_another_process_is_found() -> None:
    """The one that listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, "-c", LISTEN, str(port)]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as other:
        deadline = time.monotonic() + 60
        while (found := listening_process(port)) is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert found == other.pid


def test_thousands_of_other_connections_cost_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of 30,000 lines is searched in a fraction of the time to read each."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        lines = Path("/proc/net/tcp").read_text().splitlines(keepends=True)
        [own] = [line for line in lines if f":{port:04X} 00000000:0000 0A" in line]
        other = "   1: 0100007F:0CEA 0100007F:%04X 06 00000000:00000000 03:00000176 00000000     0"
        rest = [f"{other % (1024 + n)}        0 0 3 0000000000000000\n" for n in range(30_000)]
        table = tmp_path / "tcp"
        table.write_text("".join([lines[0], own, *rest]))
        monkeypatch.setattr(port_owner, "TABLES", (table,))
        before = time.thread_time()
        for _ in range(10):
            assert listening_process(port) == os.getpid()
        assert time.thread_time() - before < 1.0
