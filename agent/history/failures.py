"""Failures of a history: one error, `StoreError`, with a kind from a fixed set."""

import errno
import sqlite3
from enum import StrEnum

from agent.support.errors import HeadroomError


class StoreFailure(StrEnum):
    """Why the history cannot be used: the label of `history_write_failures_total`."""

    FULL = "full"  # no room on the disk
    READ_ONLY = "read_only"  # the file, its folder or its file system
    TAKEN = "taken"  # another agent writes this file
    BUSY = "busy"  # another program held it locked for too long
    CORRUPT = "corrupt"
    NEWER = "newer"  # made by a later version of the agent
    FOREIGN = "foreign"  # not a file of the agent
    EXPOSED = "exposed"  # other users could change it
    IO = "io"  # any other error of the disk or the library


class StoreError(HeadroomError):
    """The history cannot be used; the message is one line, with the remedy if there is one."""

    def __init__(self, kind: StoreFailure, message: str) -> None:
        super().__init__(message)
        self.kind = kind


SQLITE_FAILURES = {
    sqlite3.SQLITE_FULL: StoreFailure.FULL,
    sqlite3.SQLITE_READONLY: StoreFailure.READ_ONLY,
    sqlite3.SQLITE_PERM: StoreFailure.READ_ONLY,
    sqlite3.SQLITE_BUSY: StoreFailure.BUSY,
    sqlite3.SQLITE_LOCKED: StoreFailure.BUSY,
    sqlite3.SQLITE_CORRUPT: StoreFailure.CORRUPT,
    sqlite3.SQLITE_NOTADB: StoreFailure.CORRUPT,
}
SYSTEM_FAILURES = {
    errno.ENOSPC: StoreFailure.FULL,
    errno.EDQUOT: StoreFailure.FULL,
    errno.EFBIG: StoreFailure.FULL,
    errno.EROFS: StoreFailure.READ_ONLY,
    errno.EACCES: StoreFailure.READ_ONLY,
    errno.EPERM: StoreFailure.READ_ONLY,
}
SHORT_READ = 522  # SQLITE_IOERR_SHORT_READ: the file ends where a page should be
NO_ROOM_FOR_INDEX = 4874  # SQLITE_IOERR_SHMSIZE: the log's index, a file of 32 KiB, cannot grow
NO_ROOM_FOR_INDEX_TEXT = "database or disk is full"  # the library says: disk I/O error
EXTENDED_CODES = {SHORT_READ: sqlite3.SQLITE_CORRUPT, NO_ROOM_FOR_INDEX: sqlite3.SQLITE_FULL}
SQLITE_REMEDIES = {
    sqlite3.SQLITE_FULL: "free space on that disk: with 1 MiB `history prune` can free more",
    sqlite3.SQLITE_READONLY: "the user who runs this needs write access to file and folder",
    sqlite3.SQLITE_BUSY: "another program has locked it: try again",
    sqlite3.SQLITE_LOCKED: "another program has locked it: try again",
    sqlite3.SQLITE_CORRUPT: "`sqlite3 FILE .recover` may save some of it",
    sqlite3.SQLITE_NOTADB: "this is not a history: check the path",
    sqlite3.SQLITE_INTERRUPT: "reading takes too long: the file is damaged or far too large",
    sqlite3.SQLITE_TOOBIG: "the file is damaged, or was not made by the agent",
}
SYSTEM_REMEDIES = {
    errno.ENOSPC: "free space on that disk",
    errno.EDQUOT: "free space on that disk",
    errno.EROFS: "choose a path on a writable file system",
    errno.EACCES: "run this as the agent's user or root: the file is private",
    errno.EPERM: "run this as the agent's user or root: the file is private",
    errno.ENOENT: "create its folder",
    errno.ENOTDIR: "its folder is a file: check the path",
    errno.EEXIST: "its folder is a file: check the path",
    errno.EISDIR: "name the file in it",
    errno.ELOOP: "name the file itself, not a link to it",
}


def as_store_error(path: object, error: Exception) -> StoreError:
    """Convert an error of SQLite or the system to a `StoreError`; `path` is what it concerns."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, OSError):
        number = error.errno or 0
        kind, remedy = SYSTEM_FAILURES.get(number), SYSTEM_REMEDIES.get(number)
        return StoreError(kind or StoreFailure.IO, _message(path, error.strerror or error, remedy))
    code = getattr(error, "sqlite_errorcode", None) or 0
    what = NO_ROOM_FOR_INDEX_TEXT if code == NO_ROOM_FOR_INDEX else error
    code = EXTENDED_CODES.get(code, code & 0xFF)
    kind, remedy = SQLITE_FAILURES.get(code), SQLITE_REMEDIES.get(code)
    return StoreError(kind or StoreFailure.IO, _message(path, what, remedy))


def _message(path: object, what: object, remedy: str | None) -> str:
    return f"{path}: {what}; {remedy}" if remedy else f"{path}: {what}"
