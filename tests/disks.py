"""File systems of a test's own: small ones, to be full and read-only."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.real.daemon import is_root
from testbed.real.server_programs import missing


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of that size, for the length of the block."""
    if not is_root():
        missing("right to mount", "it takes root")
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        missing("right to mount", done.stderr.strip())
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def own_disk(folder: Path, size: str) -> Iterator[Path]:
    """A folder on a block device of its own, which nobody else reads or writes.

    The device is a file; where there are no such devices, the folder is on the disk that it is on.
    """
    folder.mkdir()
    image = folder.with_suffix(".image")
    commands = (
        ("truncate", f"--size={size}", image),
        ("mkfs.ext4", "-q", "-F", "-O", "^has_journal", image),
        ("mount", "-o", "loop", image, folder),
    )
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    try:
        for command in commands:
            subprocess.run(command, check=True, capture_output=True, env={"PATH": path})
    except (OSError, subprocess.CalledProcessError):
        yield folder
        return
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        image.unlink()


def remount(folder: Path, option: str) -> None:
    """Change the file system as it is mounted."""
    subprocess.run(["mount", "-o", f"remount,{option}", str(folder)], check=True)


def fill(file: Path) -> None:
    """Take all the room that is left on its disk."""
    with file.open("wb", buffering=0) as ballast:
        try:
            while ballast.write(b"\0" * 4096):
                pass
        except OSError:
            pass
