"""The real workloads that the benches play: what sysbench runs, and on what server."""

from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

BENCH = Path(__file__).resolve().parent
SMALL = ("--tables=2", "--table-size=20000")
ONE_TABLE = ("--tables=1", "--table-size=100000")
SOURCE = ("--log-bin=bin", "--server-id=1")
DURABLE = ("--innodb-flush-log-at-trx-commit=1", *SOURCE, "--sync-binlog=1")
RELAXED = ("--innodb-flush-log-at-trx-commit=2",)
REPLICA = ("--server-id=2",)
TINY_POOL = ("--innodb-buffer-pool-size=8M", "--innodb-flush-method=O_DIRECT")
POOL_OF_THREADS = ("--thread-handling=pool-of-threads",)
PREPARED = ("--db-ps-mode=auto",)


class Arrivals(StrEnum):
    """How the requests of an open loop come, apart from their mean rate."""

    STEADY = "steady"
    """As a Poisson process of the same rate for the whole step."""
    BURSTY = "bursty"
    """Every second at 1.6 and at 0.4 times the rate in turn."""
    RISING = "rising"
    """Each step higher than the one before, as in a morning."""


class Workload(NamedTuple):
    """One kind of load."""

    script: str
    """Of sysbench's own, or a file."""
    options: tuple[str, ...] = ()
    server: tuple[str, ...] = ()
    """Options of the server."""
    connections: int = 64
    """Of the open loop."""
    arrivals: Arrivals = Arrivals.STEADY
    beside: str | None = None
    """A script that one thread runs meanwhile, over and over: a dump, a report."""
    processors: int = 1
    """Of the server; two are all there are, and the clients use them too."""
    applies: str | None = None
    """The server is a replica, and a script writes to its source, on the clients' processor."""

    @property
    def prepares(self) -> bool:
        """Whether sysbench makes its tables."""
        return self.script != HOT


HOT = str(BENCH / "hot.lua")
RECONNECTING = str(BENCH / "reconnecting.lua")
SCANS = str(BENCH / "scans.lua")
SHOP = str(BENCH / "shop.lua")
BULK = str(BENCH / "bulk.lua")
WAREHOUSES = str(BENCH / "warehouses.lua")
QUEUE = str(BENCH / "queue.lua")
DOCUMENTS = str(BENCH / "documents.lua")
REPORTS = str(BENCH / "reports.lua")
TABLE_LOCKS = str(BENCH / "table_locks.lua")
COUNTERS = str(BENCH / "counters.lua")
JOINS = str(BENCH / "joins.lua")
PROCEDURES = str(BENCH / "procedures.lua")
LEDGER = str(BENCH / "ledger.lua")
SEARCH = str(BENCH / "search.lua")
SESSIONS = str(BENCH / "sessions.lua")
CLASSIC = {
    "hot": Workload(HOT),
    "read-only": Workload("oltp_read_only", SMALL),
    "read-write": Workload("oltp_read_write", SMALL),
}
"""Those of the first recordings."""
ZOO = CLASSIC | {
    "points": Workload("oltp_point_select", ONE_TABLE),
    "points-prepared": Workload("oltp_point_select", (*ONE_TABLE, *PREPARED)),
    "points-reconnecting": Workload(RECONNECTING, ONE_TABLE),
    "ranges": Workload("select_random_ranges", ONE_TABLE),
    "many-points": Workload("select_random_points", ONE_TABLE),
    "sorts": Workload(
        "oltp_read_only",
        (*ONE_TABLE, "--point-selects=0", "--simple-ranges=0", "--sum-ranges=0"),
    ),
    "disk-reads": Workload("oltp_point_select", ("--tables=1", "--table-size=400000"), TINY_POOL),
    "updates": Workload("oltp_update_non_index", ONE_TABLE, DURABLE),
    "updates-relaxed": Workload("oltp_update_non_index", ONE_TABLE, RELAXED),
    "updates-no-binlog": Workload("oltp_update_non_index", ONE_TABLE, DURABLE[:1]),
    "updates-of-an-index": Workload("oltp_update_index", ONE_TABLE, DURABLE),
    "inserts": Workload("oltp_insert", ONE_TABLE, DURABLE),
    "deletes": Workload("oltp_delete", ONE_TABLE, DURABLE),
    "writes": Workload("oltp_write_only", SMALL, DURABLE),
    "writes-relaxed": Workload("oltp_write_only", SMALL, RELAXED),
    "hot-relaxed": Workload(HOT, (), RELAXED),
    "scans": Workload(SCANS, SMALL),
    "bulk-inserts": Workload(BULK, ONE_TABLE, DURABLE),
    "warehouses": Workload(WAREHOUSES, (), DURABLE),
    "queue": Workload(QUEUE, (), DURABLE),
    "documents": Workload(DOCUMENTS, (), DURABLE),
    "reports": Workload(REPORTS, ONE_TABLE),
    "table-locks": Workload(TABLE_LOCKS, (), DURABLE),
    "counters": Workload(COUNTERS, (), RELAXED),
    "joins": Workload(JOINS),
    "procedures": Workload(PROCEDURES, (), DURABLE),
    "ledger": Workload(LEDGER, (), DURABLE),
    "search": Workload(SEARCH),
    "sessions": Workload(SESSIONS, (), RELAXED),
    "points-beside-a-dump": Workload("oltp_point_select", SMALL, beside=SCANS),
    "points-beside-appliers": Workload(
        "oltp_point_select", ONE_TABLE, REPLICA, applies="oltp_update_non_index"
    ),
    "points-thread-pool": Workload("oltp_point_select", ONE_TABLE, POOL_OF_THREADS),
    "points-2-processors": Workload("oltp_point_select", ONE_TABLE, processors=2),
    "read-write-2-processors": Workload("oltp_read_write", SMALL, processors=2),
    "shop": Workload(SHOP, SMALL, DURABLE),
    "points-8": Workload("oltp_point_select", ONE_TABLE, connections=8),
    "points-200": Workload("oltp_point_select", ONE_TABLE, connections=200),
    "points-bursty": Workload("oltp_point_select", ONE_TABLE, arrivals=Arrivals.BURSTY),
    "points-rising": Workload("oltp_point_select", ONE_TABLE, arrivals=Arrivals.RISING),
    "updates-8": Workload("oltp_update_non_index", ONE_TABLE, DURABLE, connections=8),
    "shop-8": Workload(SHOP, SMALL, DURABLE, connections=8),
    "inserts-8": Workload("oltp_insert", ONE_TABLE, DURABLE, connections=8),
    "updates-200": Workload("oltp_update_non_index", ONE_TABLE, DURABLE, connections=200),
    "updates-bursty": Workload(
        "oltp_update_non_index", ONE_TABLE, DURABLE, arrivals=Arrivals.BURSTY
    ),
    "updates-rising": Workload(
        "oltp_update_non_index", ONE_TABLE, DURABLE, arrivals=Arrivals.RISING
    ),
    "shop-bursty": Workload(SHOP, SMALL, DURABLE, arrivals=Arrivals.BURSTY),
}
