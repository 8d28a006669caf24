"""Durations as text: `500ms`, `15s`, `6h`, `1h30m`, `4w`, or a number of seconds."""

import math
import re

from agent.config.base_model import Checked

UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)
PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
MAX_LENGTH = 64  # characters; longer texts are refused at once
MISTAKE = "not a duration; write 500ms, 15s, 10m, 6h, 1d, 1w or a number of seconds"


def duration_in_seconds(value: object) -> float:
    """Return the seconds of a duration; raises ValueError with the valid forms."""
    try:
        found = _number(value) if not isinstance(value, str) else _sum_parts(value.strip())
    except OverflowError:
        raise ValueError(MISTAKE) from None
    if not math.isfinite(found):
        raise ValueError(MISTAKE)
    return found


def _number(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise ValueError(MISTAKE)


def _sum_parts(text: str) -> float:
    """Return the sum of the parts of a duration such as `1h30m`, or a bare number of seconds."""
    if len(text) <= MAX_LENGTH and NUMBER.fullmatch(text):
        return float(text)
    parts = PART.findall(text) if len(text) <= MAX_LENGTH else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(MISTAKE)
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def within_bounds(least: float, most: float) -> Checked:
    """Return a check of durations against bounds in seconds, which it names with units."""

    def check(duration: float) -> float:
        if not least <= duration <= most:
            raise ValueError(f"must be from {duration_text(least)} to {duration_text(most)}")
        return duration

    return Checked(check)


def duration_text(duration: float) -> str:
    """Format a duration as in a file, in the largest unit of which it is a whole number."""
    for unit in ("d", "h", "m", "s"):
        if duration and duration % UNITS[unit] == 0:
            return f"{duration / UNITS[unit]:.0f}{unit}"
    return f"{duration / UNITS['ms']:g}ms" if duration else "0s"


def format_duration(duration: float) -> str:
    """Format a duration for people: `45 s`, `12 min`, `3.5 h`, `2.5 days`."""
    if duration < 120:
        return f"{duration:.0f} s"
    if duration < 7200:
        return f"{duration / 60:.0f} min"
    if duration < 2 * UNITS["d"]:
        return f"{duration / 3600:.1f} h"
    return f"{duration / UNITS['d']:.1f} days"
