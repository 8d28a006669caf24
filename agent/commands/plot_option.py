"""`--plot` draws with matplotlib, which not every installation has."""

import sys
from importlib.util import find_spec

MATPLOTLIB = "matplotlib>=3.8"
"""As the extra `plot` in pyproject.toml has it."""


def without_matplotlib() -> str | None:
    """Return how to install it where it is missing, else None; loads nothing."""
    if find_spec("matplotlib") is not None:
        return None
    remedy = f"{sys.executable} -m pip install '{MATPLOTLIB}' adds it"
    return f"--plot needs matplotlib, which is not installed here; {remedy}"
