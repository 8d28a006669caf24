"""Control groups: a CPU quota, a weight, a throttled disk."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from testbed.real.server_programs import missing

ROOT = Path("/sys/fs/cgroup")
BLOCK, NUMBERS = Path("/sys/class/block"), Path("/sys/dev/block")
PERIOD = 20_000  # microseconds: shorter than an interval by far


@contextmanager
def cpu_quota(pid: int, processors: float) -> Iterator[Callable[[float], None]]:
    """Limit a process to this many processors, ahead of all other work.

    Yields a function that changes the quota.
    """
    v1, v2 = _quota(processors)
    v1, v2 = {**v1, "cpu.shares": "262144"}, {**v2, "cpu.weight": "10000"}
    with _limited("cpu", [pid], v1, v2) as group:

        def change(processors: float) -> None:
            v1, v2 = _quota(processors)
            for name, limit in (v1 if (group / "cpu.shares").exists() else v2).items():
                (group / name).write_text(limit)

        yield change


def _quota(processors: float) -> tuple[dict[str, str], dict[str, str]]:
    """Return the files of cgroup versions 1 and 2, with their contents."""
    quota = round(processors * PERIOD)
    v1 = {"cpu.cfs_period_us": str(PERIOD), "cpu.cfs_quota_us": str(quota)}
    return v1, {"cpu.max": f"{quota} {PERIOD}"}


@contextmanager
def ahead_of_others(pid: int) -> Iterator[None]:
    """Give a process and its children priority over all other work."""
    with _limited("cpu", [pid], {"cpu.shares": "262144"}, {"cpu.weight": "10000"}):
        yield


@contextmanager
def as_service(*pids: int) -> Iterator[None]:
    """Put processes and their children into a group with the weight of a service."""
    with _limited("cpu", pids, {"cpu.shares": "1024"}, {"cpu.weight": "100"}):
        yield


@contextmanager
def throttled_reads(pid: int, disk: str, operations: int) -> Iterator[None]:
    """Limit how often per second a process reads from a disk, past the page cache."""
    number = (BLOCK / disk / "dev").read_text().strip()
    v1 = {"blkio.throttle.read_iops_device": f"{number} {operations}"}
    with _limited("blkio", [pid], v1, {"io.max": f"{number} riops={operations}"}):
        yield


def disk_under(folder: Path) -> str:
    """Return the whole disk on which a folder is."""
    number = folder.stat().st_dev
    device = (NUMBERS / f"{os.major(number)}:{os.minor(number)}").resolve()
    if not device.is_dir():
        missing(f"disk of its own under {folder}", "it takes a file system on a disk")
    return (device.parent if (device / "partition").exists() else device).name


@contextmanager
def _limited(
    controller: str, pids: Sequence[int], v1: dict[str, str], v2: dict[str, str]
) -> Iterator[Path]:
    """Put the processes into a new cgroup with that limit, of the version with the controller."""
    own = ROOT / controller
    root, limits = (own, v1) if own.is_dir() else (ROOT, v2)
    group = root / f"headroom-{os.getpid()}-{pids[0]}"
    try:
        group.mkdir()
    except OSError:
        missing(f"right to make a cgroup of {controller}")
    try:
        try:
            for name, limit in limits.items():
                (group / name).write_text(limit)
            for pid in pids:
                (group / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            missing(f"cgroup that limits {controller} ({error})")
        yield group
    finally:
        for line in (group / "cgroup.procs").read_text().split():
            (root / "cgroup.procs").write_text(line)
        group.rmdir()
