"""A limit of the kernel for one process: a CPU quota."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers import missing

ROOT = Path("/sys/fs/cgroup")
PERIOD = 20_000  # microseconds: shorter than an interval by far


@contextmanager
def cpu_quota(pid: int, processors: float) -> Iterator[None]:
    """Let a process use no more than so many processors, and that ahead of all other work."""
    quota = round(processors * PERIOD)
    v1 = {
        "cpu.cfs_period_us": str(PERIOD),
        "cpu.cfs_quota_us": str(quota),
        "cpu.shares": "262144",
    }
    v2 = {"cpu.max": f"{quota} {PERIOD}", "cpu.weight": "10000"}
    with _limited("cpu", pid, v1, v2):
        yield


@contextmanager
def _limited(controller: str, pid: int, v1: dict[str, str], v2: dict[str, str]) -> Iterator[None]:
    """A cgroup with that limit, of whichever version has the controller, around the process."""
    own = ROOT / controller
    root, limits = (own, v1) if own.is_dir() else (ROOT, v2)
    group = root / f"headroom-{os.getpid()}-{pid}"
    try:
        group.mkdir()
    except OSError:
        missing(f"right to make a cgroup of {controller}")
    try:
        try:
            for name, limit in limits.items():
                (group / name).write_text(limit)
            (group / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            missing(f"cgroup that limits {controller} ({error})")
        yield
    finally:
        for line in (group / "cgroup.procs").read_text().split():
            (root / "cgroup.procs").write_text(line)
        group.rmdir()
