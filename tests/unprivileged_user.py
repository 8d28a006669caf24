"""Another user of this machine, who is not root, and a folder that he may enter."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65_534


@contextmanager
def as_unprivileged_user() -> Iterator[None]:
    """The rights of a user who is not root while the block lasts."""
    us = os.geteuid()
    if us == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(us)


@contextmanager
def world_readable_folder() -> Iterator[Path]:
    """A folder into which everybody may look, unlike those of the other tests."""
    all_enter = Path(tempfile.gettempdir()).parent  # ours is private
    with tempfile.TemporaryDirectory(dir=all_enter) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o700)
