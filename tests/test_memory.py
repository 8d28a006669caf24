"""The agent's memory as the C library manages it."""

import subprocess
import sys

import pytest

THREADS = 6
PROGRAM = f"""
import ctypes, threading
from agent.memory import share_one_heap
share_one_heap() if {{shared}} else None
library = ctypes.CDLL(None)
library.fopen.restype = ctypes.c_void_p
together = threading.Barrier({THREADS})
def allocate():
    together.wait()
    library.malloc(5000)
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range({THREADS})]
for thread in threads: thread.start()
for thread in threads: thread.join()
file = ctypes.c_void_p(library.fopen(b"/dev/stdout", b"w"))
library.malloc_info(0, file)
library.fclose(file)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="malloc_info(3) is glibc's")
@pytest.mark.parametrize("shared", [False, True])
def test_threads_share_one_heap(shared: bool) -> None:
    """Where the C library would give each thread its own."""
    command = [sys.executable, "-c", PROGRAM.format(shared=shared)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (told.count("<heap nr=") == 1) is shared
