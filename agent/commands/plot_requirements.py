"""`--plot` draws with matplotlib, which not every installation has."""

import sys
from importlib.util import find_spec
from pathlib import Path

MATPLOTLIB = "matplotlib>=3.8"
"""As the extra `plot` in pyproject.toml has it."""


def without_matplotlib() -> str | None:
    """Return how to install it where it is missing, else None; loads nothing."""
    if find_spec("matplotlib") is not None:
        return None
    remedy = f"{sys.executable} -m pip install '{MATPLOTLIB}' adds it"
    return f"--plot needs matplotlib, which is not installed here; {remedy}"


def plot_problem(path: str) -> str | None:
    """Return why no plot can be drawn into that file, before anything else is done; None: none."""
    if not path.lower().endswith((".png", ".svg")):
        return f"{path}: a plot ends in .png or .svg"
    if not Path(path).parent.is_dir():
        return f"{path}: there is no such directory"
    return None
