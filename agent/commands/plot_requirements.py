"""Checks for `--plot`: that matplotlib, which is optional, is installed, and the file's path."""

import sys
from importlib.util import find_spec
from pathlib import Path

MATPLOTLIB = "matplotlib>=3.8"
"""As in the extra `plot` in pyproject.toml."""


def matplotlib_problem() -> str | None:
    """Return how to install matplotlib if it is missing, else None, without importing it."""
    if find_spec("matplotlib") is not None:
        return None
    remedy = f"{sys.executable} -m pip install '{MATPLOTLIB}' adds it"
    return f"--plot needs matplotlib, which is not installed here; {remedy}"


def plot_path_problem(path: str) -> str | None:
    """Return why no plot can be written to that file, or None; to check before anything else."""
    if not path.lower().endswith((".png", ".svg")):
        return f"{path}: a plot is written as PNG or SVG; end its name in .png or .svg"
    if not Path(path).parent.is_dir():
        remedy = "name a file in a directory that exists"
        return f"{path}: the plot cannot be written (no such directory); {remedy}"
    return None
