"""A type for paths in the configuration: the file must exist; relative to the configuration."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated

from agent.config.base_model import Parsed
from agent.config.systemd_credentials import readable_path

_base_folder: ContextVar[Path] = ContextVar("base_folder", default=Path())


@contextmanager
def relative_to(folder: Path) -> Iterator[None]:
    """Make relative paths of a configuration, which is validated inside, start at a folder."""
    token = _base_folder.set(folder)
    try:
        yield
    finally:
        _base_folder.reset(token)


def from_base_folder(name: str | Path) -> Path:
    """Return the path that a configuration names; a relative one starts at `relative_to`."""
    return _base_folder.get() / name


def _parse_existing_file(name: object) -> Path:
    if not isinstance(name, str | Path):
        raise ValueError("must be the path of a file")
    path = from_base_folder(name)
    if not is_file(path):
        if os.path.isdir(path):  # noqa: PTH112  (no error for an invalid name)
            raise ValueError("is a directory; name a file in it")
        is_relative = not Path(name).is_absolute()
        start = "a relative path starts at the configuration's folder"
        raise ValueError(f"no such file; {start if is_relative else 'check the path'}")
    return readable_path(path)


def is_file(path: Path) -> bool:
    """Return whether a path is an accessible file; no error for invalid or too long names."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


ExistingFile = Annotated[Path, Parsed(_parse_existing_file)]
