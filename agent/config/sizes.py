"""Sizes as text: `512MiB`, `2GiB`, or a number of bytes."""

import re

UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,12})?) ?(KiB|MiB|GiB|TiB)")


def size_in_bytes(value: object) -> int:
    """Return the bytes of a size; raises ValueError with the valid forms."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if not found:
        raise ValueError("not a size; write 64MiB, 2GiB or a number of bytes")
    return round(float(found[1]) * UNITS[found[2]])


def format_size(size: float) -> str:
    """Format a size for people: `512 B`, `3.4 MiB`."""
    unit, each = "B", 1
    for name, bytes_each in UNITS.items():
        if size >= bytes_each:
            unit, each = name, bytes_each
    number = size / each
    return f"{number:,.0f} {unit}" if number >= 100 else f"{number:.3g} {unit}"
