"""Progress of a long computation, on a terminal."""

import sys
import time

from agent.support.safe_output import printable
from models.attribution.resource_division import Progress

SILENT_SECONDS = 3.0
"""A computation that ends within this time shows no progress."""


def progress_of(activity: str) -> Progress:
    """Return a function that prints the steps done, on a terminal and once it takes long."""
    start, is_terminal = time.monotonic(), sys.stderr.isatty()

    def show(done: int, steps: int) -> None:
        if is_terminal and time.monotonic() - start >= SILENT_SECONDS and done < steps:
            sys.stderr.write(printable(f"{activity}: {done} of {steps} steps done …") + "\n")
            sys.stderr.flush()

    return show
