"""Finds the process on this machine that listens on a TCP port.

It reads /proc directly: psutil reads every connection and every open file, which delayed all
threads where a busy server, or many web clients, had left thousands of closed connections.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
MAX_TABLE_BYTES = 2**18  # bytes, 1,700 lines: listening sockets come first
LISTENING_SOCKET = rb"(?m)^ *\d+: [0-9A-F]+:%04X [0-9A-F]+:0000 0A \S+ \S+ +\S+ +\d+ +\d+ +(\d+) "


def listening_process(port: int) -> int | None:
    """Return its ID; None where nothing listens, or where its open files may not be read."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not sockets:
        return None
    return next((pid for pid in psutil.pids() if _has_open(pid, sockets)), None)


def _listening_inodes(port: int) -> Iterator[int]:
    """Yield the inodes of the sockets that listen on the port."""
    line = re.compile(LISTENING_SOCKET % port)
    for table in TABLES:
        with suppress(OSError), table.open("rb") as file:
            yield from map(int, line.findall(file.read(MAX_TABLE_BYTES)))


def _has_open(pid: int, sockets: set[str]) -> bool:
    """Return whether the process has one of these sockets open."""
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):  # it has ended, or it is another user's
        for name in os.listdir(folder):  # noqa: PTH208  (Path objects cost more than the listing)
            with suppress(OSError):
                if os.readlink(f"{folder}/{name}") in sockets:  # noqa: PTH115
                    return True
    return False
