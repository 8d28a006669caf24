"""The real workloads that the benches play: what sysbench runs, and on what server."""

from pathlib import Path
from typing import NamedTuple

BENCH = Path(__file__).resolve().parent
SMALL = ("--tables=2", "--table-size=20000")
ONE_TABLE = ("--tables=1", "--table-size=100000")
DURABLE = (
    "--innodb-flush-log-at-trx-commit=1",
    "--log-bin=bin",
    "--server-id=1",
    "--sync-binlog=1",
)
RELAXED = ("--innodb-flush-log-at-trx-commit=2",)
TINY_POOL = ("--innodb-buffer-pool-size=8M", "--innodb-flush-method=O_DIRECT")
PREPARED = ("--db-ps-mode=auto",)


class Workload(NamedTuple):
    """One kind of load."""

    script: str
    """Of sysbench's own, or a file."""
    options: tuple[str, ...] = ()
    server: tuple[str, ...] = ()
    """Options of the server."""

    @property
    def prepares(self) -> bool:
        """Whether sysbench makes its tables."""
        return "/" not in self.script


HOT = str(BENCH / "hot.lua")
CLASSIC = {
    "hot": Workload(HOT),
    "read-only": Workload("oltp_read_only", SMALL),
    "read-write": Workload("oltp_read_write", SMALL),
}
"""Those of the first recordings."""
ZOO = CLASSIC | {
    "points": Workload("oltp_point_select", ONE_TABLE),
    "points-prepared": Workload("oltp_point_select", (*ONE_TABLE, *PREPARED)),
    "points-reconnecting": Workload("oltp_point_select", (*ONE_TABLE, "--reconnect=1")),
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
}
