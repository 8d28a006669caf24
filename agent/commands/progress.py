"""Progress of a long computation, and its interruption by Ctrl-C at any moment."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from agent.support.safe_output import printable
from models.attribution.resource_division import Progress

SILENT_SECONDS = 3.0
"""A computation that ends within this time shows no progress."""


@contextmanager
def interruptible() -> Iterator[None]:
    """End the process at once at Ctrl-C, also in the midst of one long call of linear algebra.

    Python itself sees a signal only between two of its own steps. For commands that only read.
    """
    former = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def progress_of(doing: str) -> Progress:
    """Say on a terminal how many steps are done, once the whole takes long."""
    start, watched = time.monotonic(), sys.stderr.isatty()

    def show(done: int, steps: int) -> None:
        if watched and time.monotonic() - start >= SILENT_SECONDS and done < steps:
            sys.stderr.write(printable(f"{doing}: {done} of {steps} steps done …") + "\n")
            sys.stderr.flush()

    return show
