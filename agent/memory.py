"""What is no longer needed: rubbish is looked for, and what is free of the heap goes back."""

import ctypes
import gc
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache

M_ARENA_MAX = -8
"""mallopt(3): how many heaps the threads of a process may have."""
GIVE_BACK_EVERY, COLLECT_EVERY = 10.0, 60.0  # seconds at least
MOST_SHARE = 0.001  # of all time that either may take


def share_one_heap() -> None:
    """Keep glibc from giving each lane a heap, which would keep what the lane once needed.

    To be called before there are threads. Another C library is left as it is.
    """
    with suppress(OSError, AttributeError):
        _library().mallopt(M_ARENA_MAX, 1)


def collect(now: float) -> float:
    """Find what only refers to itself and free it; a lane's tick.

    Of itself the interpreter looks at what is old only when a quarter as much has come to it, which
    takes hours here: till then each failure's traceback would keep its frames and all they hold.
    """
    return now + max(COLLECT_EVERY, _seconds(gc.collect) / MOST_SHARE)


def give_back(now: float) -> float:
    """Return the heap's free pages, by malloc_trim(3); a lane's tick.

    Of itself glibc returns those at the heap's end alone: what lives long between what does not
    keeps all below it. It takes half a millisecond with one target, up to fifty with two hundred.
    """
    return now + max(GIVE_BACK_EVERY, _seconds(_trim) / MOST_SHARE)


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
