"""Exit codes of the commands; 0 is success."""

import os
from signal import SIGINT, SIGTERM
from types import FrameType
from typing import NoReturn

FAILED = 1
"""The command could not do its work: a server, an agent or a file failed."""
USAGE_ERROR = 2
"""An option or an input file is wrong."""
SIGNALLED = 128
"""Added to the number of the signal that ended the command, as shells report it."""
INTERRUPTED, TERMINATED = SIGNALLED + SIGINT, SIGNALLED + SIGTERM


def end_at_once(signal_number: int, frame: FrameType | None) -> NoReturn:
    """End the process, as a signal does by default.

    As a handler for a container's first process, where the kernel ignores a signal's default.
    """
    del frame
    os._exit(SIGNALLED + signal_number)
