"""Detection of changes that other programs have made to the history's file since our last write.

SQLite trusts its pages in memory and its index of the log; it notices damage to the file only when
it next reads the page, perhaps not before the next start.
"""

import sqlite3
from pathlib import Path

from agent.history.history_file import log_path

Stamp = tuple[int, int, int] | None


class ForeignWriteCheck:
    """Watches one history: call `checkpoint` after each own write, then read `found`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Stamp = None
        self._log: Stamp = None

    def checkpoint(self, connection: sqlite3.Connection) -> None:
        """Copy the log into the file, unless a reader blocks it, and note the state of both."""
        if log_size := _size(_stamp(log_path(self._path))):
            busy_timeout = connection.execute("PRAGMA busy_timeout").fetchone()[0]
            connection.execute("PRAGMA busy_timeout = 0")
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.execute(f"PRAGMA busy_timeout = {busy_timeout}")
        self.note(with_log=bool(log_size))

    def note(self, *, with_log: bool = True) -> None:
        """Record the present state of file and log as valid; an empty log is not watched."""
        self._file = _stamp(self._path)
        log = _stamp(log_path(self._path)) if with_log else None
        self._log = log if _size(log) else None

    @property
    def found(self) -> bool:
        """True if the file or its log has changed since the last `note`."""
        if _stamp(self._path) != self._file:
            return True
        return self._log is not None and _stamp(log_path(self._path)) != self._log


def _stamp(path: Path) -> Stamp:
    """Return inode, size and change time (ctime, which programs cannot set)."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_ctime_ns


def _size(stamp: Stamp) -> int:
    return 0 if stamp is None else stamp[1]
