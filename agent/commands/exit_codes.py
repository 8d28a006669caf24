"""Exit codes of the commands; 0 is success."""

from signal import SIGINT, SIGTERM

FAILED = 1
"""The command could not do its work: a server, an agent or a file failed."""
USAGE_ERROR = 2
"""An option or an input file is wrong."""
SIGNALLED = 128
"""Added to the number of the signal that ended the command, as shells report it."""
INTERRUPTED, TERMINATED = SIGNALLED + SIGINT, SIGNALLED + SIGTERM
