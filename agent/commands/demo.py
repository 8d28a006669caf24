"""`mysql-headroom demo`: a private server under a generated load, and the agent's results."""

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from agent.commands.argument_types import listen_address
from agent.config.durations import duration_in_seconds

DESCRIPTION = """\
Start a private MySQL or MariaDB server in a temporary folder, put a load on it that rises and
falls, and run the real agent on it: the page, /metrics and a summary here. An installed server's
program is used, otherwise one is installed from the distribution's packages; no service is started
and no other server is touched. Needs a few hundred MB of disk and memory while it runs."""
EPILOG = """\
Ends after --seconds, or at any moment by Ctrl-C or SIGTERM: exit code 0, and nothing is left.
Exit code 1 if no server can be started or the address is not available."""
END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DemoEnded(BaseException):
    """A signal ends the demo; raised wherever the demo is at that time."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the sub-command."""
    parser = subparsers.add_parser(
        "demo",
        help="watch a private server under a generated load, to see what the agent shows",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument(
        "--seconds", type=_seconds, metavar="DURATION", help="end by itself after that time of load"
    )
    parser.add_argument(
        "--web.listen-address",
        dest="listen",
        type=listen_address,
        metavar="HOST:PORT",
        help="the address of the page (default: 127.0.0.1:10104, or a free port if that is taken)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return 0 after an orderly end, also by a signal; 1 without a server or an address."""
    try:
        with _end_on_signal():
            return _run_demo(args)
    except DemoEnded:
        return 0


def _run_demo(args: argparse.Namespace) -> int:
    from agent.demo.demo_run import Demo
    from agent.demo.page_address import AddressError
    from agent.demo.private_server import ServerError

    try:
        Demo(args.listen, args.seconds).play()
    except BrokenPipeError:
        raise
    except (AddressError, ServerError, OSError) as error:
        print(f"mysql-headroom demo: {error}", file=sys.stderr)
        return 1
    return 0


@contextmanager
def _end_on_signal() -> Iterator[None]:
    """Raise `DemoEnded` at the first signal; ignore others during the clean-up that follows."""
    ended = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ended
        del number, frame
        if not ended:
            ended = True
            raise DemoEnded

    former = {number: signal.signal(number, end) for number in END_SIGNALS}
    try:
        yield
    finally:
        ended = True
        for number, handler in former.items():
            signal.signal(number, handler)


def _seconds(text: str) -> float:
    try:
        value = duration_in_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if value <= 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return value
