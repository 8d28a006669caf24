"""Flushes of a disk's cache are counted, and their time is a utilisation of that disk."""

import os
from pathlib import Path

import numpy as np
import pytest

from agent.config.resources import ResourceSettings
from agent.window.resource_utilisation import is_busy_time, resources_with_ceilings
from collectors import disk_flushes as module
from collectors.device_selection import physical_disks
from collectors.disk_flushes import disk_flushes
from collectors.node_exporter import parse_page

TABLE = """\
   7       0 loop0 10 0 80 1 0 0 0 0 0 4 1 0 0 0 0 0 0
 259       0 nvme0n1 900 1 7200 40 700 3 9000 90 0 80 130 0 0 0 0 250 500
 259       1 nvme0n1p1 800 1 7000 39 700 3 9000 90 0 80 130 0 0 0 0 0 0
   8       0 sda 900 1 7200 40 700 3 9000 90 0 80 130
   8      16 sdb 900 1 7200 40 700 3 9000 90 0 80 130 0 0 0 0 0 0
"""


def test_flushes_are_read_per_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions have none, old kernels do not count, and a disk never flushed has no series."""
    table = tmp_path / "diskstats"
    table.write_text(TABLE)
    monkeypatch.setattr(module, "DISKSTATS", table)
    found = disk_flushes(frozenset(["nvme0n1", "sda", "sdb"]))
    assert found == {"disk:nvme0n1:flushes": 250.0, "disk:nvme0n1:flush_seconds": 0.5}


def test_without_the_kernels_table_there_are_no_flushes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS."""
    monkeypatch.setattr(module, "DISKSTATS", tmp_path / "missing")
    assert disk_flushes(frozenset(["sda"])) == {}


def test_a_real_flush_is_counted(tmp_path: Path) -> None:
    """The real table, around real flushes."""
    disks = physical_disks()
    before = disk_flushes(disks)
    with (tmp_path / "log").open("wb") as log:
        for _ in range(20):
            log.write(b"a commit")
            log.flush()
            os.fsync(log.fileno())
    after = disk_flushes(disks)
    if not after:
        pytest.skip("no disk of this machine is ever flushed: its cache is safe, or it has none")
    assert sum(after.values()) > sum(before.values())


def test_node_exporter_has_the_same_flushes() -> None:
    """Under the names of this host."""
    page = (
        'node_cpu_seconds_total{cpu="0",mode="user"} 1\n'
        'node_disk_flush_requests_total{device="sda"} 40\n'
        'node_disk_flush_requests_time_seconds_total{device="sda"} 0.25\n'
    )
    found = parse_page(page.encode())
    assert (found["disk:sda:flushes"], found["disk:sda:flush_seconds"]) == (40.0, 0.25)


def test_flush_time_is_a_busy_time() -> None:
    """One flush serves many commits: like a disk's, it is high at low loads."""
    (flush,) = resources_with_ceilings({"disk:sda:flush": np.full(8, 0.9)}, {}, ResourceSettings())
    assert flush.is_busy_time
    assert is_busy_time("disk:sda")
    assert not is_busy_time("disk:sda:operations")
