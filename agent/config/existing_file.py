"""A type for paths in the configuration: the file must exist."""

from pathlib import Path
from typing import Annotated

from agent.config.base_model import Parsed
from agent.config.systemd_credentials import readable_path


def _parse_existing_file(name: object) -> Path:
    if not isinstance(name, str | Path):
        raise ValueError("must be the path of a file")
    path = Path(name)
    if not is_file(path):
        raise ValueError("no such file")
    return readable_path(path)


def is_file(path: Path) -> bool:
    """Return whether a path is an accessible file; no error for invalid or too long names."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


ExistingFile = Annotated[Path, Parsed(_parse_existing_file)]
