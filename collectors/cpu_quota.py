"""How many processors a process may use: its affinity, within the quotas of its cgroups."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
    is_agents: bool
    """The agent is in the same cgroup."""
    quota: Callable[[Path], float]

    @property
    def is_visible(self) -> bool:
        """True where the process's own cgroup is there; it is not in another cgroup namespace."""
        return self._folder is not None

    def quotas(self) -> Iterator[float]:
        """Those of every cgroup from its own up to the root's."""
        path = self._folder
        while path is not None and path.is_relative_to(self.root):
            with suppress(OSError, ValueError):  # no limit here
                yield self.quota(path)
            path = path.parent

    @property
    def _folder(self) -> Path | None:
        """The process's own cgroup; None where it is not shown.

        A container that has no cgroup namespace (version 1, as a rule) sees its own cgroup as the
        root, and reads the name that this has on the host: so the root is the agent's cgroup.
        """
        if self.own.startswith("/.."):
            return None
        folder = self.root / self.own.strip("/")
        if folder.is_dir():
            return folder
        return self.root if self.is_agents and self.root.is_dir() else None


def process_cpus(process: psutil.Process) -> float:
    """Count them; part of one where a quota says so. All of this host's where it cannot be seen."""
    try:
        allowed = float(len(process.cpu_affinity() or ()) or psutil.cpu_count() or 1)
        found = hierarchy(_groups(process.pid), _groups("self"))
    except (psutil.Error, OSError):
        return float(psutil.cpu_count() or 1)
    quotas = list(found.quotas()) if found else []
    return min([allowed, *quotas])


def quota_feature(pid: int) -> Feature:
    """Report whether a quota of the process would be seen."""
    try:
        found = hierarchy(_groups(pid), _groups("self"))
    except OSError as error:
        return Feature("host_quota", False, f"{HIDDEN} ({error.strerror})", REMEDY)
    if found is None or found.is_visible:
        return Feature("host_quota", enabled=True)
    return Feature("host_quota", False, HIDDEN, REMEDY)


def hierarchy(groups: str, agents: str) -> Hierarchy | None:
    """The one that divides CPU time, for a process whose /proc/PID/cgroup is this; None: no such.

    `agents` is that file of the agent itself.
    The controller `cpu` is in a hierarchy of its own (v1) or else in the unified one (v2).
    """
    unified, shared = None, agents.splitlines()
    for line in groups.splitlines():
        _, controllers, own = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return Hierarchy(CGROUPS / "cpu", own, line in shared, _quota_of_v1)
        if not controllers:
            unified = Hierarchy(CGROUPS, own, line in shared, _quota)
    return unified


def _groups(pid: int | Literal["self"]) -> str:
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
