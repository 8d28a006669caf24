"""Types of arguments that argparse checks: durations, times and addresses."""

import argparse
import time
from collections.abc import Callable

from agent.config.durations import duration_in_seconds, duration_text
from agent.config.timestamps import parse_time

MAX_SECONDS = 366 * 86400.0


def duration(least: float, most: float = MAX_SECONDS) -> Callable[[str], float]:
    """Return the argparse type of a duration between these bounds, all in seconds."""

    def parse(text: str) -> float:
        try:
            found = duration_in_seconds(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if not least <= found <= most:
            raise argparse.ArgumentTypeError(
                f"must be from {duration_text(least)} to {duration_text(most)}"
            )
        return found

    return parse


def timestamp(text: str) -> float:
    """Parse a time to Unix seconds, as an argparse type."""
    try:
        return parse_time(text, time.time())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def listen_address(text: str) -> str:
    """Return a valid HOST:PORT as it is written, as an argparse type."""
    from agent.config.base_model import validated
    from agent.config.settings import MAX_PORT, ListenAddress

    try:
        return str(validated(text, ListenAddress))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not HOST:PORT with a port of {MAX_PORT} at most"
        ) from None
