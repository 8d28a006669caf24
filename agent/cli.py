"""The command `mysql-headroom` and its sub-commands."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import NoReturn

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported; the fits are small

from agent import __version__
from agent.commands.exit_codes import INTERRUPTED, USAGE_ERROR
from agent.commands.interruption import end_at_once
from agent.support.errors import HeadroomError
from agent.support.safe_output import OutputError, flush_output, print_error, printable

COMMANDS = (
    "run",
    "check",
    "fit",
    "attribute",
    "profile",
    "history",
    "replay",
    "compare",
    "mark",
    "analyze",
    "backfill",
    "what-if",
    "files",
    "demo",
)
DESCRIPTION = (
    "How far a MySQL server is from its limit, what sets that limit, and which queries use it up."
)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, like those of the commands, without the whole usage."""

    def error(self, message: str) -> NoReturn:
        """End with the exit code of a usage error."""
        problem = printable(message.removeprefix("argument "))
        self.exit(USAGE_ERROR, f"{self.prog}: {problem}; see `{self.prog} --help`\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return the exit code."""
    if os.getpid() == 1:  # of a container: the kernel ignores SIGTERM unless there is a handler
        signal.signal(signal.SIGTERM, end_at_once)
    if sys.__stdout__ is None:  # closed by the caller (`>&-`): writing fails as on a full disk
        unwritable = os.fdopen(os.open(os.devnull, os.O_RDONLY), "wb", buffering=0)
        sys.stdout = TextIOWrapper(unwritable, write_through=True)
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal in Latin-1 has no σ
        sys.stdout.reconfigure(errors="backslashreplace")
    parser = Parser(prog="mysql-headroom", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"mysql-headroom {__version__}")
    subparsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    arguments = sys.argv[1:] if argv is None else argv
    try:
        for command in _commands_to_load(arguments):
            import_module(f"agent.commands.{command.replace('-', '_')}").add_parser(subparsers)
        args = parser.parse_args(arguments)
        code = args.run(args)
        flush_output()
    except (OutputError, BrokenPipeError) as error:
        return _end_without_output(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except HeadroomError as error:
        for problem in error.problems:
            print_error(problem)
        return error.exit_code
    return int(code)


def _end_without_output(error: OutputError | BrokenPipeError) -> int:
    """Return 0 if the reader has closed the output, else 1, with one line on standard error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError) or error.is_closed:
        return 0
    print_error(error)
    return error.exit_code


def _commands_to_load(arguments: Sequence[str]) -> Sequence[str]:
    """Return the command that is given first, to import only its module; else all, for the help."""
    return [command for command in COMMANDS if command in arguments[:1]] or COMMANDS


if __name__ == "__main__":
    sys.exit(main())
