"""A control group for tests that compute, so that they do not disturb real-time ones."""

import os
from contextlib import suppress
from pathlib import Path

from testbed.real.cgroups import ROOT

PREFIX = "headroom-tests-"
WEIGHTS = {"cpu.shares": "128", "cpu.weight": "12"}
"""For both versions of control groups: an eighth of what other processes have."""


class Background:
    """A group of this process's own; without the right to make one, nothing happens."""

    def __init__(self) -> None:
        self._root = ROOT / "cpu" if (ROOT / "cpu").is_dir() else ROOT
        self._group = self._root / f"{PREFIX}{_namespace()}-{os.getpid()}"
        self._remove_stale()
        self._works = self._make()

    def enter(self) -> None:
        """Move this process, and its future children, into the low-priority group."""
        if self._works:
            try:
                _move(os.getpid(), self._group)
            except OSError:  # somebody has taken the group away: go on without
                self._works = False

    def leave(self) -> None:
        """Move this process, and its future children, out of it."""
        if self._works:
            _move(os.getpid(), self._root)

    def remove(self) -> None:
        """Remove the group; a process in it loses the low priority."""
        if self._works:
            for pid in (self._group / "cgroup.procs").read_text().split():
                with suppress(OSError):  # it has ended
                    _move(int(pid), self._root)
            with suppress(OSError):  # one that just ended is in it still: the next run removes it
                self._group.rmdir()

    def _remove_stale(self) -> None:
        """Take away the groups of processes that were killed, as far as their number is ours.

        A run within a bare root sees the same groups, and its processes have other numbers.
        """
        for group in self._root.glob(f"{PREFIX}{_namespace()}-*"):
            if not Path("/proc", group.name.rpartition("-")[2]).exists():
                with suppress(OSError):  # not empty, or another process was faster
                    group.rmdir()

    def _make(self) -> bool:
        with suppress(OSError):
            self._group.mkdir()
            for name, weight in WEIGHTS.items():
                if (self._group / name).exists():
                    (self._group / name).write_text(weight)
                    return True
            self._group.rmdir()
        return False


def _namespace() -> int:
    """Return the number of this process's PID namespace."""
    return os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116  (a link that leads nowhere)


def _move(pid: int, group: Path) -> None:
    (group / "cgroup.procs").write_text(str(pid))
