"""Loads of sysbench on a private server that has one processor to itself, sysbench another."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sysbench_workloads import SOURCE, ZOO, Arrivals, Workload

from agent.demo.private_server import Flavour, PrivateServer, find_server
from collectors.host import process_clock
from testbed.real.clients import run_as_root
from testbed.real.daemon import wait_until
from testbed.real.replication import let_follow
from testbed.recorded.peak_predictions import MAX_CONNECTIONS, Level

THREADS = (4, 8, 12, 16, 24, 32, 48, 64, 96)
DATABASE = "headroom_bench"
SERVER_CPU, CLIENT_CPU = 0, 1
SERVER_OPTIONS = (f"--max-connections={MAX_CONNECTIONS}", "--innodb-buffer-pool-size=256M")
CACHE = Path(__file__).resolve().parent.parent / ".cache"
BURST = 1.6
"""A burst's rate, in multiples of the mean."""
WRITES = 300
"""Events/s on the source of a replica."""
HAS_INDEX = (
    "SELECT COUNT(*) FROM information_schema.statistics"
    f" WHERE table_schema = '{DATABASE}' AND index_name = 'k_1'"
)
"""sysbench makes it last."""
QUEUE_IS_FULL = "The event queue is full"
"""How sysbench ends a run in which 100,000 arrivals came to wait."""
PATIENCE = 120.0
FIRST = -20  # the highest priority there is


def give_processors(pid: int, processors: int) -> None:
    """Let the server run on the first processors alone, and ahead of others if we may."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        thread = int(task.name)
        os.sched_setaffinity(thread, range(SERVER_CPU, SERVER_CPU + processors))
        if os.geteuid() == 0:
            os.setpriority(os.PRIO_PROCESS, thread, FIRST)


@contextmanager
def ahead(*pids: int) -> Iterator[None]:
    """Let these processes' sessions run ahead of others, where priority counts only within one."""
    groups = [Path(f"/proc/{pid}/autogroup") for pid in pids]
    known = [group for group in groups if os.geteuid() == 0 and group.exists()]
    before = [group.read_text().split()[-1] for group in known]
    for group in known:
        group.write_text(str(FIRST))
    try:
        yield
    finally:
        for group, nice in zip(known, before, strict=True):
            group.write_text(nice)


@contextmanager
def loaded_server(flavour: Flavour, name: str) -> Iterator[tuple[PrivateServer, Workload, str]]:
    """Start a server for this workload of `ZOO`, ahead of others; yields both and a title."""
    program = find_server(flavour, CACHE / flavour) or find_server(flavour)
    if program is None:
        sys.exit(f"no {flavour} here; scripts/test installs it")
    workload = ZOO[name]
    with PrivateServer(program, options=[*SERVER_OPTIONS, *workload.server]) as server:
        give_processors(server.pid, workload.processors)
        with (
            prepared(server, workload),
            ahead(server.pid, os.getpid()),
            beside(server, workload),
        ):
            yield server, workload, f"{name} on {flavour} {program.version}"


@contextmanager
def prepared(server: PrivateServer, workload: Workload) -> Iterator[None]:
    """Make the workload's tables, on the server itself or on a source whose writes it applies."""
    if workload.applies is None:
        prepare(server, workload)
        yield
        return
    with PrivateServer(server.program, options=[*SERVER_OPTIONS, *SOURCE]) as source:
        prepare(source, workload)
        let_follow(source, server)
        wait_until("the tables", lambda: run_as_root(server, HAS_INDEX)[0][0] == 1, PATIENCE)
        writes = Workload(workload.applies, workload.options)
        with running(source, writes, "--threads=4", f"--rate={WRITES}"):
            yield


def prepare(server: PrivateServer, workload: Workload) -> None:
    """Make the tables of the workload."""
    with server.connect_as_root() as session, session.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {DATABASE}")
        cursor.execute(f"CREATE TABLE {DATABASE}.hot (id INT PRIMARY KEY, n INT)")
        cursor.execute(f"INSERT INTO {DATABASE}.hot VALUES (1, 0)")
        cursor.execute(f"CREATE TABLE {DATABASE}.cold (id INT PRIMARY KEY, n INT)")
        rows = ",".join(f"({i},{i})" for i in range(1, 1001))
        cursor.execute(f"INSERT INTO {DATABASE}.cold VALUES {rows}")
        session.commit()
    if workload.prepares:
        command(server, workload, "prepare")


def ladder(
    server: PrivateServer, workload: Workload, level: float
) -> tuple[float, dict[int, Level]]:
    """Queries per event, and what each number of threads gives."""
    truth = {}
    per_event = 1.0
    for threads in THREADS:
        per_event, truth[threads] = closed_loop(server, workload, level, threads)
    return per_event, truth


def closed_loop(
    server: PrivateServer, workload: Workload, seconds: float, threads: int
) -> tuple[float, Level]:
    """Measure clients that never rest: queries per event, and the level that they reach."""
    return measured(server, lambda: sysbench(server, workload, seconds, threads))


def overload(server: PrivateServer, workload: Workload, seconds: float, rate: float) -> Level:
    """Measure the level of the workload's connections where more arrive (events/s) than they get.

    Clients that wait for an arrival cost more than those that never rest: on processors that they
    share with the server it gets less by that.
    """
    _, level = measured(
        server, lambda: sysbench(server, workload, seconds, workload.connections, rate)
    )
    return level


def measured(server: PrivateServer, load: Callable[[], int]) -> tuple[float, Level]:
    """Measure a load that answers its number of events: queries per event, and its level."""
    before, used, start = questions(server), process_clock(server.pid), time.monotonic()
    events = load()
    asked, took = questions(server) - before, time.monotonic() - start
    busy = ((process_clock(server.pid) or 0.0) - (used or 0.0)) / took
    return asked / max(events, 1), Level(asked / took, busy)


def questions(server: PrivateServer) -> float:
    """The server's own count of queries."""
    with server.connect_as_root() as session, session.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Questions'")
        row = cursor.fetchone()
        return float(row[1]) if row else 0.0


def open_loop(server: PrivateServer, workload: Workload, seconds: float, rate: float) -> None:
    """Requests at that mean rate (events/s) for so long, as the workload's clients send them."""
    if workload.arrivals is not Arrivals.BURSTY:
        sysbench(server, workload, seconds, workload.connections, rate)
        return
    for second in range(round(seconds)):
        burst = BURST if second % 2 else 2.0 - BURST
        sysbench(server, workload, 1.0, workload.connections, burst * rate)


def sysbench(
    server: PrivateServer, workload: Workload, seconds: float, threads: int, rate: float = 0.0
) -> int:
    """Run the load for so long; answers how many events there were."""
    options = [f"--time={seconds:.0f}", f"--threads={threads}", f"--rate={rate:.0f}"]
    for line in command(server, workload, "run", *options).splitlines():
        if "total number of events" in line:
            return int(line.split(":")[1])
    return 0


@contextmanager
def beside(server: PrivateServer, workload: Workload) -> Iterator[None]:
    """Run the workload's other script with one thread, if it has one."""
    if workload.beside is None:
        yield
        return
    with running(server, Workload(workload.beside, workload.options), "--threads=1", "--rate=2"):
        yield


@contextmanager
def running(server: PrivateServer, workload: Workload, *options: str) -> Iterator[None]:
    """Run a workload while the body runs."""
    words = words_of(server, workload, "run", "--time=0", *options)
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def command(server: PrivateServer, workload: Workload, verb: str, *options: str) -> str:
    """One call of sysbench on the server's socket; answers what it printed.

    A run also ends where its queue is full: who measures one takes the time that it lasted.
    """
    words = words_of(server, workload, verb, *options)
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode and QUEUE_IS_FULL not in ended.stdout:
        sys.exit(f"sysbench failed: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return ended.stdout


def words_of(server: PrivateServer, workload: Workload, verb: str, *options: str) -> list[str]:
    """Build the command line of one call of sysbench."""
    place = [f"--mysql-socket={server.socket}", "--mysql-user=root", f"--mysql-db={DATABASE}"]
    ignore = ["--db-ps-mode=disable", "--mysql-ignore-errors=1213,1205,1062"]
    first = ["nice", "-n", str(FIRST)] if os.geteuid() == 0 else []
    pinned = ["taskset", "-c", str(CLIENT_CPU), *first, "sysbench", workload.script]
    return [*pinned, *place, *ignore, *workload.options, *options, verb]
