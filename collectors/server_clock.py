"""The server's clock, read along with a statement that is sent anyway.

The server reads its clock when it begins the statement, so at some time within the round trip.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

from collectors.base import CollectorError, FailureKind, Values
from collectors.result_cells import ResultCell, text

CLOCK = "UTC_TIMESTAMP(6)"
"""SQL expression of the time at which the statement began, independent of the time zone."""
SERVER_TIME = "clock_server_seconds"
"""The server's time, Unix seconds."""
OFFSET, ROUND_TRIP = "clock_offset_seconds", "clock_round_trip_seconds"
ANSWERED = "clock_answered_seconds"
"""When the result had arrived, monotonic seconds."""
QueryResult = TypeVar("QueryResult")
MAX_LENGTH = len("2026-11-23 14:51:24.123456")


def with_clock(
    ask: Callable[[], QueryResult], clock_of: Callable[[QueryResult], ResultCell]
) -> tuple[QueryResult, Values]:
    """Call `ask`, a query that selects `CLOCK`; return its result and the clock's values.

    `clock_of` returns the cell with the clock from the result.
    The offset is the server's clock minus the agent's at the middle of the round trip, in seconds.
    An unusable time is left out: the rest of the result is valid without it.
    """
    began, unix = time.monotonic(), time.time()
    answer = ask()
    took = time.monotonic() - began
    values: Values = {}
    with suppress(CollectorError):
        server = unix_seconds(clock_of(answer))
        offset = server - (unix + took / 2)
        values = {SERVER_TIME: server, OFFSET: offset, ROUND_TRIP: took, ANSWERED: began + took}
    return answer, values


def unix_seconds(cell: ResultCell) -> float:
    """Convert a server's UTC time to Unix seconds; raises `CollectorError` where it is none."""
    stamp = text(cell, MAX_LENGTH)
    try:
        return datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp()
    except ValueError as error:
        message = f"the server's time is not usable: {stamp!a}"
        raise CollectorError(FailureKind.UNREADABLE, message) from error
