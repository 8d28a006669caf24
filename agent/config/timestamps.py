"""Moments as people write them: `2026-11-21T13:00`, `2026-11-21`, `6h` ago, Unix seconds.

A date without a zone is in that of this machine, as with journalctl and mysqlbinlog.
"""

import math
from contextlib import suppress
from datetime import UTC, datetime

from agent.config.durations import seconds

MISTAKE = "not a time; write 2026-11-21T13:00 (local), …T13:00Z, 6h (ago) or seconds since 1970"
MIN_UNIX = 1e6  # what is less and a bare number is no Unix time, but somebody's slip


UNIX = range(100_000_000, 253_402_300_800)
"""Numbers that count as seconds since 1970, up to the year 9999, and shown as dates."""


def time_text(at: float) -> str:
    """A date in UTC, or the seconds of a recording that has no date."""
    if int(at) not in UNIX:
        return f"{at:,.0f} s"
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def zone_here() -> str:
    """The zone of a date that names none, in words: `local, now CET`."""
    return f"local, now {datetime.now().astimezone():%Z}"


def moment(text: str, now: float) -> float:
    """Unix seconds; raises ValueError with what would be right."""
    try:
        number = float(text)
    except ValueError:
        return _date_or_age(text, now)
    if not MIN_UNIX <= number <= 1e12:
        raise ValueError(f"{text[:30]!r} is {MISTAKE}")
    return number


def recorded_moment(text: str) -> float:
    """Seconds of a recording's clock, whatever its zero: those since 1970 where there is a date.

    Raises ValueError with what would be right.
    """
    with suppress(ValueError):
        number = float(text)
        if math.isfinite(number):
            return number
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(text).timestamp()
    with suppress(ValueError):
        return seconds(text)
    right = "write seconds or 6h from its zero on, or a date"
    raise ValueError(f"{text[:30]!r} is not a time in the recording; {right}")


def _date_or_age(text: str, now: float) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        pass
    try:
        return now - seconds(text)
    except ValueError:
        raise ValueError(f"{text[:30]!r} is {MISTAKE}") from None
