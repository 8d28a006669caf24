"""The history's file: private, written by one agent at a time, renamed when it is corrupt."""

import errno
import fcntl
import os
import pwd
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from agent.history.failures import StoreError, StoreFailure, as_store_error
from agent.support.atomic_replace import replace_atomically

FILE_NAME = "history.db"
SQLITE_HEADER = b"SQLite format 3\0"  # https://www.sqlite.org/fileformat.html#the_database_header
LOCK = ".lock"  # suffix of an empty, private file that remains when the agent ends
MAX_CORRUPT_FILES = 3  # corrupt files that are kept; older ones are deleted
MIN_FREE_BYTES = 2**20
"""The least free space of its disk: a history that does not grow still writes its log."""
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
OTHERS_MAY_ANYTHING = stat.S_IRWXG | stat.S_IRWXO


def history_path(configured: Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the configured file, else one in the folder that the service manager provides."""
    if configured is not None:
        return configured
    folders = environment.get("STATE_DIRECTORY", "")
    return Path(folders.split(":")[0]) / FILE_NAME if folders else None


def refuse_foreign_file(path: Path) -> None:
    """Raise `StoreError` if this is a file of another kind, configured by mistake.

    The file is not changed. A history whose beginning was destroyed looks like one. It is
    recognised by its usual name, or by what an agent leaves beside it: its lock, or a log that was
    not merged.
    """
    is_plain = path.is_file() and not path.is_symlink()  # `make_private` refuses links
    if path.name == FILE_NAME or not is_plain:
        return
    if _is_our_lock(_companion(path, LOCK)) or _companion(path, "-wal").is_file():
        return
    with path.open("rb") as file:
        head = file.read(len(SQLITE_HEADER))
    if head and head != SQLITE_HEADER:
        text = "this file is not a history and was not changed; set another path under `history`"
        raise StoreError(StoreFailure.FOREIGN, f"{path}: {text}")


def path_problem(path: Path) -> str | None:
    """Return why no history can be written at this path by this user, or None; writes nothing."""
    folder = path.parent
    try:
        existing = folder if folder.exists() else folder.parent  # only the last folder is created
        if not existing.is_dir():
            return f"{existing}: no such folder; create it, owned by the user who runs the agent"
        if os.statvfs(existing).f_flag & os.ST_RDONLY:
            return str(as_store_error(existing, OSError(errno.EROFS, os.strerror(errno.EROFS))))
        if not os.access(existing, os.W_OK | os.X_OK):
            remedy = "run the check as the user who runs the agent, or make that user its owner"
            return f"{existing}: this user may not write into this folder; {remedy}"
        if path.is_dir():
            return f"{path}: it is a directory; name the file in it, as {path / FILE_NAME}"
        if shutil.disk_usage(existing).free < MIN_FREE_BYTES:
            return f"{existing}: less than 1 MiB is free on its disk; free space on it"
        if existing is folder and folder.stat().st_mode & OTHERS_MAY_WRITE:
            raise _exposed_error(folder)
        refuse_foreign_file(path)
    except StoreError as error:
        return str(error)
    except OSError as error:
        return f"{path}: cannot be read ({error.strerror}); check its permissions"
    return None


def _exposed_error(folder: Path) -> StoreError:
    problem = f"{folder}: other users may write into this folder"
    remedy = "give the history a folder of its own, mode 0700, of the user who runs the agent"
    return StoreError(StoreFailure.EXPOSED, f"{problem}; {remedy}")


def _is_our_lock(path: Path) -> bool:
    """Return whether an agent left this file: other programs use the same suffix."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    is_private = stat.S_IMODE(status.st_mode) & OTHERS_MAY_ANYTHING == 0
    return stat.S_ISREG(status.st_mode) and status.st_size == 0 and is_private


def make_private(path: Path) -> None:
    """Create the file if missing, readable only by its owner, in a private folder.

    Raises `StoreError` if others could change the folder's contents or if the path is not a regular
    file, `OSError` if it cannot be created.
    """
    make_folder(path.parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise StoreError(StoreFailure.IO, "this is not a regular file; check the path")
        if stat.S_IMODE(mode) & OTHERS_MAY_ANYTHING:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create the folder if missing, writable only by its owner; raises as `make_private`.

    Anyone who may write into the folder can replace the file.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.stat()
    if status.st_mode & OTHERS_MAY_WRITE:
        raise _exposed_error(folder)
    if status.st_uid not in (os.geteuid(), 0):
        problem = f"{folder}: this folder is {_user_name(status.st_uid)}'s"
        remedy = "run this as that user (docs/systemd.md: The history), or name another file"
        raise StoreError(StoreFailure.EXPOSED, f"{problem}; {remedy}")


def _user_name(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user {uid}"


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of the file that has this name now; None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def open_private(path: Path) -> Iterator[TextIO]:
    """Open a file of mode 0600 for writing, which replaces the former one once it is complete.

    A process that has the former file open, or may read it, cannot read the new one. A device or a
    pipe is written to directly.
    """
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as device:
            yield device
        return
    with replace_atomically(path.resolve()) as file:
        yield file


class Lock:
    """The lock of the agent that writes this file; the end of the process always releases it."""

    def __init__(self, path: Path) -> None:
        self._path = _companion(path, LOCK)
        self._descriptor: int | None = None

    def take(self) -> None:
        """Take the lock, if not yet held; raises `StoreError` if another agent holds it.

        If its file was deleted, with the folder, a new file is locked: the old lock stops no agent.
        """
        if self._descriptor is not None:
            held = os.fstat(self._descriptor)
            if (held.st_dev, held.st_ino) == file_identity(self._path):
                return
            self.release()
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            text = "another agent writes this history; give each agent a file of its own"
            raise StoreError(StoreFailure.TAKEN, f"{self._path.stem}: {text}") from None
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def rename_corrupt(path: Path, at: float) -> Path:
    """Rename a corrupt history and its log by date (`at`, Unix seconds); return the new path."""
    date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    aside = path.with_name(f"{path.name}.corrupt-{date}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{date}.{number}")
    path.rename(aside)
    _companion(path, "-shm").unlink(missing_ok=True)
    log = _companion(path, "-wal")
    if log.exists():
        log.rename(_companion(aside, "-wal"))
    _delete_old_corrupt_files(path)
    return aside


def size_on_disk(path: Path) -> int:
    """Return the bytes that the history takes on the disk, its log included."""
    return _file_size(path) + log_size(path)


def log_size(path: Path) -> int:
    """Return the bytes of its log: data not yet merged into the file."""
    return _file_size(log_path(path))


def log_path(path: Path) -> Path:
    """Return the path of the write-ahead log, which has data not yet merged into the file."""
    return _companion(path, "-wal")


def log_identities(path: Path) -> dict[Path, tuple[int, int] | None]:
    """Return the log and its index, and which file has that name now, as `file_identity` does."""
    return {file: file_identity(file) for file in (log_path(path), _companion(path, "-shm"))}


def _file_size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _companion(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _delete_old_corrupt_files(path: Path) -> None:
    """Delete all but the latest corrupt files, so that they do not fill the disk."""
    corrupt = [p for p in path.parent.glob(f"{path.name}.corrupt-*") if not p.name.endswith("-wal")]
    for old in sorted(corrupt, key=lambda p: p.stat().st_mtime)[:-MAX_CORRUPT_FILES]:
        old.unlink()
        _companion(old, "-wal").unlink(missing_ok=True)
