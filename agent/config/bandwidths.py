"""Parsing of bandwidths: `250MB`, `1.5GB`, `10Gbit`, or a number of bytes per second."""

import re

UNITS = {"k": 1e3, "M": 1e6, "G": 1e9, "": 1.0}
BANDWIDTH = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?) ?([kMG]?)(B|bit)(?:/s)?")
BYTES = {"B": 1.0, "bit": 0.125}


def bytes_per_second(value: object) -> float:
    """Return the bytes per second of a bandwidth; raises ValueError with the valid forms."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    found = BANDWIDTH.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise ValueError("not a bandwidth; write 250MB, 1.5GB, 10Gbit or a number of bytes/s")
    return float(found[1]) * UNITS[found[2]] * BYTES[found[3]]
