"""Reads one number by a query that the operator has configured, in a read-only session.

The collectors do not use this session. Its transactions are READ ONLY and end with their statement;
the server stops waiting for a lock after a second, and aborts the query at its time limit.
"""

import re

from collectors.base import CollectorError, FailureKind, Prepared
from collectors.connection import Connection
from collectors.result_cells import ResultLimits, number
from collectors.statement_totals import own_account

VALUE = "value"
RESULT_LIMITS = ResultLimits(columns=1, rows=2, bytes=4096)
READ_ONLY = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY"
LOCK_WAIT_SECONDS = 1

TABLE = re.compile(r"SELECT command denied .* table (?:[`'](\w+)[`']\.)?[`'](\w+)[`']")
ROUTINE = re.compile(r"execute command denied .* routine '([\w.]+)'", re.IGNORECASE)
GLOBAL = re.compile(r"you need \(at least one of\) the ([A-Z_]+(?: [A-Z_]+)*)(?:,| privilege)")
"""As of a table of information_schema."""
LONGER = "give it a longer timeout, or a faster query"
REMEDIES = {
    "(3024)": LONGER,
    "(1969)": LONGER,
    "(1046)": "name its tables as SCHEMA.TABLE",
    "(1045)": "its view or function has a definer who may not read that, or is gone",
}
"""By the end of the message; the server refuses a definer's rights as it does a password."""


class MissingGrantError(CollectorError):
    """The account may not run the query; `remedy` is the GRANT that permits it."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(FailureKind.PRIVILEGE, f"{message}; {remedy}")
        self.reason = message
        self.remedy = remedy


def prepare(connection: Connection, query: str, timeout: float) -> Prepared:
    """Prepare to run the query; `timeout` in seconds is its limit on the server."""
    return Prepared(lambda: {VALUE: _read(connection, query, timeout)}, ())


def non_negative(value: float) -> float:
    """Return the value, a count; raises `CollectorError` if it is below 0."""
    if value < 0:
        raise CollectorError(FailureKind.UNREADABLE, f"the query's value is below 0: {value:g}")
    return value


def _read(connection: Connection, query: str, timeout: float) -> float:
    """Read the query's one number; raises `CollectorError` for other results."""
    for settings in session_settings(connection, timeout):
        connection.run(settings)
    try:
        rows = connection.query(query, RESULT_LIMITS)
    except CollectorError as error:
        if error.kind is FailureKind.PRIVILEGE:
            grant = _missing_grant(connection, query, str(error))
            raise MissingGrantError(str(error), grant) from None
        remedy = next((remedy for end, remedy in REMEDIES.items() if str(error).endswith(end)), "")
        if remedy:
            is_slow = error.kind is FailureKind.SLOW
            kind = FailureKind.SLOW if is_slow else FailureKind.UNREADABLE
            raise CollectorError(kind, f"{error}; {remedy}") from None
        raise
    if len(rows) != 1:
        count = "more than one row" if rows else "no row"
        raise CollectorError(FailureKind.UNREADABLE, f"the query gave {count} instead of one")
    return non_negative(number("its value", rows[0][0]))


def session_settings(connection: Connection, timeout: float) -> tuple[str, str]:
    """Return the statements before each reading: read only, and for at most `timeout` seconds.

    The query means what it means in the operator's own sessions (`sql_mode`).
    """
    limits = [
        "sql_mode = @@GLOBAL.sql_mode",
        f"innodb_lock_wait_timeout = {LOCK_WAIT_SECONDS}",
        f"sql_select_limit = {RESULT_LIMITS.rows}",
    ]
    if "max_execution_time" in connection.variables:
        limits.append(f"max_execution_time = {max(1, round(timeout * 1000))}")
    if "max_statement_time" in connection.variables:
        limits.append(f"max_statement_time = {timeout:.3f}")
    return READ_ONLY, "SET SESSION " + ", ".join(limits)


def _missing_grant(connection: Connection, query: str, refusal: str) -> str:
    """Write the GRANT for the table or the function that the server's refusal names."""
    account = own_account(connection)
    if found := ROUTINE.search(refusal):
        return f"GRANT EXECUTE ON FUNCTION {found[1]} TO {account}"
    if found := GLOBAL.search(refusal):
        return f"GRANT {found[1]} ON *.* TO {account}"
    if found := TABLE.search(refusal):
        schema = found[1] or _schema_of(found[2], query)
        if schema:
            return f"GRANT SELECT ON `{schema}`.`{found[2]}` TO {account}"
    return f"grant SELECT on the tables of its query to {account}"


def _schema_of(table: str, query: str) -> str | None:
    """Find the schema that the query names before the table: MySQL's refusal leaves it out."""
    found = re.search(rf"`?(\w+)`?\s*\.\s*`?{table}\b", query, re.IGNORECASE)
    return found[1] if found else None
