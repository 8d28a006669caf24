"""How many processors a process may use: its affinity, within the quotas of its cgroups."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from collectors.base import Feature

CGROUPS = Path("/sys/fs/cgroup")
HIDDEN = "the server's cgroup is not visible here: a CPU quota, if it has one, is not known"
REMEDY = "show the agent the host's /sys/fs/cgroup and cgroup namespace (docs/containers.md)"


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A tree of cgroups, the process's own place in it, and how a quota is read there."""

    root: Path
    own: str
    quota: Callable[[Path], float]

    @property
    def is_visible(self) -> bool:
        """True where the process's own cgroup is there; it is not in another cgroup namespace."""
        return not self.own.startswith("/..") and self._folder.is_dir()

    def quotas(self) -> Iterator[float]:
        """Those of every cgroup from its own up to the root's."""
        path = self._folder
        while self.is_visible and path.is_relative_to(self.root):
            with suppress(OSError, ValueError):  # no limit here
                yield self.quota(path)
            path = path.parent

    @property
    def _folder(self) -> Path:
        return self.root / self.own.strip("/")


def process_cpus(process: psutil.Process) -> float:
    """Count them; part of one where a quota says so. All of this host's where it cannot be seen."""
    try:
        allowed = float(len(process.cpu_affinity() or ()) or psutil.cpu_count() or 1)
        found = hierarchy(_groups(process.pid))
    except (psutil.Error, OSError):
        return float(psutil.cpu_count() or 1)
    quotas = list(found.quotas()) if found else []
    return min([allowed, *quotas])


def quota_feature(pid: int) -> Feature:
    """Report whether a quota of the process would be seen."""
    try:
        found = hierarchy(_groups(pid))
    except OSError as error:
        return Feature("host_quota", False, f"{HIDDEN} ({error.strerror})", REMEDY)
    if found is None or found.is_visible:
        return Feature("host_quota", enabled=True)
    return Feature("host_quota", False, HIDDEN, REMEDY)


def hierarchy(groups: str) -> Hierarchy | None:
    """The one that divides CPU time, for a process whose /proc/PID/cgroup is this; None: no such.

    The controller `cpu` is in a hierarchy of its own (v1) or else in the unified one (v2).
    """
    unified = None
    for line in groups.splitlines():
        _, controllers, own = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return Hierarchy(CGROUPS / "cpu", own, _quota_of_v1)
        if not controllers:
            unified = Hierarchy(CGROUPS, own, _quota)
    return unified


def _groups(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


def _quota(path: Path) -> float:
    """Raises ValueError where there is none: `max`."""
    quota, period = (path / "cpu.max").read_text().split()
    return float(quota) / float(period)


def _quota_of_v1(path: Path) -> float:
    quota = float((path / "cpu.cfs_quota_us").read_text())
    if quota <= 0:
        raise ValueError("no quota")
    return quota / float((path / "cpu.cfs_period_us").read_text())
