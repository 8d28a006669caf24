"""Which disks and network interfaces of this machine are read, and how fast a link is.

Of the physical ones only the busiest few, so that a host with hundreds does not have as many
series; and all that the configuration names: in a container the only interface is virtual.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

from collectors.base import Feature, Values

DEVICES = Path("/sys/class")
MAX_DISKS, MAX_INTERFACES = 16, 8  # the busiest since boot
NOT_DISKS = ("loop", "ram", "zram", "sr", "fd")
MEGABIT = 1e6 / 8  # bytes
LOCAL_NAMES = (
    "use the names in /proc/diskstats and /proc/net/dev, as the agent's namespace shows them"
)


@dataclass(frozen=True, slots=True)
class Devices:
    """Disks and network interfaces, by the kernel's names."""

    disks: frozenset[str] = frozenset()
    interfaces: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Return whether there is any device."""
        return bool(self.disks or self.interfaces)

    def __or__(self, other: "Devices") -> "Devices":
        """Return the devices of both."""
        return Devices(self.disks | other.disks, self.interfaces | other.interfaces)

    def __str__(self) -> str:
        """Return a list of the devices, each with its kind."""
        disks = [f"disk {name!r}" for name in sorted(self.disks)]
        return ", ".join([*disks, *(f"interface {name!r}" for name in sorted(self.interfaces))])


NO_DEVICES = Devices()


def physical_devices(kept: Devices) -> Devices:
    """Return the machine's physical devices, without virtual ones; those to be kept come first."""
    return Devices(physical_disks(kept.disks), physical_interfaces(kept.interfaces))


def named_feature(named: Devices, latest: Values, where: str, remedy: str) -> tuple[Feature, ...]:
    """Check whether the latest reading has all named devices; no feature before the first."""
    if not named or not latest:
        return ()
    known = {name.rpartition(":")[0] for name in latest}
    missing = Devices(
        frozenset(name for name in named.disks if f"disk:{name}" not in known),
        frozenset(name for name in named.interfaces if f"network:{name}" not in known),
    )
    reason = f"{where}: {missing}" if missing else ""
    return (Feature("host_named_devices", not missing, reason, remedy if missing else ""),)


def disk_counters() -> Mapping[str, Any]:
    """Read the counters of all disks as the kernel shows them.

    psutil's `nowrap` would double a counter for good where two threads read at once: the reading
    that is processed later may be the earlier one, and a lower value counts as one that wrapped.
    """
    found: Mapping[str, Any] = psutil.disk_io_counters(perdisk=True, nowrap=False)
    return found


def interface_counters() -> Mapping[str, Any]:
    """Read the counters of all network interfaces likewise."""
    found: Mapping[str, Any] = psutil.net_io_counters(pernic=True, nowrap=False)
    return found


def physical_disks(kept: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the busiest whole disks, without partitions, volumes and memory devices.

    Those in `kept` come before busier ones.
    """
    used = disk_counters()
    names = [name for name in used if not name.startswith(NOT_DISKS)]
    names.sort(key=lambda name: (name not in kept, -used[name].read_bytes - used[name].write_bytes))
    disks = (name for name in names if is_physical("block", name))
    return frozenset(islice(disks, MAX_DISKS))


def physical_interfaces(kept: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the busiest physical interfaces, without bridges and the ends of containers.

    Those in `kept` come before busier ones.
    """
    used = interface_counters()
    names = [name for name in used if is_physical("net", name)]
    names.sort(key=lambda name: (name not in kept, -used[name].bytes_recv - used[name].bytes_sent))
    return frozenset(names[:MAX_INTERFACES])


def link_speeds(interfaces: frozenset[str]) -> dict[str, float]:
    """Read how many bytes per second each interface can carry one way, where that is known."""
    return {
        f"network:{name}:bytes_per_second": stats.speed * MEGABIT
        for name, stats in psutil.net_if_stats().items()
        if stats.speed > 0 and name in interfaces
    }


def is_physical(kind: str, name: str) -> bool:
    """Return whether it is a whole device of that kind, neither a partition nor virtual."""
    place = DEVICES / kind / name
    whole = place.exists() and not (place / "partition").exists()
    return whole and f"/virtual/{kind}/" not in str(place.resolve())
