"""How many processors a server may use, by its cgroups of either version."""

import os
from pathlib import Path

import psutil
import pytest

from collectors import cpu_quota


def write(root: Path, files: dict[str, str]) -> None:
    """Make a tree of these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


V1 = "4:memory:/x\n1:cpu,cpuacct:/d/c\n0::/\n"


@pytest.mark.parametrize(
    ("groups", "files", "found"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "150000 100000\n"}, [1.5]),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "50000 100000\n"}, [0.5]),
        ("0::/\n", {}, []),
        (
            V1,
            {
                "cpu/d/c/cpu.cfs_quota_us": "250000\n",
                "cpu/d/c/cpu.cfs_period_us": "100000\n",
                "cpu/d/cpu.cfs_quota_us": "-1\n",
                "cpu/d/cpu.cfs_period_us": "100000\n",
            },
            [2.5],
        ),
    ],
    ids=["v2", "v2, of the group above", "none", "v1 beside v2"],
)
def test_quotas_are_read_up_to_the_root(
    groups: str,
    files: dict[str, str],
    found: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All that limit the process are found; `max` and -1 are no limits."""
    write(tmp_path, files)
    monkeypatch.setattr(cpu_quota, "CGROUPS", tmp_path)
    hierarchy = cpu_quota.cpu_hierarchy(groups, "0::/agent\n")
    assert hierarchy
    assert hierarchy.is_visible
    assert list(hierarchy.quotas()) == found


@pytest.mark.parametrize(
    ("groups", "files"),
    [
        ("0::/../other\n", {"cpu.max": "50000 100000\n"}),
        ("0::/docker/other\n", {"cpu.max": "50000 100000\n"}),
        (V1, {"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}),
    ],
    ids=["another cgroup namespace", "v2, only the agent's own", "v1, only the agent's own"],
)
def test_another_containers_quota_is_unknown(
    groups: str, files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the visible root is the agent's own cgroup, the server's quota is not known."""
    write(tmp_path, files)
    monkeypatch.setattr(cpu_quota, "CGROUPS", tmp_path)
    hierarchy = cpu_quota.cpu_hierarchy(groups, "0::/agent\n")
    assert hierarchy
    assert not hierarchy.is_visible
    assert list(hierarchy.quotas()) == []


@pytest.mark.parametrize(
    ("agents", "found"),
    [(V1, [0.5]), ("1:cpu,cpuacct:/d/agent\n", []), (V1.replace("/d/c", "/d"), [])],
    ids=["the same cgroup", "another", "the one above"],
)
def test_the_visible_root_counts_for_a_server_in_the_same_container(
    agents: str, found: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both without a cgroup namespace: the server's cgroup is the visible root."""
    write(tmp_path, {"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"})
    monkeypatch.setattr(cpu_quota, "CGROUPS", tmp_path)
    hierarchy = cpu_quota.cpu_hierarchy(V1, agents)
    assert hierarchy
    assert hierarchy.is_visible == bool(found)
    assert list(hierarchy.quotas()) == found


def test_without_a_quota_the_affinity_counts() -> None:
    """Of this process."""
    found = cpu_quota.process_cpus(psutil.Process())
    assert found <= len(os.sched_getaffinity(0))
    assert found > 0


def test_the_quotas_of_this_machines_processes_are_visible() -> None:
    """Outside of a container nothing is missing."""
    assert cpu_quota.quota_feature(os.getpid()).enabled
