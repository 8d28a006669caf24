"""Record a real MySQL under twenty classes of load, for `attribute` to be scored on.

    python bench/record_classes.py FOLDER [--kind moderate] [--seconds 240]
    python bench/score_classes.py FOLDER

Seventeen classes compute, each at a rate that varies on its own, three wait: SLEEP, GET_LOCK and a
hot row (`classes.lua`). KIND.csv and KIND_host.csv are as `attribute` reads them, with the server's
own CPU per class (SUM_CPU_TIME) as `cpu_true_s`.
"""

import argparse
import csv
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agent.demo.private_server import PrivateServer, find_server
from agent.query_classes.class_intervals import ClassInterval, ClassIntervalMaker
from agent.query_classes.class_registry import ClassRegistry
from agent.query_classes.one_off_profile import READING_SECONDS, read_once
from agent.query_classes.resource_meter import ALL_TIME, BUSY, IO_WAIT
from agent.query_classes.tracked_classes import class_table
from collectors import COLLECTORS
from collectors.base import Values
from collectors.connection import Connection, Login
from collectors.endpoint import Endpoint

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = str(ROOT / "bench" / "classes.lua")
DATABASE = "recorded"
ROWS = 200_000
WARM_UP = 5.0


@dataclass(frozen=True)
class LoadSettings:
    """One kind of load: its rate, what all classes' rates have in common, the server's pool."""

    threads: int
    speed: float
    common: float = 0.0
    waiters: int = 9
    options: tuple[str, ...] = ("--innodb-buffer-pool-size=512M",)


KINDS = {
    "moderate": LoadSettings(12, 1.0),
    "high": LoadSettings(24, 1.25),
    "saturated": LoadSettings(24, 1.8),
    "common": LoadSettings(12, 1.0, common=0.75),
    "light": LoadSettings(12, 0.4),
    "io": LoadSettings(
        16, 0.5, options=("--innodb-buffer-pool-size=24M", "--innodb-flush-method=O_DIRECT")
    ),
}


def main() -> None:
    """Record each kind that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", choices=list(KINDS), action="append")
    parser.add_argument("--seconds", type=float, default=240.0)
    args = parser.parse_args()
    for name in args.kind or KINDS:
        record(args.folder / name, KINDS[name], args.seconds)


def record(path: Path, kind: LoadSettings, seconds: float) -> None:
    """Record one kind of load on a server of its own."""
    program = find_server("mysql", ROOT / ".cache" / "mysql") or find_server("mysql")
    if program is None:
        sys.exit("no MySQL here; scripts/test installs it")
    options = [*kind.options, "--performance-schema-consumer-events-statements-cpu=ON"]
    with PrivateServer(program, options=options) as server:
        prepare(server)
        with load(server, kind, seconds + 2 * WARM_UP):
            time.sleep(WARM_UP)
            registry, intervals = watch(server, seconds)
    write(path, registry, intervals)


def prepare(server: PrivateServer) -> None:
    """Make the tables."""
    digits = "(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT"
    words = "CONCAT(SHA2(i, 256), SHA2(i + 1, 256)), SHA2(-i, 256)"
    with server.connect_as_root() as session, session.cursor() as cursor:
        for statement in (
            f"CREATE DATABASE {DATABASE}",
            f"USE {DATABASE}",
            f"SET SESSION cte_max_recursion_depth = {ROWS}",
            *(
                f"CREATE TABLE sbtest{t} (id INT PRIMARY KEY, k INT, c CHAR(128), pad CHAR(64),"
                " KEY (k))"
                for t in range(1, 5)
            ),
            *(
                f"INSERT INTO sbtest{t} {digits.format(ROWS)} i, i * 7919 % {ROWS}, {words} FROM n)"
                for t in range(1, 5)
            ),
            "CREATE TABLE cust (id INT PRIMARY KEY, name CHAR(56))",
            f"INSERT INTO cust {digits.format(20000)} i, SHA2(i, 224) FROM n)",
            "CREATE TABLE prod (id INT PRIMARY KEY, title CHAR(56))",
            f"INSERT INTO prod {digits.format(1000)} i, SHA2(i, 224) FROM n)",
            "CREATE TABLE orders (id INT PRIMARY KEY, cust INT, prod INT, amt INT, ts DATETIME,"
            " KEY (cust))",
            f"INSERT INTO orders {digits.format(ROWS)} i, i * 7 % 20000 + 1, i * 13 % 1000 + 1,"
            " i % 997, NOW() FROM n)",
            "CREATE TABLE lg (id BIGINT PRIMARY KEY AUTO_INCREMENT, ts DATETIME(6), a INT,"
            " b VARCHAR(64))",
            "CREATE TABLE hot (id INT PRIMARY KEY, n INT)",
            "INSERT INTO hot VALUES (1, 0)",
        ):
            cursor.execute(statement)
        session.commit()


@contextmanager
def load(server: PrivateServer, kind: LoadSettings, seconds: float) -> Iterator[None]:
    """Those that compute and those that wait, at once."""
    parts = (("work", kind.threads), ("wait", kind.waiters))
    running = [command(server, kind, part, threads, seconds) for part, threads in parts]
    try:
        yield
        if any(process.poll() is not None for process in running):
            sys.exit("the load ended before the recording")
    finally:
        for process in running:
            process.terminate()
            process.wait()


def command(
    server: PrivateServer, kind: LoadSettings, part: str, threads: int, seconds: float
) -> "subprocess.Popen[bytes]":
    """Start one part of the load."""
    words = ["sysbench", SCRIPT, f"--mysql-socket={server.socket}", "--mysql-user=root"]
    words += [f"--mysql-db={DATABASE}", "--db-ps-mode=disable"]
    words += ["--mysql-ignore-errors=1213,1205,1062", f"--threads={threads}"]
    words += [f"--time={seconds:.0f}", f"--part={part}", f"--speed={kind.speed}"]
    words += [f"--common={kind.common}", f"--rows={ROWS}", "run"]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL)


def watch(server: PrivateServer, seconds: float) -> tuple[ClassRegistry, list[ClassInterval]]:
    """Read as `profile` does, once a second."""
    login = Login("root", "")
    connection = Connection(Endpoint(socket=server.socket), lambda: login, timeout=10, limit=10)
    connection.open()
    registry = ClassRegistry()
    maker, intervals = ClassIntervalMaker(registry), list[ClassInterval]()
    try:
        readers = dict(readers_of(connection))
        end = time.monotonic() + seconds + READING_SECONDS
        while (now := time.monotonic()) < end:
            read_once(readers, maker)
            intervals += maker.intervals(time.monotonic())
            time.sleep(max(0.0, READING_SECONDS - (time.monotonic() - now)))
    finally:
        connection.close()
    return registry, [
        interval
        for interval in intervals
        if interval.changes is not None and "cpu" in interval.used
    ]


def readers_of(connection: Connection) -> Iterator[tuple[str, Callable[[], Values]]]:
    """What is read, by the collector's name."""
    for spec in COLLECTORS:
        read = spec.prepare(connection).read
        if spec.name in ("host", "status", "digests") and read is not None:
            yield spec.name, read


def write(path: Path, registry: ClassRegistry, intervals: list[ClassInterval]) -> None:
    """Write both files."""
    names = tuple(registry.keys)
    table = class_table(intervals, np.arange(len(registry)), names, None)
    columns = {
        "count": table.count,
        "timer_wait_s": table.statement_time,
        "lock_s": table.lock_time,
        "inflight_delta_s": table.inflight_delta,
        **dict(table.sizes),
        "cpu_true_s": table.cpu,
    }
    known = {name: values for name, values in columns.items() if values is not None}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["t_s", "dt_s", "class", "digest_text", *known])
        for i, interval in enumerate(intervals):
            for k in np.flatnonzero(table.statement_time[i] + np.abs(known["inflight_delta_s"][i])):
                values = (f"{values[i, k]:.9g}" for values in known.values())
                out.writerow(
                    [interval.end, interval.seconds, names[k], registry.text(names[k]), *values]
                )
    with path.with_name(f"{path.name}_host.csv").open("w", newline="") as file:
        out = csv.writer(file)
        kinds = ("user", "nice", "sys", "idle", "iowait", "irq", "softirq", "steal")
        out.writerow(["t_s", "mysqld_cpu_s", *(f"host_{kind}" for kind in kinds)])
        for interval in intervals:
            busy, waits, whole = (
                interval.used.get(name, 0.0) for name in (BUSY, IO_WAIT, ALL_TIME)
            )
            row = (interval.used["cpu"], busy, 0, 0, max(whole - busy - waits, 0), waits, 0, 0, 0)
            out.writerow([interval.end, *(round(value, 6) for value in row)])


if __name__ == "__main__":
    main()
