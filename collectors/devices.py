"""Which disks and network interfaces of this machine are real, and how fast a link is.

At most the busiest few of each are read, so that a host with hundreds does not cost as many series.
"""

from pathlib import Path

import psutil

DEVICES = Path("/sys/class")
MOST_DISKS, MOST_INTERFACES = 16, 8  # those that have done most since boot
NOT_DISKS = ("loop", "ram", "zram", "sr", "fd")
MEGABIT = 1e6 / 8  # bytes


def physical_disks() -> frozenset[str]:
    """Whole block devices; partitions, volumes and memory repeat them or are none."""
    used = psutil.disk_io_counters(perdisk=True)
    names = [name for name in used if not name.startswith(NOT_DISKS) and is_real("block", name)]
    names.sort(key=lambda name: -(used[name].read_bytes + used[name].write_bytes))
    return frozenset(names[:MOST_DISKS])


def physical_interfaces() -> frozenset[str]:
    """Network devices; bridges and the ends of containers repeat them or are none."""
    used = psutil.net_io_counters(pernic=True)
    names = [name for name in used if is_real("net", name)]
    names.sort(key=lambda name: -(used[name].bytes_recv + used[name].bytes_sent))
    return frozenset(names[:MOST_INTERFACES])


def link_speeds(interfaces: frozenset[str]) -> dict[str, float]:
    """How many bytes per second each interface can carry one way, where that is known."""
    return {
        f"network:{name}:bytes_per_second": stats.speed * MEGABIT
        for name, stats in psutil.net_if_stats().items()
        if stats.speed > 0 and name in interfaces
    }


def is_real(kind: str, name: str) -> bool:
    """Whether it is a whole device of that kind, and not one that the kernel makes up."""
    place = DEVICES / kind / name
    whole = place.exists() and not (place / "partition").exists()
    return whole and f"/virtual/{kind}/" not in str(place.resolve())
