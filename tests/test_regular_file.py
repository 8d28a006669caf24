"""Small files named by others: a pipe, a device or a folder is refused without waiting."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.regular_file import first_bytes, read_whole


def fifo(path: Path) -> None:
    """A pipe without a writer."""
    os.mkfifo(path)


def to_a_device(name: str) -> Callable[[Path], None]:
    """A link to one."""
    return lambda path: path.symlink_to(name)


@pytest.mark.parametrize(
    "make", [fifo, Path.mkdir, to_a_device("/dev/zero"), to_a_device("/dev/tty")]
)
def test_another_kind_of_file_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """The error has its name, before anything was opened."""
    path = tmp_path / "file"
    make(path)
    with pytest.raises(OSError, match=r"not a regular file|Is a directory") as caught:
        read_whole(path, 100)
    assert caught.value.filename == str(path)


@pytest.mark.skipif(not os.access("/proc/kmsg", os.R_OK), reason="/proc/kmsg is root's")
def test_an_endless_regular_file_is_refused_at_once() -> None:
    """The kernel's log is a regular file, and a reader waits for the next line."""
    found: list[object] = []

    def read() -> None:
        try:
            found.append(read_whole(Path("/proc/kmsg"), 100))
        except OSError as error:
            found.append(error.errno)

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    reading.join(20)
    assert found[0] in (errno.EAGAIN, errno.EFBIG, errno.EPERM)


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    """A link is followed: containers provide secrets like that."""
    (tmp_path / "file").write_bytes(b"x" * 100)
    link = tmp_path / "link"
    link.symlink_to("file")
    assert read_whole(link, 100) == b"x" * 100
    assert first_bytes(link, 10) == b"x" * 10
    with pytest.raises(OSError, match="larger than 99 bytes") as caught:
        read_whole(link, 99)
    assert caught.value.errno == errno.EFBIG
    with pytest.raises(FileNotFoundError):
        read_whole(tmp_path / "none", 1)
