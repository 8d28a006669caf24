"""Atomic replacement of a file, once the new one is complete."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

MAX_PREFIX_LENGTH = 100  # characters of the final name in the temporary name


@contextmanager
def replace_atomically(path: Path, mode: int = 0o600) -> Iterator[TextIO]:
    """Open a new file of that mode; it replaces a link or a file at `path` when the block ends.

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
