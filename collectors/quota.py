"""How many processors a process may use: its affinity, within the quotas of its cgroups."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")


def process_cpus(process: psutil.Process) -> float:
    """Count them; part of one where a quota says so. All of this host's where it cannot be seen."""
    try:
        allowed = float(len(process.cpu_affinity() or ()) or psutil.cpu_count() or 1)
        groups = Path(f"/proc/{process.pid}/cgroup").read_text()
    except (psutil.Error, OSError):
        return float(psutil.cpu_count() or 1)
    return min([allowed, *quotas(groups)])


def quotas(groups: str) -> Iterator[float]:
    """The CPU quotas, in processors, of a process whose /proc/PID/cgroup is this.

    Those of every cgroup from its own up to the root's: of the one hierarchy (v2), and of the
    controller `cpu` where it has its own (v1).
    """
    for line in groups.splitlines():
        _, controllers, own = line.split(":", 2)
        if not controllers:
            yield from _upwards(CGROUPS, own, _quota)
        elif "cpu" in controllers.split(","):
            yield from _upwards(CGROUPS / "cpu", own, _quota_of_v1)


def _upwards(root: Path, own: str, quota: Callable[[Path], float]) -> Iterator[float]:
    path = root / own.strip("/")
    while path.is_relative_to(root):
        with suppress(OSError, ValueError):  # no limit here
            yield quota(path)
        path = path.parent


def _quota(path: Path) -> float:
    """Raises ValueError where there is none: `max`."""
    quota, period = (path / "cpu.max").read_text().split()
    return float(quota) / float(period)


def _quota_of_v1(path: Path) -> float:
    quota = float((path / "cpu.cfs_quota_us").read_text())
    if quota <= 0:
        raise ValueError("no quota")
    return quota / float((path / "cpu.cfs_period_us").read_text())
