"""Opening a history: to write it, as the one agent whose it is, or to read beside that agent."""

import sqlite3
from pathlib import Path

from agent.store.failures import StoreError, StoreFailure, as_store_error
from agent.store.files import make_private
from agent.store.schema import VERSION, migrate, version_of

PATIENCE = 2.0  # seconds that a statement waits for somebody else's lock
MOST_LOG = 4 * 2**20  # bytes that the write-ahead log keeps between two checkpoints

SETTINGS = (
    "PRAGMA auto_vacuum = INCREMENTAL",  # before there are tables
    "PRAGMA journal_mode = WAL",  # readers never wait for the writer, nor it for them
    "PRAGMA synchronous = FULL",  # a transaction is on the disk when it is done
    f"PRAGMA journal_size_limit = {MOST_LOG}",
    "PRAGMA foreign_keys = ON",
)


def open_to_write(path: Path, *, check: bool = False) -> sqlite3.Connection:
    """The history, made or brought up to date where need be; with `check` each page is looked at.

    Raises `StoreError`.
    """
    try:
        make_private(path)
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
        try:
            version_of(connection)  # what is not ours is not touched
            for setting in SETTINGS:
                connection.execute(setting)
            if check:
                _check(connection)
            migrate(connection)
        except BaseException:
            connection.close()
            raise
    except (sqlite3.Error, OSError) as error:
        raise as_store_error(path, error) from error
    except StoreError as error:
        raise StoreError(error.kind, f"{path}: {error}") from error
    return connection


def open_to_read(path: Path) -> sqlite3.Connection:
    """The history as it is, to be read only: whoever writes it does not notice.

    Raises `StoreError`.
    """
    if not path.is_file():
        text = f"{path}: there is no such history; the agent makes it when it runs with `history`"
        raise StoreError(StoreFailure.IO, text)
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)
        try:
            version = version_of(connection)
        except BaseException:
            connection.close()
            raise
    except (sqlite3.Error, OSError) as error:
        raise as_store_error(path, error) from error
    except StoreError as error:
        raise StoreError(error.kind, f"{path}: {error}") from error
    if version < VERSION:
        connection.close()
        text = f"made by an earlier version of the agent (schema {version}, here {VERSION})"
        remedy = "start the agent once: it brings the file up to date"
        raise StoreError(StoreFailure.IO, f"{path}: {text}; {remedy}")
    return connection


def _check(connection: sqlite3.Connection) -> None:
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise StoreError(StoreFailure.CORRUPT, str(found).splitlines()[-1])
