"""Reading lock files."""

import re
from pathlib import Path


def pinned(lock: Path) -> dict[str, str]:
    """Return the version of each library."""
    return dict(re.findall(r"(?m)^([a-z0-9-]+)==([^ ]+)", lock.read_text()))
