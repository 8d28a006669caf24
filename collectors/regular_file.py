"""Reads small files whose paths come from outside: only regular, size limited, never blocking.

Such a path may name a pipe without a writer, a device that has no end or acts when it is opened,
or a file of the kernel that blocks until there is something to read.
"""

import errno
import os
import stat
from pathlib import Path

OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_whole(path: Path, most: int) -> bytes:
    """Read the whole file; raises OSError also where it has more than `most` bytes."""
    content = first_bytes(path, most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {_size_text(most)}", str(path))
    return content


def first_bytes(path: Path, count: int) -> bytes:
    """Read the first `count` bytes, or fewer; raises OSError where it is not a regular file."""
    _require_regular(path, path.stat())  # before it is opened, on which a device may act
    descriptor = os.open(path, OPEN_FLAGS)
    try:
        _require_regular(path, os.fstat(descriptor))  # it may have been replaced since
        return _read(descriptor, count)
    except BlockingIOError:
        raise OSError(errno.EAGAIN, "does not end", str(path)) from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(descriptor)


def _require_regular(path: Path, about: os.stat_result) -> None:
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "a pipe or a device, not a regular file", str(path))


def _read(descriptor: int, count: int) -> bytes:
    content = b""
    while len(content) < count and (more := os.read(descriptor, count - len(content))):
        content += more
    return content


def _size_text(size: int) -> str:
    return f"{size // 1024} KiB" if size >= 1024 else f"{size} bytes"
