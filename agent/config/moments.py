"""Moments as people write them: `2026-11-21T13:00:00Z`, `2026-11-21`, `6h` ago, Unix seconds."""

from datetime import UTC, datetime, tzinfo

from agent.config.durations import seconds

MISTAKE = "no moment; write 2026-11-21T13:00:00Z, 2026-11-21, 6h (ago) or seconds since 1970"
LEAST_UNIX = 1e6  # what is less and a bare number is no Unix time, but somebody's slip


def moment(text: str, now: float, zone: tzinfo | None = UTC) -> float:
    """Unix seconds; raises ValueError with what would be right.

    A date without a zone is in `zone`; None: the one where this machine is.
    """
    try:
        number = float(text)
    except ValueError:
        return _date_or_age(text, now, zone)
    if not LEAST_UNIX <= number <= 1e12:
        raise ValueError(f"{text[:30]!r} is {MISTAKE}")
    return number


def _date_or_age(text: str, now: float, zone: tzinfo | None) -> float:
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        pass
    try:
        return now - seconds(text)
    except ValueError:
        raise ValueError(f"{text[:30]!r} is {MISTAKE}") from None
