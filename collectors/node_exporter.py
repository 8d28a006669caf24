"""`host` for a server on another machine, read from that machine's node_exporter (0.16 to 1.9).

The counters have the same names as those of `host` on this machine. The CPU time of the server's
own process is not among them.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from collectors.base import NO_VALUES, CollectorError, FailureKind, Feature, Prepared, Values
from collectors.connection import Connection
from collectors.device_selection import (
    MAX_DISKS,
    MAX_INTERFACES,
    NO_DEVICES,
    NOT_DISKS,
    Devices,
    named_feature,
)
from collectors.host import CPU_FIELDS

NODE_COLLECTORS = ("cpu", "diskstats", "netdev", "netclass")
"""The node_exporter collectors that are requested: a page of all is ten times as large."""
MAX_BYTES = 2**22
"""Largest page; 64 processors and 200 devices take 150 KiB."""
LABEL = r'(\w++)\s*+=\s*+"((?:[^"\\]|\\.)*+)"'
SAMPLE = re.compile(
    rf"(\w++)\s*+\{{((?:\s*+{LABEL}(?:\s*+,)?+)*+)\s*+\}}\s*+(\S++)(?:\s++-?\d++)?\s*+", re.ASCII
)
LABELS = re.compile(LABEL, re.ASCII)
"""A line of the format, and the labels in it. `prometheus_client` takes six times as long: 19 ms
for the page of 64 processors, which is read every five seconds for each target."""
FEATURE = "host_node_exporter"
DISK_COUNTERS = {
    "node_disk_reads_completed_total": "reads",
    "node_disk_writes_completed_total": "writes",
    "node_disk_read_bytes_total": "read_bytes",
    "node_disk_written_bytes_total": "written_bytes",
    "node_disk_io_time_seconds_total": "busy_seconds",
    "node_disk_reads_merged_total": "merged_reads",
    "node_disk_read_time_seconds_total": "read_seconds",
    "node_disk_flush_requests_total": "flushes",
    "node_disk_flush_requests_time_seconds_total": "flush_seconds",
}
LINK_COUNTERS = {
    "node_network_receive_bytes_total": "received_bytes",
    "node_network_transmit_bytes_total": "sent_bytes",
}
BUSIEST: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "disk": (MAX_DISKS, ("read_bytes", "written_bytes")),
    "network": (MAX_INTERFACES, tuple(LINK_COUNTERS.values())),
}
"""How many are read by kind, and the counters by which the busiest are known."""
LINK_SPEED = "node_network_speed_bytes"
CPU = "node_cpu_seconds_total"
NAMES = (CPU, LINK_SPEED, *DISK_COUNTERS, *LINK_COUNTERS)
STACKED_DISKS = (*NOT_DISKS, "dm-", "md")
"""Devices that are no disks, and volumes, whose use their disks already count."""
BRIDGES = ("br-", "virbr", "vmbr", "lxdbr", "ovs", "docker", "cni", "flannel")
ON_LINKS = ("bond", "team", "vlan", "vxlan", "macvlan", "macvtap", "ipvlan", "wg")
ENDS = ("veth", "vnet", "cali", "lxc", "eni", "azv", "gke", "kube", "tun", "tap", "ifb", "dummy")
VIRTUAL_LINKS = ("lo", *ENDS, *ON_LINKS, *BRIDGES)
"""Interfaces that are not links, or whose bytes their links already count."""
NUMBERED_BRIDGE = re.compile(r"br\d")
VLAN_MARK = "."
"""Between the name of a link and the number of a VLAN on it, as in `eth0.100`."""

REMOTE_NAMES = (
    "use the names in the label `device` of its metrics; devices that match its option"
    " --collector.diskstats.device-exclude are not among them"
)

Fetch = Callable[[], bytes]
"""Fetch node_exporter's page once; raises `CollectorError` of a kind that ends no session."""


class PageSample(NamedTuple):
    """One sample of a metric on a page."""

    name: str
    labels: dict[str, str]
    value: float


def prepare(connection: Connection, fetch: Fetch, named: Devices = NO_DEVICES) -> Prepared:
    """Prepare to read `fetch`'s page, but only later: the server's readings do not wait for it.

    `named` devices are read too; a reading shows whether they are there.
    """
    del connection  # the page describes the host, not a server
    reader = _PageReader(fetch, named)
    return Prepared(reader, (Feature(FEATURE, enabled=True),), reader.features)


class _PageReader:
    """Reads the page; devices that are read stay, since many that are equally busy take turns."""

    def __init__(self, fetch: Fetch, named: Devices) -> None:
        self._fetch, self._named = fetch, named
        self._before: Values = {}

    def __call__(self) -> Values:
        """Fetch the page and parse it."""
        self._before = parse_page(self._fetch(), self._before, self._named)
        return self._before

    def features(self) -> tuple[Feature, ...]:
        """Check whether the latest page has all named devices; no feature before the first."""
        where = "not on the page of its node_exporter"
        return named_feature(self._named, self._before, where, REMOTE_NAMES)


def parse_page(page: bytes, before: Values = NO_VALUES, named: Devices = NO_DEVICES) -> Values:
    """Parse the counters of a page; raises `CollectorError` where it has no CPU time.

    A counter of which a part is no number is absent. Of the devices, all that are `named` are read,
    and of the others those of the page `before` come first.
    """
    kept = {name.rpartition(":")[0] for name in before}
    cpus: set[str] = set()
    values: defaultdict[str, float] = defaultdict(float)
    disks: defaultdict[str, dict[str, float]] = defaultdict(dict)
    links: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for name, labels, value in _samples(page):
        device = labels.get("device", "")
        if name == CPU and labels.get("mode") in CPU_FIELDS:
            cpus.add(labels.get("cpu", ""))
            values[f"cpu_{labels['mode']}_seconds"] += value
        elif not math.isfinite(value):
            continue
        elif name in DISK_COUNTERS:
            if device in named.disks or not device.startswith(STACKED_DISKS):
                disks[device][DISK_COUNTERS[name]] = value
        elif device in named.interfaces or _is_link(device):
            if name in LINK_COUNTERS:
                links[device][LINK_COUNTERS[name]] = value
            elif name == LINK_SPEED and value > 0:
                links[device]["bytes_per_second"] = value
    if not cpus:
        raise CollectorError(FailureKind.UNREADABLE, "no node_cpu_seconds_total on that page")
    values["cpus"] = float(len(cpus))
    values |= _chosen("disk", disks, named.disks, kept)
    values |= _chosen("network", links, named.interfaces, kept)
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _is_link(device: str) -> bool:
    """Return whether an interface is a link of the machine, by its name."""
    virtual = device.startswith(VIRTUAL_LINKS) or NUMBERED_BRIDGE.match(device) is not None
    return not virtual and VLAN_MARK not in device


def _samples(page: bytes) -> Iterator[PageSample]:
    """Parse the lines of the metrics in use; the others are skipped."""
    for line in page.decode("utf-8", "replace").splitlines():
        if line.startswith(NAMES):
            yield _sample(line)


def _sample(line: str) -> PageSample:
    """Parse one line; raises `CollectorError` where it is not of the format."""
    found = SAMPLE.fullmatch(line)
    with suppress(ValueError):
        if found is not None:
            return PageSample(found[1], dict(LABELS.findall(found[2])), float(found[5]))
    message = f"not the page of a node_exporter: {line[:100]}"
    raise CollectorError(FailureKind.UNREADABLE, message)


def _chosen(
    kind: str,
    devices: dict[str, dict[str, float]],
    named: frozenset[str],
    kept: Container[str],
) -> dict[str, float]:
    """Choose devices: the named ones, and those with the most bytes moved since boot.

    Those in `kept` come before busier ones. Each counter gets its full name.
    """
    most, moved = BUSIEST[kind]

    def place(name: str) -> tuple[bool, float]:
        return f"{kind}:{name}" not in kept, -sum(devices[name].get(m, 0.0) for m in moved)

    busiest = sorted((name for name in devices if name not in named), key=place)[:most]
    return {
        f"{kind}:{device}:{counter}": value
        for device in (*busiest, *sorted(named & devices.keys()))
        for counter, value in devices[device].items()
    }
