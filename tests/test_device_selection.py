"""Which disks and interfaces count: real ones, the busiest few, whatever else the kernel shows."""

import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from collectors import device_selection, host
from collectors.device_selection import Devices


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree like the kernel's, to be filled with devices."""
    monkeypatch.setattr(device_selection, "DEVICES", tmp_path / "class")
    return tmp_path


def add(kernel: Path, kind: str, name: str, place: str) -> Path:
    """A device of that class, at that place among the devices."""
    device = kernel / "devices" / place / kind / name
    device.mkdir(parents=True)
    link = kernel / "class" / kind / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(device)
    return device


def test_virtual_devices_are_not_selected(kernel: Path) -> None:
    """Volumes and bridges repeat those below them; a partition is part of a disk."""
    add(kernel, "block", "sda", "pci0000:00/ata1")
    add(kernel, "block", "sdb", "pci0000:00/ata2")
    (add(kernel, "block", "sda1", "pci0000:00/ata1/sda") / "partition").write_text("1\n")
    add(kernel, "block", "dm-0", "virtual")
    add(kernel, "block", "nvme0n1", "virtual/nvme-subsystem/nvme-subsys0")  # of many paths
    add(kernel, "net", "eth0", "pci0000:00/virtio2")
    add(kernel, "net", "docker0", "virtual")
    names = ("sda", "sdb", "sda1", "dm-0", "nvme0n1", "gone")
    real = [name for name in names if device_selection.is_physical("block", name)]
    assert real == ["sda", "sdb", "nvme0n1"]
    assert device_selection.is_physical("net", "eth0")
    assert not device_selection.is_physical("net", "docker0")


def test_this_machines_devices_are_physical_and_few() -> None:
    """Neither the loopback nor a memory disk, and no more than a page can show."""
    disks = device_selection.physical_disks()
    interfaces = device_selection.physical_interfaces()
    assert disks <= set(psutil.disk_io_counters(perdisk=True))
    assert interfaces <= set(psutil.net_io_counters(pernic=True)) - {"lo"}
    assert len(disks) <= device_selection.MAX_DISKS
    assert len(interfaces) <= device_selection.MAX_INTERFACES
    assert not [name for name in disks if name.startswith(device_selection.NOT_DISKS)]


def test_each_reading_shows_whether_the_named_devices_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of both kinds, physical or not: one may be added or removed at any time."""
    moved = psutil.disk_io_counters(perdisk=False)
    disks = {"lo": moved}
    monkeypatch.setattr(host, "disk_counters", lambda: disks)
    monkeypatch.setattr(host, "find_server_process", lambda _: psutil.Process())
    session: Any = None
    named = Devices(frozenset({"lo", "none0"}), frozenset({"lo", "none1"}))
    prepared = host.prepare(session, named)
    assert prepared.read
    assert [feature.name for feature in prepared.features] == [
        "host",
        "host_quota",
        "host_process_io",
    ]
    seen = []
    for change in (dict, lambda: disks.update(none0=moved), lambda: disks.pop("lo")):
        change()
        prepared.read()
        (feature,) = prepared.features_read()
        seen.append((feature.enabled, feature.reason.removeprefix("not on this host: ")))
    assert seen == [
        (False, "disk 'none0', interface 'none1'"),
        (False, "interface 'none1'"),
        (False, "disk 'lo', interface 'none1'"),
    ]
    lo = host.prepare(session, Devices(interfaces=frozenset({"lo"})))
    assert lo.read
    lo.read()
    assert [feature.enabled for feature in lo.features_read()] == [True]
    none = host.prepare(session)
    assert none.read
    none.read()
    assert none.features_read() == ()


def test_of_many_devices_the_busiest_are_read(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host with a hundred disks has no more series than one with sixteen."""
    used = {f"sd{k}": _Moved(k) for k in range(100)}
    for name in used:
        add(kernel, "block", name, f"pci/{name}")
    monkeypatch.setattr(device_selection, "disk_counters", lambda: used)
    assert device_selection.physical_disks() == {f"sd{k}" for k in range(84, 100)}


def test_a_device_being_read_is_kept(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its series would end; a new one is read if there is room, and a removed one is not."""
    used = {f"sd{k}": _Moved(k) for k in range(20)}
    for name in used:
        add(kernel, "block", name, f"pci/{name}")
    monkeypatch.setattr(device_selection, "disk_counters", lambda: used)
    first = device_selection.physical_disks()
    assert first == {f"sd{k}" for k in range(4, 20)}
    used["sd0"] = _Moved(100)
    assert device_selection.physical_disks(first) == first
    del used["sd7"]
    assert device_selection.physical_disks(first) == first - {"sd7"} | {"sd0"}


def test_an_added_disk_is_read_within_minutes(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a new session; the named devices stay."""
    used, now = {"sda": _Moved(1)}, [1000.0]
    monkeypatch.setattr(device_selection, "disk_counters", lambda: used)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    present = host._PresentDevices(Devices(frozenset({"dm-0"})))
    add(kernel, "block", "sda", "pci/a")
    assert present.read().disks == {"sda", "dm-0"}
    used["sdb"] = _Moved(0)
    add(kernel, "block", "sdb", "pci/b")
    now[0] += host.DEVICE_SECONDS
    assert present.read().disks == {"sda", "sdb", "dm-0"}


def test_a_reading_that_arrives_late_doubles_no_counter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two threads that read at once, the earlier reading may be processed later."""
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    (tmp_path / "net").mkdir()
    seen = []
    for moved in (1000, 2000, 1500, 3000):
        numbers = f" {moved}" * 16
        (tmp_path / "diskstats").write_text(f"8 0 sda{numbers} 0\n")
        (tmp_path / "net" / "dev").write_text(f"head\nhead\neth0:{numbers}\n")
        disks = host._disk_values(frozenset({"sda"}))
        links = host._interface_values(frozenset({"eth0"}))
        seen.append((disks["disk:sda:reads"], links["network:eth0:received_bytes"]))
    assert seen == [(1000, 1000), (2000, 2000), (1500, 1500), (3000, 3000)]


class _Moved:
    """What a disk has moved since boot."""

    def __init__(self, amount: int) -> None:
        self.read_bytes, self.write_bytes = amount, 2 * amount
