"""Which process on this machine listens on a TCP port.

By /proc itself: psutil reads every connection there is, and every open file. With the thousands of
closed connections of a busy server, or of a crowd of web clients, that held up all threads.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
MAX_TABLE_BYTES = 2**18  # bytes, 1,700 lines: the sockets that listen come first
LISTENING = rb"(?m)^ *\d+: [0-9A-F]+:%04X [0-9A-F]+:0000 0A \S+ \S+ +\S+ +\d+ +\d+ +(\d+) "


def listening_process(port: int) -> int | None:
    """Return its ID; None where nothing listens, or whose open files we may not see."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    if not sockets:
        return None
    return next((pid for pid in psutil.pids() if _holds(pid, sockets)), None)


def _inodes(port: int) -> Iterator[int]:
    """Those of the sockets that listen there."""
    line = re.compile(LISTENING % port)
    for table in TABLES:
        with suppress(OSError), table.open("rb") as file:
            yield from map(int, line.findall(file.read(MAX_TABLE_BYTES)))


def _holds(pid: int, sockets: set[str]) -> bool:
    """Whether the process has one of these open."""
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):  # it has ended, or it is another user's
        for name in os.listdir(folder):  # noqa: PTH208  (Path objects cost more than the look)
            with suppress(OSError):
                if os.readlink(f"{folder}/{name}") in sockets:  # noqa: PTH115
                    return True
    return False
