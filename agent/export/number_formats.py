"""Numbers as people read them: with three digits, units, and a dash for one that is not known."""

from models.numerics import NEGLIGIBLE

DASH = "–"
"""Shown for a value that is not known."""
MIN_SHOWN_SHARE = 0.005
"""Smaller shares are left out: as whole percentages they are 0 %."""
TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def format_threads(value: float | None) -> str:
    """Format a concurrency with three digits, as an integer from 100 on."""
    if value is None:
        return DASH
    return f"{value:,.0f} threads" if value >= 100 else f"{value:.3g} threads"


def format_seconds(seconds: float) -> str:
    """Format a short time in s, ms, µs or ns."""
    factor, unit = next(((f, u) for f, u in TIME_UNITS if seconds >= f), TIME_UNITS[-1])
    return f"{format_number(seconds / factor)} {unit}" if seconds else "0 s"


def format_number(value: float | None, digits: int = 3) -> str:
    """Format a number: with these digits, from 100 on an integer with separators; a dash for None.

    Rounding noise of 0 is 0.
    """
    if value is None:
        return DASH
    if 100 <= abs(value) < 1e12:
        return f"{value:,.0f}"
    return f"{without_noise(value):.{digits}g}"


def without_noise(value: float) -> float:
    """Return the value, or 0 where it is too small to be anything but rounding."""
    return 0.0 if abs(value) < NEGLIGIBLE else value


def format_bounds(lower: float | None, upper: float | None) -> str:
    """Format the bounds of an estimate: without an upper one the lower or more, else a dash."""
    if lower is None:
        return DASH
    rest = "or more" if upper is None else f"to {format_number(upper)}"
    return f"{format_number(lower)} {rest}"


def whole_percent(share: float) -> str:
    """Format a share as a whole percentage; one that rounds to 0 has no sign."""
    return f"{100 * share:z.0f} %"


def format_percent(share: float) -> str:
    """Format a share as a percentage."""
    value = 100 * share
    return f"{value:z.1f} %" if value < 99.95 else f"{value:.0f} %"


def format_aligned(value: float) -> str:
    """Format a number, right-aligned."""
    return f"{format_short(value):>9}"


def format_short(value: float) -> str:
    """Format a number with three digits, and k, M, G or T from 10,000 on."""
    size = abs(value)
    if not 1000 <= size < 1e4:
        size = float(f"{size:.3g}")
    for unit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= unit:
            return f"{value / (unit if letter != 'k' else 1e3):#.3g}".rstrip(".") + letter
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".") if value else "0"
