"""The server's clock, read along with a statement that is sent anyway.

The server takes its time when it begins the statement, so somewhere within the round trip.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

from collectors.base import CollectorError, FailureKind, Values
from collectors.bounded_results import Cell, text

CLOCK = "UTC_TIMESTAMP(6)"
"""The expression: the time at which the statement began, the same in any time zone."""
OFFSET, ROUND_TRIP = "clock_offset_seconds", "clock_round_trip_seconds"
ANSWERED = "clock_answered_seconds"
"""When the answer had arrived, monotonic seconds."""
Answer = TypeVar("Answer")
MAX_LENGTH = len("2026-11-23 14:51:24.123456")


def with_clock(
    ask: Callable[[], Answer], clock_of: Callable[[Answer], Cell]
) -> tuple[Answer, Values]:
    """Ask a statement that has `CLOCK` in its answer; return that, and what `clock_of` reads of it.

    The offset is the server's clock less ours at the middle of the round trip, in seconds. A time
    that cannot be read is left out: the counts beside it are as good as without.
    """
    began, unix = time.monotonic(), time.time()
    answer = ask()
    took = time.monotonic() - began
    values: Values = {}
    with suppress(CollectorError):
        offset = unix_seconds(clock_of(answer)) - (unix + took / 2)
        values = {OFFSET: offset, ROUND_TRIP: took, ANSWERED: began + took}
    return answer, values


def unix_seconds(cell: Cell) -> float:
    """A server's UTC time as Unix seconds; raises `CollectorError` where it is none."""
    said = text(cell, MAX_LENGTH)
    try:
        return datetime.fromisoformat(said).replace(tzinfo=UTC).timestamp()
    except ValueError as error:
        message = f"the server's time is not usable: {said!a}"
        raise CollectorError(FailureKind.UNREADABLE, message) from error
