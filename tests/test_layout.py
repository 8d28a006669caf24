"""The house rules that hold between the packages."""

import ast
import gc
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from agent.config.resources import DISK, NETWORK

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = {
    "agent": {"agent", "collectors", "models"},
    "collectors": {"collectors"},
    "models": {"models"},
    "testbed": {"agent", "collectors", "models", "testbed"},
    "tests": {"agent", "collectors", "models", "testbed", "tests"},
    "bench": {"agent", "collectors", "models", "testbed", "bench"},
}
"""Whom each package may import; `tests` and `bench` also stand for their modules."""
ROOMS = (
    "support",
    "config",
    "csv_input",
    "sampling",
    "window",
    "query_classes",
    "assessment",
    "pipeline",
    "history",
    "replay",
    "prometheus",
    "business_metrics",
    "compare",
    "groups",
    "export",
    "what_if",
    "web",
    "service",
    "demo",
    "commands",
    "cli",
)
"""The rooms of `agent`, each of which knows those before it."""
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


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Every node of a module, in no order; many rules look at the same modules.

    In CPython 3.11 a garbage collection meanwhile may end it with a SystemError (gh-106905).
    """
    gc.disable()
    try:
        return list(ast.walk(ast.parse(path.read_text())))
    finally:
        gc.enable()


@cache
def loose_modules(folder: Path) -> set[str]:
    """The modules that lie in it."""
    return {file.stem for file in folder.glob("*.py")}


@cache
def imported_modules(path: Path) -> set[str]:
    """Top-level names of every module that the file imports, wherever in the file."""
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add((node.module or "").split(".")[0])
    return names


def packages_imported(path: Path) -> set[str]:
    """The packages that the file imports from; loose modules are those of their folder."""
    names = set(imported_modules(path))
    for folder in ("bench", "tests"):
        loose = loose_modules(ROOT / folder)
        if path.parent != ROOT / folder:
            loose = loose - loose_modules(path.parent)
        names |= {folder} if names & loose else set()
    return names


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_point_one_way(package: str) -> None:
    """Agent may import collectors and models, the test bed all three; tests and bench all four."""
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        forbidden = (packages_imported(path) & set(ALLOWED)) - ALLOWED[package]
        assert not forbidden, f"{path} imports {forbidden}"


def rooms_known_to(path: Path) -> set[str]:
    """The rooms of `agent` that a file imports from."""
    names: set[str] = set()
    for node in nodes(path):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        names |= {module.split(".")[1] for module in modules if module.startswith("agent.")}
    return names


@pytest.mark.parametrize("room", ROOMS)
def test_a_folder_imports_only_earlier_ones(room: str) -> None:
    """Sampling → window → assessment → history → export → web → service → commands, never back."""
    files = sorted((ROOT / "agent" / room).rglob("*.py")) or [ROOT / "agent" / f"{room}.py"]
    allowed = set(ROOMS[: ROOMS.index(room) + 1])
    for path in files:
        unknown = rooms_known_to(path) - allowed
        assert not unknown, f"{path} imports from {unknown}"


def test_every_module_is_in_a_folder() -> None:
    """Only the entry and the pipeline are at the top of `agent`."""
    there = {path.stem for path in (ROOT / "agent").iterdir() if path.suffix == ".py"}
    assert there == {"__init__", "cli", "pipeline"}
    folders = {path.parent.name for path in (ROOT / "agent").glob("*/__init__.py")}
    assert folders | {"pipeline", "cli"} == set(ROOMS)


@pytest.mark.parametrize("start", [DISK, NETWORK])
def test_the_prefix_of_a_device_is_defined_once(start: str) -> None:
    """Whoever selects the disks among the resources finds all of them."""
    said = [
        path.name
        for path in sorted((ROOT / "agent").rglob("*.py"))
        for node in nodes(path)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.search(rf"(^|\|){start}", node.value)
    ]
    assert said == ["resources.py"]


def type_names(path: Path) -> Iterator[str]:
    """The classes and type aliases of a module that others may import."""
    module = nodes(path)[0]
    assert isinstance(module, ast.Module)
    for node in module.body:
        names = [node.name] if isinstance(node, ast.ClassDef) else []
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        yield from (name for name in names if name[0].isupper() and not name.isupper())


def test_a_type_has_a_name_of_its_own() -> None:
    """One word for each thing; `Array` is also the collectors' own, who import no model."""
    packages = ("agent", "collectors", "models", "testbed")
    files = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    counts = Counter(name for path in files for name in type_names(path))
    assert {name: count for name, count in counts.items() if count > 1} == {"Array": 2}


def test_models_use_no_clock_file_or_socket() -> None:
    """A model is a function of its arguments alone."""
    for path in (ROOT / "models").rglob("*.py"):
        assert not imported_modules(path) & IMPURE, path


def test_the_daemon_starts_without_what_is_seldom_used() -> None:
    """SciPy takes 40 MiB, random numbers 6, masked arrays 2, modules of the agent one."""
    seldom = {
        *("scipy", "numpy.random", "numpy.ma", "bcrypt", "statistics", "zipfile", "difflib"),
        *("agent.compare", "agent.replay", "agent.csv_input", "agent.what_if", "agent.export.page"),
        *("models.what_if.predict", "models.what_if.sla_headroom"),
    }
    script = f"import sys, agent.service.daemon; print({seldom} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
