"""Progress of a long computation, and its interruption by Ctrl-C at any moment."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from agent.commands.exit_codes import end_at_once
from agent.support.safe_output import printable
from models.attribution.resource_division import Progress

SILENT_SECONDS = 3.0
"""A computation that ends within this time shows no progress."""


@contextmanager
def interruptible() -> Iterator[None]:
    """End the process at once at Ctrl-C, even during one long call of linear algebra.

    Python handles a signal only between two of its own instructions. For commands that only read.
    The first process of a container has a handler nevertheless: the kernel ignores others' default.
    """
    is_first = os.getpid() == 1
    former = signal.signal(signal.SIGINT, end_at_once if is_first else signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def progress_of(activity: str) -> Progress:
    """Return a function that prints the steps done, on a terminal and once it takes long."""
    start, is_terminal = time.monotonic(), sys.stderr.isatty()

    def show(done: int, steps: int) -> None:
        if is_terminal and time.monotonic() - start >= SILENT_SECONDS and done < steps:
            sys.stderr.write(printable(f"{activity}: {done} of {steps} steps done …") + "\n")
            sys.stderr.flush()

    return show
