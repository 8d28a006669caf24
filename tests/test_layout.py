"""The house rules that hold between the packages."""

import ast
from pathlib import Path

import pytest

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


def test_models_touch_no_clock_file_or_socket() -> None:
    """A model is a function of its arguments alone."""
    for path in (ROOT / "models").rglob("*.py"):
        assert not imported_modules(path) & IMPURE, path
