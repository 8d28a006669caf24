"""A user of this machine other than root, and a folder that this user may enter."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65_534


@contextmanager
def as_unprivileged_user() -> Iterator[None]:
    """Drop root's privileges while the block lasts."""
    us = os.geteuid()
    if us == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(us)


@contextmanager
def world_readable_folder() -> Iterator[Path]:
    """Create a folder that every user may enter, unlike those of the other tests."""
    all_enter = Path(tempfile.gettempdir()).parent  # ours is private
    with tempfile.TemporaryDirectory(dir=all_enter) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o700)
