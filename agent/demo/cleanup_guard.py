"""A helper process that cleans up when its parent ends, however that ends.

A server must not survive the program that started it, whether that ends by an exception, a signal
or SIGKILL. A death signal (PR_SET_PDEATHSIG) is tied to the thread that forked and cannot remove
files, so a small process waits instead for the end of a pipe whose other end only its parent holds.
Then it kills every process whose data directory is in the folder, and removes the folder.
"""

import subprocess
import sys
from pathlib import Path

CLEAN_UP = r"""
import os, select, shutil, signal, sys

folder = sys.argv[1]
option = os.fsencode(f"--datadir={folder}/")

def servers():
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and is_server(name)]

def is_server(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as arguments:
            return option in arguments.read()
    except OSError:
        return False

def end(pid):  # and wait until its last thread is gone, and its port with it
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    if is_server(pid):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        select.select([handle], [], [], 10)
    os.close(handle)

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
sys.stdin.buffer.read()
for attempt in range(10):  # one that just starts another may need a second
    for pid in servers():
        end(pid)
    if not servers():
        break
shutil.rmtree(folder, ignore_errors=True)
"""


class Guard:
    """Cleans up one folder and its servers, on `release` or when this process ends."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - no outside input
            [sys.executable, "-I", "-S", "-c", CLEAN_UP, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C at the terminal does not reach it
            cwd="/",
        )

    def release(self) -> None:
        """Clean up now, and wait until that is done."""
        assert self._process.stdin is not None  # noqa: S101 - opened as a pipe
        self._process.stdin.close()
        self._process.wait()
