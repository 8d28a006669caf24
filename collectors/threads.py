"""`threads`: how many of Threads_running are no client's work.

Measured on real servers: Threads_running counts the session that asks, every binlog dump and the
event scheduler on both flavours; a replica's own I/O and SQL threads on MariaDB only. The server's
clock comes along in the same answer.
"""

from collectors.base import CollectorError, FailureKind, Feature, Prepared, Values
from collectors.connection import Connection
from collectors.query_results import Shape, number
from collectors.server_clock import CLOCK, with_clock
from collectors.statements import missing_grant, performance_schema_off

THREADS = f"""
SELECT COALESCE(SUM(PROCESSLIST_COMMAND LIKE 'Binlog Dump%'), 0),
       COALESCE(SUM(NAME LIKE 'thread/sql/event_scheduler'{{replication}}), 0),
       {CLOCK}
  FROM performance_schema.threads"""  # noqa: S608  (our own words only)
SHAPE = Shape(columns=3)
MARIADB_REPLICATION = (
    " OR NAME IN ('thread/sql/slave_io', 'thread/sql/slave_sql', 'thread/sql/rpl_parallel_thread')"
)


def prepare(connection: Connection) -> Prepared:
    """Read performance_schema.threads; without it only what the variables tell is known."""
    lack = performance_schema_off(connection, "threads")
    query = THREADS.format(
        replication=MARIADB_REPLICATION if "MariaDB" in connection.flavour else ""
    )
    if lack is None:
        try:
            connection.row(query, SHAPE)
        except CollectorError as error:
            if error.kind is not FailureKind.PRIVILEGE:
                raise
            lack = missing_grant(connection, "threads")
    if lack is not None:
        scheduler = connection.variables.get("event_scheduler", "OFF").upper() == "ON"
        return Prepared(lambda: {"agent": 1.0, "system": float(scheduler)}, (lack,))

    def read() -> Values:
        (dumps, system), clock = with_clock(lambda: connection.row(query, SHAPE))
        return {
            "agent": 1.0,
            "binlog_dump": number("the count of binlog dumps", dumps),
            "system": number("the count of system threads", system),
            **clock,
        }

    return Prepared(read, (Feature("threads", enabled=True),))
