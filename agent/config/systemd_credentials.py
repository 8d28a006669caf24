"""Credentials: files owned by root that systemd copies for the agent (`LoadCredential=`)."""

import os
from pathlib import Path

CREDENTIAL_FOLDER = Path("/etc/mysql-headroom")
"""A credential has only a name, and replaces only the file of that name in this folder."""


def readable_path(path: Path) -> Path:
    """Return systemd's copy of a file in `CREDENTIAL_FOLDER`, if there is one; else the path.

    One configuration thus serves both the service, whose user may not read the file, and root.
    https://www.freedesktop.org/software/systemd/man/systemd.exec.html#LoadCredential=ID:PATH
    """
    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    if credentials is None or path.parent != CREDENTIAL_FOLDER:
        return path
    copy = Path(credentials) / path.name
    return copy if copy.is_file() else path
