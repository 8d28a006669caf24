"""The recorded and published class files, where they lie beside the checkout."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"
HOME = "VividCortex/wlr's sample-data and recordings of MySQL 9.7 are not beside the checkout"


def data(name: str) -> Path:
    """Path of a data file; skips the test where it is absent."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{HOME}: no {name}")
    return path
