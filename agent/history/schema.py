"""The tables of a history, and the migrations from each version to the next."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache

from agent.history.failures import StoreError, StoreFailure

APPLICATION_ID = 0x4D484452  # "MHDR"; see https://www.sqlite.org/pragma.html#pragma_application_id

MIGRATIONS: Sequence[str] = (
    """
    CREATE TABLE target (
      id INTEGER PRIMARY KEY,
      name TEXT NOT NULL,
      server TEXT NOT NULL,
      UNIQUE (name, server)
    );
    CREATE TABLE interval (
      target INTEGER NOT NULL REFERENCES target (id) ON DELETE CASCADE,
      at INTEGER NOT NULL,
      seconds REAL NOT NULL,
      throughput REAL NOT NULL,
      statement_time REAL,
      threads_running REAL,
      thread_samples REAL,
      excluded_agent REAL,
      excluded_binlog_dump REAL,
      excluded_system REAL,
      resources TEXT,
      PRIMARY KEY (target, at)
    ) WITHOUT ROWID;
    CREATE TABLE fit (
      target INTEGER NOT NULL REFERENCES target (id) ON DELETE CASCADE,
      at INTEGER NOT NULL,
      trust TEXT NOT NULL,
      reasons TEXT,
      limited_by TEXT,
      source TEXT,
      points REAL,
      capacity REAL,
      capacity_lower REAL,
      capacity_upper REAL,
      sigma REAL,
      kappa REAL,
      lambda REAL,
      n_max REAL,
      n_max_lower REAL,
      n_max_upper REAL,
      x_max REAL,
      x_max_lower REAL,
      x_max_upper REAL,
      r_squared REAL,
      PRIMARY KEY (target, at)
    ) WITHOUT ROWID;
    """,
    # Samples in chunks: packed per collector (sample_compression.py); `at` is the last sample's.
    """
    CREATE TABLE layout (
      id INTEGER PRIMARY KEY,
      names TEXT NOT NULL UNIQUE
    );
    CREATE TABLE sample (
      target INTEGER NOT NULL REFERENCES target (id) ON DELETE CASCADE,
      collector TEXT NOT NULL,
      at INTEGER NOT NULL,
      first INTEGER NOT NULL,
      count INTEGER NOT NULL,
      layout INTEGER NOT NULL REFERENCES layout (id),
      data BLOB NOT NULL,
      UNIQUE (target, collector, at)
    );
    """,
    # What query classes used, interval by interval; `query_class.at` is the time of its latest row.
    """
    CREATE TABLE query_class (
      id INTEGER PRIMARY KEY,
      name TEXT NOT NULL UNIQUE,
      at INTEGER NOT NULL
    );
    CREATE TABLE class_use (
      target INTEGER NOT NULL REFERENCES target (id) ON DELETE CASCADE,
      at INTEGER NOT NULL,
      class INTEGER NOT NULL,
      seconds REAL NOT NULL,
      calls REAL,
      statement_time REAL,
      cpu REAL,
      cpu_error REAL,
      cpu_source TEXT,
      waits REAL,
      user_cpu REAL,
      system_cpu REAL,
      read REAL,
      written REAL,
      network REAL,
      row_operations REAL,
      removed_gain REAL,
      halved_gain REAL,
      PRIMARY KEY (target, at, class)
    ) WITHOUT ROWID;
    """,
    # Deploy markers; `target` is a name, empty if a marker is for all targets.
    """
    CREATE TABLE marker (
      id INTEGER PRIMARY KEY,
      at INTEGER NOT NULL,
      name TEXT NOT NULL,
      target TEXT NOT NULL,
      UNIQUE (at, name, target)
    );
    """,
    # Values of business metrics, by name.
    """
    CREATE TABLE business (
      target INTEGER NOT NULL REFERENCES target (id) ON DELETE CASCADE,
      at INTEGER NOT NULL,
      value TEXT NOT NULL,
      PRIMARY KEY (target, at)
    ) WITHOUT ROWID;
    """,
)
"""Step k migrates version k to version k + 1. A published step is never changed."""

VERSION = len(MIGRATIONS)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the tables up to date, all steps or none.

    Raises `StoreError` for a history of a later version and for a database that is not a history,
    and leaves both unchanged.
    """
    if version_of(connection) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in MIGRATIONS[version_of(connection) :]:
            for statement in filter(str.strip, step.split(";")):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def refuse_other_tables(connection: sqlite3.Connection) -> None:
    """Raise `StoreError` unless the tables are exactly those that the agent creates.

    A view or a trigger with the name of a table would run any SQL of its author.
    """
    if _contents(connection) != _expected_contents():
        text = "this file does not have the tables of a history; it was not made by the agent"
        raise StoreError(StoreFailure.FOREIGN, text)


@cache
def _expected_contents() -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        return _contents(connection)


def _contents(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    """Return tables and indexes by kind and name, with the statements that created them."""
    found = connection.execute(
        "SELECT type, name, tbl_name, IFNULL(sql, '') FROM sqlite_master LIMIT 100"
    )
    return sorted(tuple(map(str, row)) for row in found)


def version_of(connection: sqlite3.Connection) -> int:
    """Return the tables' version, 0 for an empty file; raises `StoreError` as `migrate` does."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    tables = len(connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall())
    if application != APPLICATION_ID and (application, version, tables) != (0, 0, 0):
        raise StoreError(
            StoreFailure.FOREIGN,
            "this database is not a history; set another path under `history`",
        )
    if version > VERSION:
        text = f"made by a later version of the agent (schema {version}, here {VERSION})"
        raise StoreError(StoreFailure.NEWER, f"{text}; use that version, or name another file")
    return int(version)
