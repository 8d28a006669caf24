"""Exit codes of the commands; 0 is success."""

FAILED = 1
"""The command could not do its work: a server, an agent or a file failed."""
USAGE_ERROR = 2
"""An option or an input file is wrong."""
INTERRUPTED, TERMINATED = 130, 143
"""128 + SIGINT or SIGTERM, as shells report them."""
