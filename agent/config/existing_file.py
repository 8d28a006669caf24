"""A type for paths in the configuration: the file must exist; relative to the configuration."""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated

from agent.config.base_model import Parsed
from agent.config.systemd_credentials import readable_path

NO_SUCH_FILE = "no such file; check the path"

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
    """Return the path that a configuration names; a relative one starts at `relative_to`.

    Raises ValueError for one that begins with `~`: the agent and `check` may have two users.
    """
    if str(name).startswith("~"):
        raise ValueError("begins with ~, which is not expanded; write the whole path")
    return _base_folder.get() / name


def _parse_existing_file(name: object) -> Path:
    if not isinstance(name, str | Path):
        raise ValueError("must be the path of a file")
    path = from_base_folder(name)
    problem = file_problem(path)
    if problem == NO_SUCH_FILE and not Path(name).is_absolute():
        problem = "no such file; a relative path starts at the configuration's folder"
    if problem:
        raise ValueError(problem)
    return readable_path(path)


def file_problem(path: Path) -> str:
    """Return why the path names no file, with the remedy; empty if it names one."""
    try:
        mode = path.stat().st_mode
    except PermissionError:
        return "this user may not enter its folder; permit that, or copy the file to another"
    except (OSError, ValueError):  # also of a name that is too long
        return NO_SUCH_FILE
    if stat.S_ISDIR(mode):
        return "is a directory; name a file in it"
    return "" if stat.S_ISREG(mode) else "is a pipe or a device; name a regular file"


ExistingFile = Annotated[Path, Parsed(_parse_existing_file)]
