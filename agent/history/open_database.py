"""Opening a history: to write it as the one agent that owns it, or to read it beside that agent."""

import errno
import os
import sqlite3
import stat
import time
from pathlib import Path
from typing import Any

from agent.history.failures import StoreError, StoreFailure, as_store_error
from agent.history.history_file import log_size, make_private, refuse_foreign_file
from agent.history.schema import VERSION, migrate, refuse_other_tables, version_of

BUSY_TIMEOUT = 2.0  # seconds that a statement waits for another program's lock
MAX_LOG_BYTES = 4 * 2**20  # bytes that the write-ahead log keeps between two checkpoints
PAGE_CACHE_KIB = 512  # of pages kept in memory: rows are appended, and few are read again

MAX_STATEMENT_SECONDS = 20.0  # seconds; counting all rows of 512 MiB takes one
MAX_CELL_BYTES = 2**24  # bytes
PROGRESS_STEPS = 10_000  # instructions of SQLite between two checks of the time: 1 ms

NEW_FILE_PRAGMA = "PRAGMA auto_vacuum = INCREMENTAL"  # has to precede the first table
SETTINGS = (
    "PRAGMA journal_mode = WAL",  # readers and the writer never wait for each other
    "PRAGMA synchronous = FULL",  # a committed transaction is on the disk
    f"PRAGMA journal_size_limit = {MAX_LOG_BYTES}",
    "PRAGMA foreign_keys = ON",
    f"PRAGMA cache_size = -{PAGE_CACHE_KIB}",
)


def open_to_write(path: Path, *, check: bool = False) -> sqlite3.Connection:
    """Open the history, created or migrated if need be; `check` verifies every page.

    Raises `StoreError`.
    """
    refuse_foreign_file(path)
    try:
        make_private(path)
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None)
        try:
            is_new = version_of(connection) == 0  # refuses other files before any change
            if check and not is_new:
                _check_pages(connection)
            for setting in (NEW_FILE_PRAGMA, *SETTINGS) if is_new else SETTINGS:
                connection.execute(setting)
            migrate(connection)
        except BaseException:
            connection.close()
            raise
    except (sqlite3.Error, OSError) as error:
        raise as_store_error(path, error) from error
    except StoreError as error:
        raise StoreError(error.kind, f"{path}: {error}") from error
    return connection


class BoundedReading(sqlite3.Connection):
    """A connection whose statements time out: pages of a hostile file may form a cycle.

    A statement is interrupted at its time limit, which also covers rows fetched later.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline = time.monotonic() + MAX_STATEMENT_SECONDS
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_CELL_BYTES)
        self.set_progress_handler(self._is_timed_out, PROGRESS_STEPS)

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """Execute a statement with a new time limit."""
        self._deadline = time.monotonic() + MAX_STATEMENT_SECONDS
        return super().execute(*arguments)

    def _is_timed_out(self) -> bool:
        return time.monotonic() > self._deadline


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open the history for reading only, without disturbing the writer.

    Raises `StoreError`.
    """
    _require_readable_file(path)
    try:
        try:
            connection, version = _connect_read_only(path, "mode=ro")
        except sqlite3.Error:  # a full or read-only disk has no room for the readers' index
            if log_size(path):
                raise
            connection, version = _connect_read_only(path, "immutable=1")
    except (sqlite3.Error, OSError) as error:
        raise as_store_error(path, error) from error
    except StoreError as error:
        raise StoreError(error.kind, f"{path}: {error}") from error
    try:
        if version < VERSION:
            raise StoreError(StoreFailure.IO, _old_version_message(version))
        refuse_other_tables(connection)
    except (sqlite3.Error, StoreError) as error:
        connection.close()
        if isinstance(error, StoreError):
            raise StoreError(error.kind, f"{path}: {error}") from error
        raise as_store_error(path, error) from error
    return connection


def _require_readable_file(path: Path) -> None:
    """Raise `StoreError` with the remedy unless the path is a readable, regular file."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        text = "there is no history at this path; check it: the agent creates the file when it runs"
        raise StoreError(StoreFailure.IO, f"{path}: {text}") from None
    except OSError as error:
        raise as_store_error(path, error) from error
    if not stat.S_ISREG(mode):
        what = (
            "a folder; name the file in it"
            if stat.S_ISDIR(mode)
            else "not a regular file; check the path"
        )
        raise StoreError(StoreFailure.IO, f"{path}: this is {what}")
    if not os.access(path, os.R_OK, effective_ids=True):  # open and close would end its locks
        denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        raise as_store_error(path, denied)


def _old_version_message(version: int) -> str:
    """Return the message for a file of an earlier version, or for an empty file."""
    if version == 0:
        return "this file is empty; check the path: the agent fills it when it runs"
    text = f"made by an earlier version of the agent (schema {version}, here {VERSION})"
    return f"{text}; start the agent once: it brings the file up to date"


def _connect_read_only(path: Path, option: str) -> tuple[sqlite3.Connection, int]:
    """Return a connection that cannot write, and the version of the tables."""
    uri = f"{path.absolute().as_uri()}?{option}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None, factory=BoundedReading
    )
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        return connection, version_of(connection)
    except BaseException:
        connection.close()
        raise


def _check_pages(connection: sqlite3.Connection) -> None:
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise StoreError(StoreFailure.CORRUPT, str(found).splitlines()[-1])
