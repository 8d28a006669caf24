"""`statements`: total statement time and count from performance_schema.

The total CPU time of statements is read too, where the server accounts for it (MySQL 8.0.28 and
later): where nothing of the host can be read, it is the only information on the CPU.

The sums grow when a statement ends, so the elapsed time of running statements is read with them.
Statements inside stored programs (`statement/sp/…`) are part of the CALL that runs them, and a
binlog dump lasts as long as its replica: neither is counted.
"""

from collectors.all_statements import CLIENT_STATEMENTS, AllStatements
from collectors.base import (
    PICOSECOND,
    CollectorError,
    FailureKind,
    Feature,
    Prepared,
    Values,
)
from collectors.connection import Connection
from collectors.digest_table import counter_columns
from collectors.result_cells import (
    ResultLimits,
    ResultRow,
    number,
    number_or_zero,
    text,
    whole_number,
)
from collectors.server_clock import CLOCK, with_clock

ATTEMPTS = 3  # at reading both sums without a long statement ending in between

TOTALS = f"""
SELECT SUM(COUNT_STAR), SUM(SUM_TIMER_WAIT), {{cpu}}, {{sums}}, {CLOCK}
  FROM {CLIENT_STATEMENTS}"""  # noqa: S608  (constants only)
NULL_EXPRESSION, CPU = "NULLIF(0, 0)", "SUM(SUM_CPU_TIME)"
"""A literal NULL is absent from digest texts, by whose words the agent finds its own statements."""

RUNNING = """END_EVENT_ID IS NULL AND NESTING_EVENT_LEVEL = 0
   AND (EVENT_NAME LIKE 'statement/sql/%' OR EVENT_NAME LIKE 'statement/com/%'
        OR EVENT_NAME LIKE 'statement/abstract/%')
   AND EVENT_NAME NOT LIKE 'statement/com/Binlog Dump%'
   AND THREAD_ID <> {thread_id}"""
"""Condition: a client's statement in flight, not one of this session."""
WAITS_FOR_A_LOCK = "PROCESSLIST_STATE LIKE 'Waiting for %lock'"
"""A metadata, table or global lock; waits for InnoDB's row locks have no such state."""

IN_FLIGHT = f"""
SELECT COUNT(*), COALESCE(SUM(TIMER_WAIT), 0), {NULL_EXPRESSION}, {NULL_EXPRESSION},
       {NULL_EXPRESSION}
  FROM performance_schema.events_statements_current
 WHERE {RUNNING}"""  # noqa: S608  (constants only)

THREAD = "SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = {id}"
INSTRUMENTS = """
SELECT COUNT(*) FROM performance_schema.setup_instruments
 WHERE NAME IN ('statement/sql/select', 'statement/sql/insert', 'statement/sql/update',
                'statement/sql/delete')
   AND NOT (ENABLED = 'YES' AND TIMED = 'YES')"""
CONSUMERS = """
SELECT NAME FROM performance_schema.setup_consumers WHERE ENABLED = 'YES'"""
CONSUMER_NAMES = ResultLimits(rows=100)  # there are 16
CPU_CONSUMER = "events_statements_cpu"
"""In MySQL 8.0.28 and later, like the column SUM_CPU_TIME; off by default."""
CPU_ENABLED = f"""
SELECT ENABLED FROM performance_schema.setup_consumers WHERE NAME = '{CPU_CONSUMER}'"""  # noqa: S608
TOTALS_LIMITS, SUMS_AND_RUNNING = ResultLimits(columns=5), ResultLimits(columns=5, rows=2)

MAX_ACCOUNT_LENGTH = 32 + 1 + 255  # characters
GRANT = "GRANT SELECT ON performance_schema.* TO {account}"
ENABLE_PERFORMANCE_SCHEMA = (
    "set performance_schema = ON{} under [mysqld] in the server's my.cnf and restart it"
)
MARIADB_OPTIONS = (
    ", performance_schema_instrument = 'statement/%=ON' and"
    " performance_schema_consumer_events_statements_current = ON"
)
"""By default these are off even with performance_schema; an UPDATE lasts until the next restart."""
ENABLE_INSTRUMENTS = (
    "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES', TIMED = 'YES'"
    " WHERE NAME LIKE 'statement/%'"
)
ENABLE_CONSUMER = "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = '{}'"


def prepare(connection: Connection) -> Prepared:
    """Check grant, tables, instruments and consumers; report an absent feature with its remedy."""
    try:
        absent = _absent_feature(connection)
    except CollectorError as error:
        if error.kind is not FailureKind.PRIVILEGE:
            raise
        absent = missing_grant(connection, "statements")
    if absent is not None:
        in_flight = Feature("statements_in_flight", False, absent.reason, absent.remedy)
        return Prepared(None, (absent, in_flight))
    in_flight = _in_flight_feature(connection)
    cpu = cpu_feature(connection, "statements_cpu", "the CPU time of statements is not known")
    current = IN_FLIGHT.format(thread_id=own_thread(connection)) if in_flight.enabled else None
    has_cpu = cpu is not None and cpu.enabled
    sums = AllStatements(connection, counter_columns(has_cpu=has_cpu))
    totals = TOTALS.format(cpu=CPU if has_cpu else NULL_EXPRESSION, sums=sums.expression)
    read = _Reader(connection, totals, current, sums)
    offered = (in_flight,) if cpu is None else (in_flight, cpu)
    return Prepared(read, (Feature("statements", enabled=True), *offered))


def missing_grant(connection: Connection, feature: str) -> Feature:
    """Return the feature as absent for lack of a privilege, with the GRANT that enables it."""
    remedy = GRANT.format(account=own_account(connection))
    return Feature(feature, False, "the account may not read performance_schema", remedy)


def own_account(connection: Connection) -> str:
    """Return this session's account by the server's name for it, in the syntax of GRANT.

    A name that has a quote or a backslash is in backquotes: there each `sql_mode` reads it alike.
    """
    account = text(connection.cell("SELECT CURRENT_USER()"), MAX_ACCOUNT_LENGTH)
    user, _, host = account.rpartition("@")
    if any(sign in user for sign in "'\\"):
        user = user.replace("`", "``")
        return f"`{user}`@'{host}'"
    return f"'{user}'@'{host}'"


def own_thread(connection: Connection) -> int:
    """Return the performance_schema thread of this session; 0 where it is not instrumented."""
    rows = connection.query_once(THREAD.format(id=connection.id))
    return whole_number("THREAD_ID", rows[0][0]) if rows else 0


def performance_schema_off(connection: Connection, feature: str) -> Feature | None:
    """Return the feature as absent if the server runs without performance_schema, else None."""
    if connection.variables.get("performance_schema", "OFF").upper() in ("ON", "1"):
        return None
    remedy = ENABLE_PERFORMANCE_SCHEMA.format(MARIADB_OPTIONS if connection.is_mariadb else "")
    return Feature(feature, False, "performance_schema is off on this server", remedy)


def _absent_feature(connection: Connection) -> Feature | None:
    off = performance_schema_off(connection, "statements")
    off = off or instruments_off(connection, "statements")
    if off is not None:
        return off
    if "global_instrumentation" not in consumers(connection):
        remedy = ENABLE_CONSUMER.format("global_instrumentation")
        return Feature("statements", False, "the consumer global_instrumentation is off", remedy)
    connection.query(f"SELECT 1 FROM {CLIENT_STATEMENTS} LIMIT 1")  # noqa: S608
    return None


def instruments_off(connection: Connection, feature: str) -> Feature | None:
    """Return the feature as absent if a frequent kind of statement is not timed, else None."""
    rows = connection.query_once(INSTRUMENTS)
    if whole_number("the count of instruments", rows[0][0] if rows else None) == 0:
        return None
    return Feature(feature, False, "statement instruments are off or untimed", ENABLE_INSTRUMENTS)


def consumers(connection: Connection) -> set[str]:
    """Return the names of the consumers that are on."""
    return {text(name) for (name,) in connection.query_once(CONSUMERS, CONSUMER_NAMES)}


def _in_flight_feature(connection: Connection) -> Feature:
    active = consumers(connection)
    for consumer in ("thread_instrumentation", "events_statements_current"):
        if consumer not in active:
            reason = f"the consumer {consumer} is off: running statements count only when they end"
            remedy = ENABLE_CONSUMER.format(consumer)
            return Feature("statements_in_flight", False, reason, remedy)
    return Feature("statements_in_flight", enabled=True)


def cpu_feature(connection: Connection, name: str, without: str) -> Feature | None:
    """Return as a feature that statements' CPU time is summed; None where this version cannot.

    `without` says what an absent feature means.
    """
    rows = connection.query_once(CPU_ENABLED)
    if not rows:
        return None
    if text(rows[0][0]) == "YES":
        return Feature(name, enabled=True)
    reason = f"the consumer {CPU_CONSUMER} is off: {without}"
    return Feature(name, False, reason, ENABLE_CONSUMER.format(CPU_CONSUMER))


class _Reader:
    """Reads the totals and the running statements by one query.

    A statement that ends between these two parts is in neither, so that the total time seems to
    fall. It never does, so a lower total is read again; it stays lower if it has been reset.
    """

    def __init__(
        self, connection: Connection, totals: str, current: str | None, sums: AllStatements
    ) -> None:
        self._connection = connection
        self._sums = sums
        query = totals if current is None else f"{totals}\n UNION ALL{current}"
        self._query = connection.repeated(query)
        self._result_limits = TOTALS_LIMITS if current is None else SUMS_AND_RUNNING
        self._spent_before = 0.0

    def __call__(self) -> Values:
        for _ in range(ATTEMPTS):
            values = self._read()
            spent = values["statement_seconds"] + values.get("in_flight_seconds", 0.0)
            if spent >= self._spent_before:
                break
        self._spent_before = spent
        return values

    def _ask(self) -> list[ResultRow]:
        return self._connection.query(self._query, self._result_limits)

    def _read(self) -> dict[str, float]:
        """Read the sums of ended statements, and those that still run if the server shows them."""
        rows, clock = with_clock(self._ask, lambda rows: rows[0][-1] if rows else None)
        if len(rows) != self._result_limits.rows:
            message = f"{len(rows)} rows of sums instead of {self._result_limits.rows}"
            raise CollectorError(FailureKind.UNREADABLE, message)
        (count, wait, cpu, sums, _), *current = rows
        self._sums.keep(sums)
        values = {
            **clock,
            "statements": number_or_zero("COUNT_STAR", count),
            "statement_seconds": number_or_zero("SUM_TIMER_WAIT", wait) * PICOSECOND,
        }
        if cpu is not None:
            values["statement_cpu_seconds"] = number("SUM_CPU_TIME", cpu) * PICOSECOND
        for running, elapsed, *_ in current:
            values["in_flight"] = number("the count of running statements", running)
            values["in_flight_seconds"] = number("TIMER_WAIT", elapsed) * PICOSECOND
        return values
