"""The end of a command by a signal, at any moment."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from agent.commands.exit_codes import SIGNALLED


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


def end_at_once(signal_number: int, frame: FrameType | None) -> NoReturn:
    """End the process, as a signal does by default.

    As a handler for a container's first process, where the kernel ignores a signal's default.
    """
    del frame
    os._exit(SIGNALLED + signal_number)
