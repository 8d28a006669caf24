"""A file that takes the place of another once it is whole."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

MAX_PREFIX_LENGTH = 100  # characters of the name that the unfinished file's name begins with


@contextmanager
def replacement(path: Path, mode: int = 0o600) -> Iterator[TextIO]:
    """Write a new file of that mode; a link or a file at `path` is replaced when the block ends.

    Until then it has an unpredictable name, so no link is followed; after an error it is
    removed, and what was at `path` stays.
    """
    descriptor, name = tempfile.mkstemp(
        prefix=f".{path.name[:MAX_PREFIX_LENGTH]}.", dir=path.parent
    )
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, mode)
            yield file
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
