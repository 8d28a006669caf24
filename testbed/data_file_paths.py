"""Paths of the recorded and published class files, which lie beside the checkout."""

from pathlib import Path

from testbed.real.server_programs import ROOT, missing

FOLDER = ROOT.parent / "shared" / "data"
HOME = "VividCortex/wlr's sample-data and recordings of MySQL 9.7 go into ../shared/data"


def data(name: str) -> Path:
    """Return the path of a data file; skip the test without it, or fail if all must be there."""
    path = FOLDER / name
    return path if path.exists() else missing(name, HOME)
