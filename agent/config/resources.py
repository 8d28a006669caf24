"""Limits of the host's resources that cannot be read from the host."""

import math
from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta, field

from agent.config.bandwidths import bytes_per_second
from agent.config.base_model import Checked, Parsed, Section, matching
from collectors.device_selection import Devices

DISK, NETWORK = "disk:", "network:"
"""The prefixes of the names of resources that are devices; the device's own name follows."""
RESOURCE = (
    r"(cpu|server_cpu|connections|innodb_threads|redo_log"
    rf"|{DISK}[^:\s]+(:operations|:bytes|:flush)?|{NETWORK}[^:\s]+:(received|sent))"
)
UNKNOWN_RESOURCE = (
    "no such resource; write cpu, server_cpu, connections, innodb_threads, redo_log, disk:NAME,"
    " disk:NAME:operations (:bytes, :flush), network:NAME:received or network:NAME:sent"
)
INVALID_DEVICE = "must be the kernel's name of a device, such as nvme0n1 or eth0, without /dev/"


def _check_finite(rate: float) -> float:
    if not math.isfinite(rate):
        raise ValueError("must be a finite number")
    return rate


def _check_share(share: float) -> float:
    if not 0 < share <= 1:
        raise ValueError("must be a share above 0 and at most 1; write 0.9 for 90 %")
    return share


ResourceName = Annotated[str, matching(RESOURCE, UNKNOWN_RESOURCE)]
DeviceName = Annotated[str, matching(r"[^:/\s]{1,64}", INVALID_DEVICE)]
Share = Annotated[float, Checked(_check_share)]
Rate = Annotated[float, Meta(gt=0), Checked(_check_finite)]
Bandwidth = Annotated[Rate, Parsed(bytes_per_second)]


class DiskSettings(Section, frozen=True):
    """A disk's limits, which it does not report; None: not known."""

    operations: Rate | None = None
    """Reads and writes per second together."""
    bandwidth: Bandwidth | None = None
    """Bytes/s, read and written together."""


class InterfaceSettings(Section, frozen=True):
    """The limit of an interface; None: the speed that its driver reports."""

    bandwidth: Bandwidth | None = None
    """Bytes/s, each way."""


class ResourceSettings(Section, frozen=True):
    """Ceilings by resource, and limits by device."""

    ceilings: Mapping[ResourceName, Share] = field(default_factory=dict)
    """The utilisation at which a resource counts as full; 1 where it is not named."""
    disks: Mapping[DeviceName, DiskSettings] = field(default_factory=dict)
    interfaces: Mapping[DeviceName, InterfaceSettings] = field(default_factory=dict)
    vcpus: Annotated[float, Meta(gt=0, le=4096)] | None = None
    """Processors of a server whose host cannot be read; None: not known."""
    statement_cpu_share: Share | None = None
    """The part of that host's CPU in use that is statements' CPU time, if it was measured;
    None: that of other servers is assumed."""

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are set here, per second, by the name of the resource."""
        found: dict[str, float | None] = {}
        for name, disk in self.disks.items():
            found[f"{DISK}{name}:operations"] = disk.operations
            found[f"{DISK}{name}:bytes"] = disk.bandwidth
        for name, interface in self.interfaces.items():
            found[f"{NETWORK}{name}:received"] = interface.bandwidth
            found[f"{NETWORK}{name}:sent"] = interface.bandwidth
        return {name: limit for name, limit in found.items() if limit is not None}

    @property
    def devices(self) -> Devices:
        """Every device that is named here, also by the ceiling of its resource."""
        return Devices(
            frozenset(self.disks) | _devices_of(self.ceilings, DISK),
            frozenset(self.interfaces) | _devices_of(self.ceilings, NETWORK),
        )

    def merged_over(self, other: "ResourceSettings") -> "ResourceSettings":
        """Return these settings, with those of `other` where nothing is set, name by name."""
        return ResourceSettings(
            ceilings={**other.ceilings, **self.ceilings},
            disks={**other.disks, **self.disks},
            interfaces={**other.interfaces, **self.interfaces},
            vcpus=other.vcpus if self.vcpus is None else self.vcpus,
            statement_cpu_share=other.statement_cpu_share
            if self.statement_cpu_share is None
            else self.statement_cpu_share,
        )


def _devices_of(resources: Iterable[str], kind: str) -> frozenset[str]:
    """Return the devices of that kind to which the resources belong."""
    return frozenset(
        name.removeprefix(kind).split(":")[0] for name in resources if name.startswith(kind)
    )
