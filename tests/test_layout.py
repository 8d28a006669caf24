"""The house rules that hold between the packages."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent.config.ceilings import DISK, NETWORK

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = {
    "agent": {"agent", "collectors", "models"},
    "collectors": {"collectors"},
    "models": {"models"},
}
IMPURE = {
    "time",
    "datetime",
    "socket",
    "pathlib",
    "os",
    "psutil",
    "pymysql",
    "logging",
    "threading",
}


def imported_modules(path: Path) -> set[str]:
    """Top-level names of every module that the file imports, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add((node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_point_one_way(package: str) -> None:
    """Agent may import collectors and models; neither imports the agent or the other."""
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        forbidden = (imported_modules(path) & set(ALLOWED)) - ALLOWED[package]
        assert not forbidden, f"{path} imports {forbidden}"


@pytest.mark.parametrize("start", [DISK, NETWORK])
def test_how_a_device_begins_is_said_once(start: str) -> None:
    """Whoever asks for the disks among the resources finds all of them."""
    said = [
        path.name
        for path in sorted((ROOT / "agent").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.search(rf"(^|\|){start}", node.value)
    ]
    assert said == ["ceilings.py"]


def test_models_touch_no_clock_file_or_socket() -> None:
    """A model is a function of its arguments alone."""
    for path in (ROOT / "models").rglob("*.py"):
        assert not imported_modules(path) & IMPURE, path


def test_the_daemon_starts_without_what_it_seldom_needs() -> None:
    """SciPy takes 40 MiB and random numbers 6: what needs them loads them when it is asked."""
    script = "import sys, agent.daemon; print({'scipy', 'numpy.random'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
