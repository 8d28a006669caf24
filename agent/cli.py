"""The command `mysql-headroom` and its sub-commands."""

import argparse
import os
import sys
from collections.abc import Sequence

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: the fits are small

from agent import __version__
from agent.commands import attribute, check, demo, fit, history, profile, run

INTERRUPTED = 130  # as shells have it: 128 and SIGINT
DESCRIPTION = (
    "How far a MySQL server is from its limit, what that limit is made of,"
    " and which queries use it up."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command; answers the exit code."""
    parser = argparse.ArgumentParser(prog="mysql-headroom", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"mysql-headroom {__version__}")
    subparsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (run, check, fit, attribute, profile, history, demo):
        command.add_parser(subparsers)
    args = parser.parse_args(argv)
    try:
        code = args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
