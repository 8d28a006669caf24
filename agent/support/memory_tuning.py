"""What is no longer needed: the interpreter's spare objects, its rubbish, the heap's free pages."""

import ctypes
import gc
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache

M_ARENA_MAX, M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -8, -1, -3
"""mallopt(3): how many heaps the threads of a process may have, how much that is free at the end of
one stays there, and from which size on memory is mapped for itself."""
FREE_BYTES, MAPPED_BYTES = 4 << 20, 1 << 20
"""Above what an assessment has allocated at one time, and above the size of its largest array."""
TRIM_SECONDS, COLLECT_SECONDS = 10.0, 60.0  # seconds at least
MAX_SHARE = 0.001  # of all time that either may take


def share_one_heap() -> None:
    """Keep glibc from giving each worker a heap, which would keep what the worker once needed.

    To be called before there are threads. Another C library is left as it is.
    """
    with suppress(OSError, AttributeError):
        _library().mallopt(M_ARENA_MAX, 1)


def keep_freed_memory() -> None:
    """Keep glibc from returning what is freed at once, to ask for it again with the next array.

    An assessment took 2,600 page faults, a third of its time. `give_back` returns it all the same.
    """
    with suppress(OSError, AttributeError):
        _library().mallopt(M_TRIM_THRESHOLD, FREE_BYTES)
        _library().mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)


def set_aside() -> None:
    """Have no collection look again at what there is: what was imported stays to the end.

    Of the 34 ms that looking at all took once a minute, one remains.
    """
    gc.collect()
    gc.freeze()


def collect(now: float) -> float:
    """Have the interpreter free its spare objects, and rubbish however old; a worker's tick.

    It keeps tuples for the next ones, up to 2,000 of each length to 20, 5 MiB in all, and lets go
    of them in a full collection alone. Of itself it makes one when a quarter as much has grown old
    as was there: in twenty minutes with two targets it made none.
    """
    return now + max(COLLECT_SECONDS, _seconds(gc.collect) / MAX_SHARE)


def give_back(now: float) -> float:
    """Return the heap's free pages, by malloc_trim(3); a worker's tick.

    Of itself glibc returns those at the heap's end alone: what lives long between what does not
    keeps all below it. It takes half a millisecond with one target, up to fifty with two hundred.
    """
    return now + max(TRIM_SECONDS, _seconds(_trim) / MAX_SHARE)


def _trim() -> None:
    with suppress(OSError, AttributeError):
        _library().malloc_trim(0)


@cache
def _library() -> ctypes.CDLL:
    """The C library, once: each handle makes types that refer to themselves."""
    return ctypes.CDLL(None)


def _seconds(act: Callable[[], object]) -> float:
    """How long it takes."""
    begun = time.monotonic()
    act()
    return time.monotonic() - begun
