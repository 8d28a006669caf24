"""The recorded and published class files, where they lie beside the checkout."""

from pathlib import Path

from testbed.real.server_programs import ROOT, missing

FOLDER = ROOT.parent / "shared" / "data"
HOME = "VividCortex/wlr's sample-data and recordings of MySQL 9.7 go into ../shared/data"


def data(name: str) -> Path:
    """Path of a data file; without it skips the test, and fails it where all must be there."""
    path = FOLDER / name
    return path if path.exists() else missing(name, HOME)
