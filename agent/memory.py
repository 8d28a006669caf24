"""One heap for all threads."""

import ctypes
from contextlib import suppress

M_ARENA_MAX = -8
"""mallopt(3): how many heaps the threads of a process may have."""


def share_one_heap() -> None:
    """Keep glibc from giving each lane a heap, which would keep what the lane once needed.

    To be called before there are threads. Another C library is left as it is.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
