"""The agent's memory as the C library manages it."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="malloc_trim(3) is glibc's")

THREADS = 6
PROGRAM = f"""
import ctypes, threading
from agent.support.memory_tuning import use_one_heap
use_one_heap() if {{shared}} else None
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

SIZE, COUNT = 10_000, 4000
FREED = f"""
import ctypes
from agent.support.memory_tuning import TRIM_SECONDS, trim_heap
def resident():
    words = open("/proc/self/smaps_rollup").read().split()
    return 1024 * int(words[words.index("Rss:") + 1])
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
places = [library.malloc({SIZE}) for _ in range({COUNT})]
for place in places: ctypes.memset(place, 1, {SIZE})
for place in places[:-1]: library.free(ctypes.c_void_p(place))
before = resident()
assert trim_heap(7.0) >= 7.0 + TRIM_SECONDS
print(before - resident())
"""

RUBBISH = """
import gc, sys, weakref
from agent.support.memory_tuning import COLLECT_SECONDS, collect_garbage, trim_heap
class Ring: pass
def ring():
    made = Ring()
    made.itself = made
    return weakref.ref(made)
trim_heap(0.0)
gc.collect()
gc.disable()
trim_heap(10.0)
print("of giving back", gc.collect())
old = ring()
spare = [tuple(range(n, n + 15)) for n in range(2000)]
spare = None
before = sys.getallocatedblocks()
assert collect_garbage(7.0) >= 7.0 + COLLECT_SECONDS
print("left", old())
print("spare", (before - sys.getallocatedblocks()) // 1900)
"""


def test_garbage_and_free_lists_are_released() -> None:
    """The interpreter keeps 2,000 tuples of a length until a full collection."""
    command = [sys.executable, "-c", RUBBISH]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["of giving back 0", "left None", "spare 1"]


ASIDE = """
import gc, weakref
import agent.service.daemon
from agent.support.memory_tuning import freeze_imported_objects
class Ring: pass
before = len(gc.get_objects())
freeze_imported_objects()
made = Ring()
made.itself = made
left, made = weakref.ref(made), None
print(len(gc.get_objects()) < before / 10, gc.collect() > 0, left())
"""


def test_imported_objects_are_excluded_from_collections() -> None:
    """Most of the objects of a collection are there before the agent begins."""
    command = [sys.executable, "-c", ASIDE]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.split() == ["True", "True", "None"]


def test_free_pages_are_returned_to_the_system() -> None:
    """Also where memory in use lies above them."""
    command = [sys.executable, "-c", FREED]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(told) > 0.9 * SIZE * COUNT


FAULTS = """
import resource, sys
import numpy as np
from agent.support.memory_tuning import keep_freed_memory
keep_freed_memory() if len(sys.argv) > 1 else None
def arrays():
    return [np.ones(60_000) for _ in range(6)]
arrays()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20): arrays()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_freed_arrays_pages_are_reused() -> None:
    """Half a megabyte: glibc would return it, and take it again page by page."""
    command = [sys.executable, "-c", FAULTS]
    kept, returned = (
        int(subprocess.run([*command, *words], capture_output=True, text=True, check=True).stdout)
        for words in (["kept"], [])
    )
    assert kept < 20 < 2000 < returned


@pytest.mark.parametrize("shared", [False, True])
def test_threads_use_one_heap(shared: bool) -> None:
    """The C library would give each thread its own."""
    command = [sys.executable, "-c", PROGRAM.format(shared=shared)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    heaps = told.count("<heap nr=")
    assert heaps == 1 if shared else heaps > 1
