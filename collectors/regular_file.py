"""Read small files named by others: regular files only, within a bound, without waiting.

Such a name may lead to a pipe without a writer, to a device that has no end or acts when it
is opened, or to one of the kernel's files that wait for news.
"""

import errno
import os
import stat
from pathlib import Path

HOW = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_whole(path: Path, most: int) -> bytes:
    """All of the file; raises OSError also where it has more than `most` bytes."""
    content = first_bytes(path, most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {_in_words(most)}", str(path))
    return content


def first_bytes(path: Path, count: int) -> bytes:
    """Its beginning, all of it where it is shorter; raises OSError where it is no regular file."""
    _must_be_regular(path, path.stat())  # before it is opened: a device may act on that
    descriptor = os.open(path, HOW)
    try:
        _must_be_regular(path, os.fstat(descriptor))  # it may be another one by now
        return _read(descriptor, count)
    except BlockingIOError:
        raise OSError(errno.EAGAIN, "does not end", str(path)) from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(descriptor)


def _must_be_regular(path: Path, about: os.stat_result) -> None:
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "a pipe or a device, not a regular file", str(path))


def _read(descriptor: int, count: int) -> bytes:
    content = b""
    while len(content) < count and (more := os.read(descriptor, count - len(content))):
        content += more
    return content


def _in_words(size: int) -> str:
    return f"{size // 1024} KiB" if size >= 1024 else f"{size} bytes"
