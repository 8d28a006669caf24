"""`status`: the server's global status, readable by every account.

It is read from its table, together with the server's time and the settings that limit it, which
may be changed while it runs. A MySQL without performance_schema is read by SHOW GLOBAL STATUS,
which copies the whole status first; there the settings are those at the time of connecting.
"""

import re
import time
from collections.abc import Collection, Mapping
from dataclasses import replace

from collectors.base import CollectorError, FailureKind, Feature, Prepared, Values
from collectors.connection import Connection
from collectors.result_cells import ResultCell, ResultLimits, ResultRow, number
from collectors.server_clock import CLOCK, with_clock
from collectors.statement_totals import performance_schema_off

NAMES = {
    "Questions": "questions",
    "Threads_running": "threads_running",
    "Uptime": "uptime",
    "Uptime_since_flush_status": "uptime_since_flush",  # see FIRST_FLUSHED
    "Threads_connected": "threads_connected",
    "Slaves_connected": "replicas_connected",  # MariaDB only
    "Bytes_received": "bytes_received",
    "Bytes_sent": "bytes_sent",
    "Innodb_data_read": "innodb_read_bytes",
    "Innodb_data_written": "innodb_written_bytes",
    "Innodb_data_reads": "innodb_reads",
    "Innodb_data_writes": "innodb_writes",
    "Innodb_rows_read": "innodb_rows_read",  # not of MariaDB, see HANDLER_READS
    "Innodb_rows_inserted": "innodb_rows_inserted",
    "Innodb_rows_updated": "innodb_rows_updated",
    "Innodb_rows_deleted": "innodb_rows_deleted",
    "Innodb_row_lock_time": "innodb_row_lock_milliseconds",
    "Innodb_data_pending_reads": "innodb_pending_reads",
    "Innodb_os_log_pending_fsyncs": "redo_pending_flushes",
    "Innodb_log_writes": "redo_writes",
    "Innodb_os_log_fsyncs": "redo_syncs",  # MySQL only
    "Binlog_group_commits": "binlog_groups",  # MariaDB only
    "Performance_schema_digest_lost": "digests_lost",
    "Innodb_redo_log_checkpoint_lsn": "redo_checkpoint_lsn",  # MySQL 8.0.30 and later
    "Innodb_redo_log_current_lsn": "redo_current_lsn",
    "Innodb_redo_log_capacity_resized": "checkpoint_max_age_bytes",  # see _limits
    "Innodb_checkpoint_age": "checkpoint_age_bytes",  # MariaDB
    "Innodb_checkpoint_max_age": "checkpoint_max_age_bytes",
}
"""The server's names and the agent's. All are counters, except threads_*, replicas_connected,
checkpoint_* and *_pending_*."""

ROWS_READ, HANDLER_ROWS = "innodb_rows_read", "handler_rows_read"
HANDLER_READS = tuple(f"handler_read_{kind}" for kind in ("key", "next", "prev", "rnd_next"))
"""Rows that statements look up, or read one after the other, of any engine and of temporary tables:
MariaDB 10.6 and later count none of InnoDB's alone. They grow while a statement runs."""

KEYS = {name.lower().encode(): (name, key) for name, key in NAMES.items()}
"""By the name in lower case: MariaDB's table has other cases than SHOW."""
FLUSHED, FIRST_FLUSHED = "uptime_since_flush", (11, 5)
"""From this version of MariaDB on FLUSH GLOBAL STATUS takes back what ended sessions have counted;
elsewhere FLUSH STATUS takes nothing back from what is read here."""
REQUIRED = ("questions", "threads_running", "uptime")
SHOW = "SHOW GLOBAL STATUS WHERE Variable_name IN ({})".format(
    ", ".join(f"'{name}'" for name in NAMES)
)
TIME = "Time"
"""Name of the server's clock among what is read with the status."""
SELECT = "SELECT VARIABLE_NAME, VARIABLE_VALUE, {} FROM {} WHERE Variable_name IN ({})"
"""All rows have the same `added` columns: rows of their own would cost the server more."""
TABLE_MYSQL = "performance_schema.global_status"
TABLE_MARIADB = "information_schema.GLOBAL_STATUS"
"""Its variable names are in capitals."""
SETTINGS = ("max_connections", "innodb_thread_concurrency")
"""Variables that limit the server; some servers have no InnoDB threads."""
LIMITS = ResultLimits(columns=2, rows=len(NAMES) + len(HANDLER_READS), bytes=8192)


def prepare(connection: Connection) -> Prepared:
    """Prepare to read the global status, as every account may; report the session's protection."""
    added = _added_columns(connection)
    query = connection.repeated(_status_query(connection, added.values()))
    limits = replace(LIMITS, columns=2 + len(added))
    is_flushed = connection.is_mariadb and _version(connection) >= FIRST_FLUSHED

    def ask() -> tuple[list[ResultRow], dict[str, ResultCell]]:
        """Read the status, a name and a value in each row, and the added columns by name."""
        rows = connection.query(query, limits)
        return rows, dict(zip(added, rows[0][2:], strict=False)) if rows else {}

    def read() -> Values:
        """Read the counters, the limits in force and the server's clock."""
        (rows, of_all), clock = with_clock(ask, lambda answer: answer[1].get(TIME))
        status = {(row[0] or b"").lower(): row[1] for row in rows}
        known = [(KEYS[name], value) for name, value in status.items() if name in KEYS]
        values = {key: number(name, value) for (name, key), value in known}
        if ROWS_READ not in values and connection.is_mariadb:
            read_rows = (number(name, status.get(name.encode()) or "0") for name in HANDLER_READS)
            values[HANDLER_ROWS] = sum(read_rows)
        if not is_flushed:
            values.pop(FLUSHED, None)
        missing = [name for name in REQUIRED if name not in values]
        if missing:
            raise CollectorError(FailureKind.UNREADABLE, f"the global status has no {missing[0]}")
        connection.uptime_read = time.monotonic(), values["uptime"]
        values["own_statements"] = float(connection.own_statements)
        cells = {**connection.variables, **of_all}
        settings = {name: number(name, cells.get(name) or "0") for name in SETTINGS}
        return {**values, **_limits(settings, values), **clock}

    return Prepared(read, (Feature("status", enabled=True), *connection.protection()))


def _version(connection: Connection) -> tuple[int, int]:
    """Return the server's major and minor version; 0 and 0 where it states none."""
    found = re.match(r"([0-9]{1,3})\.([0-9]{1,3})\b", connection.variables.get("version", ""))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _added_columns(connection: Connection) -> Mapping[str, str]:
    """Return the expressions that are read with the status by name; none where it has no table."""
    if not connection.is_mariadb and performance_schema_off(connection, "status") is not None:
        return {}
    settings = {n: f"@@global.{n}" for n in SETTINGS if n in connection.variables}
    return {TIME: CLOCK, **settings}


def _status_query(connection: Connection, added: Collection[str]) -> str:
    if not added:
        return SHOW
    if connection.is_mariadb:
        table, names = TABLE_MARIADB, (*NAMES, *HANDLER_READS)
    else:
        table, names = TABLE_MYSQL, tuple(NAMES)
    return SELECT.format(", ".join(added), table, ", ".join(f"'{name}'" for name in names))


def _limits(settings: Values, values: Values) -> dict[str, float]:
    """Return the limits set by the server's variables, 0 left out, and MySQL's checkpoint age.

    The capacity in force of MySQL's redo log is in its status: the variable does not have it while
    the log is resized, nor where innodb_log_file_size sets it (MySQL 8.0 and 8.4).
    """
    limits = {name: value for name, value in settings.items() if value}
    if "redo_current_lsn" in values and "redo_checkpoint_lsn" in values:
        age = values["redo_current_lsn"] - values["redo_checkpoint_lsn"]
        limits["checkpoint_age_bytes"] = age
    return limits
