"""`threads`: counts of the server's threads that are no client's work, and of those that wait.

They are subtracted from Threads_running. Measured on real servers: it counts the session that reads
it, every binlog dump, the event scheduler and each event while it runs on both flavours; a
replica's own I/O and SQL threads on MariaDB only.

The same query reads the server's clock and the work of replication: threads that apply the changes
of another server, and statements that wait for a replica's acknowledgement. An applier that waits
for work or for another applier is left out; one that waits for its own commit (MySQL) is counted.

Without performance_schema there is only the number of threads that run for no client: the event
scheduler by its variable, which may be set at any time, and on MariaDB a replica's threads. Its
status has the number of SQL threads; each is taken to have an I/O thread, and the parallel appliers
are there while one runs. Events that run are not counted then, nor binlog dumps on MySQL.

It also reads how many clients' statements wait for metadata, table or global locks (measured on
both flavours: "Waiting for table metadata lock", "Waiting for global read lock" …). Row locks of
InnoDB have no such state, but a counter of their time.
"""

from collectors.base import CollectorError, FailureKind, Feature, Prepared, Values
from collectors.connection import Connection
from collectors.result_cells import ResultLimits, number
from collectors.server_clock import CLOCK, with_clock
from collectors.statement_totals import WAITS_FOR_A_LOCK, missing_grant, performance_schema_off

APPLIERS = ", ".join(
    f"'thread/sql/{name}'"
    for name in (
        *("replica_sql", "replica_worker"),  # of MySQL 8.0.26 and later
        *("slave_sql", "slave_worker"),  # before that; the first of MariaDB, too
        *("rpl_parallel_thread", "rpl_parallel"),  # of MariaDB 10.11 and 11.8
    )
)
SYSTEM = "'thread/sql/event_scheduler', 'thread/sql/event_worker'"
THREADS = f"""
SELECT COALESCE(SUM(PROCESSLIST_COMMAND LIKE 'Binlog Dump%'), 0),
       COALESCE(SUM(NAME IN ({SYSTEM}{{replication}})), 0),
       COALESCE(SUM(NAME IN ({APPLIERS})
                    AND (COALESCE(PROCESSLIST_STATE, '') NOT LIKE '%waiting%'
                         OR PROCESSLIST_STATE LIKE 'waiting for handler commit')), 0),
       COALESCE(SUM(PROCESSLIST_STATE LIKE 'Waiting for semi-sync ACK%'), 0),
       COALESCE(SUM(PROCESSLIST_COMMAND IN ('Query', 'Execute') AND NAME NOT IN ({APPLIERS})
                    AND {WAITS_FOR_A_LOCK}), 0),
       {CLOCK}
  FROM performance_schema.threads"""  # noqa: S608  (constants only)
LIMITS = ResultLimits(columns=6)
SCHEDULER = "SELECT (@@GLOBAL.event_scheduler = 'ON')"
MARIADB_REPLICA = """
 + (SELECT IF(VARIABLE_VALUE > 0, 2 * VARIABLE_VALUE + @@GLOBAL.slave_parallel_threads, 0)
      FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'SLAVES_RUNNING')"""
APPLYING, WAITING = "applying", "waiting_for_replicas"
WAITING_FOR_LOCKS = "waiting_for_locks"
"""Statements that wait for locks other than InnoDB's row locks."""
MARIADB_REPLICATION = (
    ", 'thread/sql/slave_io', 'thread/sql/slave_sql', 'thread/sql/rpl_parallel_thread',"
    " 'thread/sql/rpl_parallel'"
)


def prepare(connection: Connection) -> Prepared:
    """Prepare to read performance_schema.threads; without it, counts in status and variables."""
    absent = performance_schema_off(connection, "threads")
    query = THREADS.format(replication=MARIADB_REPLICATION if connection.is_mariadb else "")
    query = connection.repeated(query)
    if absent is None:
        try:
            connection.row(query, LIMITS)
        except CollectorError as error:
            if error.kind is not FailureKind.PRIVILEGE:
                raise
            absent = missing_grant(connection, "threads")
    if absent is not None:
        return Prepared(lambda: _without_schema(connection), (absent,))

    def read() -> Values:
        """Read the counts of the threads, with the server's clock."""
        counts, clock = with_clock(lambda: connection.row(query, LIMITS), lambda row: row[-1])
        dumps, system, applying, waiting, locked, _ = counts
        return {
            "agent": 1.0,
            "binlog_dump": number("the count of binlog dumps", dumps),
            "system": number("the count of system threads", system),
            APPLYING: number("the count of appliers", applying),
            WAITING: number("the count of waits for replicas", waiting),
            WAITING_FOR_LOCKS: number("the count of waits for locks", locked),
            **clock,
        }

    return Prepared(read, (Feature("threads", enabled=True),))


def _without_schema(connection: Connection) -> Values:
    query = SCHEDULER + (MARIADB_REPLICA if connection.is_mariadb else "")
    system = number("the count of system threads", connection.cell(query))
    return {"agent": 1.0, "system": system}
