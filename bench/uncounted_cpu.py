"""The CPU of a server's process that SUM_CPU_TIME misses, by load.

MySQL adds up the CPU time of statements only. What it misses is the network (waiting for the next
packet, TLS), connections, and background threads. Each load runs at several rates of arrival, over
the socket and over TCP with TLS, for `--seconds` each (3). Takes two minutes.

    python bench/uncounted_cpu.py              what it misses
    python bench/uncounted_cpu.py --consumer   what the server pays for counting it
"""

import argparse
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from sysbench_loads import CACHE, DATABASE

from agent.demo.private_server import PrivateServer, find_server
from collectors.all_statements import CLIENT_STATEMENTS
from collectors.host import process_clock

PICOSECOND = 1e-12
MICROSECOND = 1e-6
ROWS = "--table-size=50000"
USER = "sysbench"
SUMS = f"SELECT SUM(COUNT_STAR), SUM(SUM_CPU_TIME) FROM {CLIENT_STATEMENTS}"
CONSUMER = """
UPDATE performance_schema.setup_consumers SET ENABLED = %s WHERE NAME = 'events_statements_cpu'"""
PAIRS = 60
OPTIONS = ("--innodb-buffer-pool-size=256M",)

LOADS: dict[str, tuple[str, ...]] = {
    "point reads": ("oltp_point_select",),
    "point reads, prepared": ("oltp_point_select", "--db-ps-mode=auto"),
    "ranges of 100 rows": ("oltp_read_only", "--skip_trx=on", "--point_selects=0"),
    "ranges of 2000 rows": (
        *("oltp_read_only", "--skip_trx=on", "--point_selects=0"),
        "--range_size=2000",
    ),
    "reads and writes": ("oltp_read_write",),
    "updates by key": ("oltp_update_non_index",),
    "inserts": ("oltp_insert",),
}
WAYS = ("socket", "TLS")


class CpuReading(NamedTuple):
    """What the server had used by then."""

    at: float
    process: float
    statements: float
    accounted: float
    """CPU seconds of statements."""


class Missed(NamedTuple):
    """What a load used between two readings."""

    rate: float
    """Statements/s."""
    per_statement: float
    """CPU seconds of a statement that SUM_CPU_TIME has."""
    missed: float
    """CPU seconds beside each."""

    @property
    def share(self) -> float:
        """The part of the process's CPU that SUM_CPU_TIME has."""
        return self.per_statement / (self.per_statement + self.missed)


def reading(server: PrivateServer) -> CpuReading:
    """Read both at nearly the same time."""
    with server.connect_as_root() as session, session.cursor() as cursor:
        cursor.execute(SUMS)
        count, cpu = cursor.fetchone() or (0, 0)
        used = process_clock(server.pid) or 0.0
    return CpuReading(time.monotonic(), used, float(count), float(cpu) * PICOSECOND)


def between(before: CpuReading, after: CpuReading) -> Missed:
    """Compare what the process used with what the statements did."""
    count = max(after.statements - before.statements, 1.0)
    accounted = (after.accounted - before.accounted) / count
    process = (after.process - before.process) / count
    return Missed(count / (after.at - before.at), accounted, process - accounted)


def sysbench(server: PrivateServer, way: str, password: str, *words: str) -> None:
    """Run one call of sysbench to its end."""
    socket = (f"--mysql-socket={server.socket}", "--mysql-user=root")
    address = ("--mysql-host=127.0.0.1", f"--mysql-port={server.port}", "--mysql-ssl=on")
    tls = (*address, f"--mysql-user={USER}", f"--mysql-password={password}")
    where = socket if way == "socket" else tls
    mode = () if any("db-ps-mode" in word for word in words) else ("--db-ps-mode=disable",)
    command = ("sysbench", words[0], *where, f"--mysql-db={DATABASE}", ROWS, *mode, *words[1:])
    folder = server.datadir  # sysbench takes its certificates from where it runs
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if ended.returncode:
        sys.exit(f"sysbench failed: {ended.stdout[-1500:]}{ended.stderr[-500:]}")


def measured(server: PrivateServer, password: str, seconds: int) -> Iterator[tuple[str, Missed]]:
    """Each load, each way, as fast as it goes with four clients and at a tenth of that."""
    for name, (script, *options) in LOADS.items():
        for way in WAYS:
            fastest = 0.0
            for part in (1.0, 0.1):
                rate = f"--rate={max(1, int(fastest * part)) if fastest else 0}"
                run = (f"--time={seconds}", "--threads=4", rate, "run")
                before = reading(server)
                sysbench(server, way, password, script, *options, *run)
                found = between(before, reading(server))
                events = {"oltp_read_only": 4, "oltp_read_write": 20}.get(script, 1)
                fastest = found.rate / events
                yield f"{name}, {way}, {'full' if part == 1 else '10 %'}", found


def point_read(server: PrivateServer, consumer: str, seconds: int) -> float:
    """The CPU seconds of the process for each prepared point read, with the consumer so."""
    with server.connect_as_root() as session, session.cursor() as cursor:
        cursor.execute(CONSUMER, [consumer])
    run = (f"--time={seconds}", "--threads=4", "run")
    before = reading(server)
    sysbench(server, "socket", "", "oltp_point_select", "--db-ps-mode=auto", *run)
    after = reading(server)
    return (after.process - before.process) / (after.statements - before.statements)


def print_consumer_cost(server: PrivateServer, seconds: int) -> None:
    """The median of what the consumer adds, off and on by turns, with the quartiles."""
    off, on = np.zeros(PAIRS), np.zeros(PAIRS)
    for k in range(PAIRS):
        off[k] = point_read(server, "NO", seconds) / MICROSECOND
        on[k] = point_read(server, "YES", seconds) / MICROSECOND
    low, middle, high = np.quantile(on - off, (0.25, 0.5, 0.75))
    print(f"a point read takes {np.median(off):.1f} us of the server's CPU without the consumer,")
    print(f"and {middle:.2f} us ({low:.2f} to {high:.2f}) more with it")


def main() -> None:
    """Print a row for each load."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--consumer", action="store_true")
    parser.add_argument("--seconds", type=int, default=3)
    args = parser.parse_args()
    program = find_server("mysql", CACHE / "mysql")
    if program is None:
        sys.exit("no MySQL here; scripts/test installs it")
    with PrivateServer(program, options=OPTIONS) as server:
        password = secrets.token_urlsafe(12)
        with server.connect_as_root() as session, session.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {DATABASE}")
            cursor.execute(f"CREATE USER {USER} IDENTIFIED BY '{password}'")
            cursor.execute(f"GRANT ALL ON {DATABASE}.* TO {USER}")
        (server.datadir / "cacert.pem").symlink_to("ca.pem")
        sysbench(server, "socket", "", "oltp_read_write", "prepare")
        if args.consumer:
            print_consumer_cost(server, args.seconds)
            return
        quiet = reading(server)
        time.sleep(args.seconds)
        idle = reading(server)
        print(f"idle: {(idle.process - quiet.process) / (idle.at - quiet.at):.4f} processors")
        print(f"{'load':44} {'X':>7} {'accounted':>10} {'missed':>8}  share")
        for name, row in measured(server, password, args.seconds):
            own, missed = row.per_statement / MICROSECOND, row.missed / MICROSECOND
            print(f"{name:44} {row.rate:7.0f} {own:7.1f} us {missed:5.1f} us  {row.share:.3f}")


if __name__ == "__main__":
    main()
