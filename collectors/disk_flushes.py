"""Reads how often each disk flushed its cache, and how long that took (Linux).

A commit that must survive a crash ends with a flush of the disk's cache (fsync), and the disk does
one at a time: transactions that commit meanwhile wait for the next, and share it. psutil does not
read these counters; the kernel has them since Linux 5.5 (Documentation/admin-guide/iostats.rst,
fields 16 and 17 of a disk), and only of whole disks.
"""

from pathlib import Path

from collectors.base import MILLISECOND

DISKSTATS = Path("/proc/diskstats")
NAME, FLUSHES, MILLISECONDS = 2, 18, 19
"""The columns of a line."""


def disk_flushes(disks: frozenset[str]) -> dict[str, float]:
    """Read the flushes since boot, and their seconds, of each disk that was ever flushed."""
    values = {}
    for line in _lines():
        columns = line.split()
        if len(columns) > MILLISECONDS and columns[NAME] in disks and columns[FLUSHES] != "0":
            name = f"disk:{columns[NAME]}"
            values[f"{name}:flushes"] = float(columns[FLUSHES])
            values[f"{name}:flush_seconds"] = float(columns[MILLISECONDS]) * MILLISECOND
    return values


def _lines() -> list[str]:
    """Return the lines of the kernel's table; none where there is no such table."""
    try:
        return DISKSTATS.read_text(encoding="ascii").splitlines()
    except OSError:
        return []
