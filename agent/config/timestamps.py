"""Times as users write them: `2026-11-21T13:00`, `2026-11-21`, `6h` ago, Unix seconds.

A date without a time zone is in that of this machine, as with journalctl and mysqlbinlog.
"""

import math
from contextlib import suppress
from datetime import UTC, datetime

from agent.config.durations import duration_in_seconds

MISTAKE = "not a time; write 2026-11-21T13:00 (local), …T13:00Z, 6h (ago) or seconds since 1970"
DATED_SECONDS = range(100_000_000, 253_402_300_800)
"""Numbers that count as seconds since 1970, from 1973 to the year 9999, and are shown as dates."""


def time_text(at: float) -> str:
    """Format a time as a date in UTC, or as seconds for a recording without dates."""
    if int(at) not in DATED_SECONDS:
        return f"{at:,.0f} s"
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def local_zone_text() -> str:
    """Describe the time zone of dates: `local time, now CET, unless it ends in Z or +02:00`."""
    return f"local time, now {datetime.now().astimezone():%Z}, unless it ends in Z or +02:00"


def parse_time(text: str, now: float) -> float:
    """Parse a time to Unix seconds; raises ValueError with the valid forms.

    A number of eight digits is a date: 20261121.
    """
    number = _number(text)
    if number is not None and DATED_SECONDS.start <= number < DATED_SECONDS.stop:
        return number
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(text).timestamp()
    with suppress(ValueError):
        if number is None:
            return now - duration_in_seconds(text)
    raise ValueError(f"{text[:30]!r} is {MISTAKE}")


def parse_recording_time(text: str) -> float:
    """Parse a time of a recording to seconds of its clock, since 1970 for a date.

    The zero of the clock may be any. Raises ValueError with the valid forms.
    """
    number = _number(text)
    if number is not None and math.isfinite(number):
        return number
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(text).timestamp()
    with suppress(ValueError):
        return duration_in_seconds(text)
    remedy = "write seconds or a duration such as 6h from its zero, or a date"
    raise ValueError(f"{text[:30]!r} is not a time in the recording; {remedy}")


def _number(text: str) -> float | None:
    """Return the number that a text is, None if it is none."""
    try:
        return float(text)
    except ValueError:
        return None
