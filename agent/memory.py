"""The C library's heap: one for all threads, and what is free of it goes back to the system."""

import ctypes
import time
from contextlib import suppress

M_ARENA_MAX = -8
"""mallopt(3): how many heaps the threads of a process may have."""
GIVE_BACK_EVERY = 10.0  # seconds at least
MOST_SHARE = 0.001  # of all time that giving back may take


def share_one_heap() -> None:
    """Keep glibc from giving each lane a heap, which would keep what the lane once needed.

    To be called before there are threads. Another C library is left as it is.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def give_back(now: float) -> float:
    """Return the heap's free pages, by malloc_trim(3); a lane's tick.

    Of itself glibc returns those at the heap's end alone: what lives long between what does not
    keeps all below it. It takes half a millisecond with one target, up to fifty with two hundred.
    """
    begun = time.monotonic()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    elapsed = time.monotonic() - begun
    return now + max(GIVE_BACK_EVERY, elapsed / MOST_SHARE)
