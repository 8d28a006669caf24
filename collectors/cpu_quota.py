"""How many processors a process may use: its affinity, within the quotas of its cgroups."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from collectors.base import Feature

CGROUPS = Path("/sys/fs/cgroup")
CGROUP_HIDDEN = "the server's cgroup is not visible here: a CPU quota, if it has one, is not known"
REMEDY = (
    "give the agent access to the host's /sys/fs/cgroup and cgroup namespace, or name a quota as"
    " the ceiling of server_cpu, a share of the host's processors (docs/containers.md)"
)


@dataclass(frozen=True, slots=True)
class CgroupHierarchy:
    """A hierarchy of cgroups, the process's own cgroup in it, and how to read a quota there."""

    root: Path
    process_path: str
    shared_with_agent: bool
    """Whether the agent is in the same cgroup."""
    quota: Callable[[Path], float]

    @property
    def is_visible(self) -> bool:
        """Whether the process's own cgroup is visible; in another cgroup namespace it is not."""
        return self._folder is not None

    def quotas(self) -> Iterator[float]:
        """Yield the quotas of all cgroups from the process's own up to the root."""
        path = self._folder
        while path is not None and path.is_relative_to(self.root):
            with suppress(OSError, ValueError):  # no limit here
                yield self.quota(path)
            path = path.parent

    @property
    def _folder(self) -> Path | None:
        """The directory of the process's own cgroup; None where it is not visible.

        A container that has no cgroup namespace (usually version 1) sees its own cgroup as the
        root, but reads the name that this has on the host: there the root is the agent's cgroup.
        """
        if self.process_path.startswith("/.."):
            return None
        folder = self.root / self.process_path.strip("/")
        if folder.is_dir():
            return folder
        return self.root if self.shared_with_agent and self.root.is_dir() else None


def process_cpus(process: psutil.Process) -> float:
    """Return how many processors the process may use, with a quota also a fraction.

    All of this host's where that cannot be seen.
    """
    try:
        allowed = float(len(process.cpu_affinity() or ()) or psutil.cpu_count() or 1)
        found = cpu_hierarchy(_read_cgroups(process.pid), _read_cgroups("self"))
    except (psutil.Error, OSError):
        return float(psutil.cpu_count() or 1)
    quotas = list(found.quotas()) if found else []
    return min([allowed, *quotas])


def quota_feature(pid: int) -> Feature:
    """Check whether a quota of the process would be visible."""
    try:
        found = cpu_hierarchy(_read_cgroups(pid), _read_cgroups("self"))
    except OSError as error:
        return Feature("host_quota", False, f"{CGROUP_HIDDEN} ({error.strerror})", REMEDY)
    if found is None or found.is_visible:
        return Feature("host_quota", enabled=True)
    return Feature("host_quota", False, CGROUP_HIDDEN, REMEDY)


def cpu_hierarchy(groups: str, agents: str) -> CgroupHierarchy | None:
    """Return the hierarchy that divides CPU time, from a process's /proc/PID/cgroup; None: no such.

    `agents` is the same file of the agent itself.
    The controller `cpu` is in a hierarchy of its own (v1) or else in the unified one (v2).
    """
    unified, shared = None, agents.splitlines()
    for line in groups.splitlines():
        _, controllers, own = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return CgroupHierarchy(CGROUPS / "cpu", own, line in shared, _quota_v1)
        if not controllers:
            unified = CgroupHierarchy(CGROUPS, own, line in shared, _quota_v2)
    return unified


def _read_cgroups(pid: int | Literal["self"]) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


def _quota_v2(path: Path) -> float:
    """Read a quota in processors; raises ValueError where there is none: `max`."""
    quota, period = (path / "cpu.max").read_text().split()
    return float(quota) / float(period)


def _quota_v1(path: Path) -> float:
    quota = float((path / "cpu.cfs_quota_us").read_text())
    if quota <= 0:
        raise ValueError("no quota")
    return quota / float((path / "cpu.cfs_period_us").read_text())
