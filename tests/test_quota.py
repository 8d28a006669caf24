"""How many processors a server may use, by its cgroups of either version."""

import os
from pathlib import Path

import psutil
import pytest

from collectors import quota


def write(root: Path, files: dict[str, str]) -> None:
    """Make a tree of these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("groups", "files", "found"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "150000 100000\n"}, [1.5]),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "50000 100000\n"}, [0.5]),
        ("0::/\n", {}, []),
        (
            "4:memory:/x\n1:cpu,cpuacct:/d/c\n0::/\n",
            {
                "cpu/d/c/cpu.cfs_quota_us": "250000\n",
                "cpu/d/c/cpu.cfs_period_us": "100000\n",
                "cpu/d/cpu.cfs_quota_us": "-1\n",
                "cpu/d/cpu.cfs_period_us": "100000\n",
            },
            [2.5],
        ),
        ("1:cpu:/../other\n0::/../other\n", {}, []),
    ],
    ids=["v2", "v2, of the group above", "none", "v1 beside v2", "of another container"],
)
def test_quotas_are_read_up_to_the_root(
    groups: str,
    files: dict[str, str],
    found: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The least counts; `max`, -1 and what cannot be seen are no limits."""
    write(tmp_path, files)
    monkeypatch.setattr(quota, "CGROUPS", tmp_path)
    assert list(quota.quotas(groups)) == found


def test_without_a_quota_the_affinity_counts() -> None:
    """Of this very process."""
    found = quota.process_cpus(psutil.Process())
    assert found <= len(os.sched_getaffinity(0))
    assert found > 0
