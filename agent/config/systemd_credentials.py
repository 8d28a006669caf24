"""Credentials: files of root's that systemd copies for the agent (`LoadCredential=`)."""

import os
from pathlib import Path

FOLDER = Path("/etc/mysql-headroom")
"""A credential has only a name: it stands for the file of that name in here, and for no other."""


def readable(path: Path) -> Path:
    """Systemd's copy of a file in `FOLDER`, where it hands one over under that name; else the path.

    So that one configuration serves both the service, whose user may not read the file, and root.
    https://www.freedesktop.org/software/systemd/man/systemd.exec.html#LoadCredential=ID:PATH
    """
    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    if credentials is None or path.parent != FOLDER:
        return path
    copy = Path(credentials) / path.name
    return copy if copy.is_file() else path
