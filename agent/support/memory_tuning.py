"""Return unused memory to the system: free lists, cyclic garbage, free heap pages."""

import ctypes
import gc
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache

M_ARENA_MAX, M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -8, -1, -3
"""Parameters of mallopt(3): how many heaps a process's threads may have, how much free memory stays
at the end of a heap, and the size from which an allocation is mapped separately."""
FREE_BYTES, MAPPED_BYTES = 4 << 20, 1 << 20
"""More than an assessment has allocated at one time, and more than its largest array takes."""
TRIM_SECONDS, COLLECT_SECONDS = 10.0, 60.0  # minimum seconds between two calls
MAX_SHARE = 0.001  # share of the time that either may take


def use_one_heap() -> None:
    """Keep glibc from giving each worker a heap, which would keep what the worker once needed.

    To be called before any thread is started. Another C library is left unchanged.
    """
    with suppress(OSError, AttributeError):
        _c_library().mallopt(M_ARENA_MAX, 1)


def keep_freed_memory() -> None:
    """Keep glibc from returning freed memory at once, only to request it for the next array.

    That cost an assessment 2,600 page faults, a third of its time. `trim_heap` still returns it.
    """
    with suppress(OSError, AttributeError):
        _c_library().mallopt(M_TRIM_THRESHOLD, FREE_BYTES)
        _c_library().mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)


def freeze_imported_objects() -> None:
    """Exclude everything imported so far from garbage collection.

    It shortens a full collection, once a minute, from 34 ms to 1 ms.
    """
    gc.collect()
    gc.freeze()


def collect_garbage(now: float) -> float:
    """Run a full garbage collection, which also empties the free lists; a worker's tick.

    The interpreter keeps freed tuples for reuse, up to 2,000 of each length up to 20, 5 MiB in all,
    and frees them only in a full collection. By itself it runs one only when the long-lived objects
    have increased by a quarter: in twenty minutes with two targets it ran none.
    """
    return now + max(COLLECT_SECONDS, _time_call(gc.collect) / MAX_SHARE)


def trim_heap(now: float) -> float:
    """Return the heap's free pages to the system, by malloc_trim(3); a worker's tick.

    By itself glibc returns only those at the heap's end, so that one long-lived block keeps all
    below it. A call takes half a millisecond with one target, up to fifty with two hundred.
    """
    return now + max(TRIM_SECONDS, _time_call(_trim_heap) / MAX_SHARE)


def _trim_heap() -> None:
    with suppress(OSError, AttributeError):
        _c_library().malloc_trim(0)


@cache
def _c_library() -> ctypes.CDLL:
    """Load the C library, once: each handle creates types that refer to themselves."""
    return ctypes.CDLL(None)


def _time_call(function: Callable[[], object]) -> float:
    """Call the function and return how long it takes."""
    begun = time.monotonic()
    function()
    return time.monotonic() - begun
