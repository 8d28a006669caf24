"""Finds the process of the connected server, if it is on this machine.

Host counters belong to a server only if its process is visible here: for a server behind a network,
in another container or in another PID namespace they would be another machine's.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from collectors.base import CollectorError
from collectors.connection import Connection
from collectors.port_owner import listening_process
from collectors.regular_file import first_bytes
from collectors.result_cells import ResultLimits, number, whole_number
from collectors.transport_security import is_loopback

SERVER_NAMES = ("mysqld", "mariadbd")
MAX_PID_FILE_BYTES = 20  # bytes
MAX_PID = 2**22  # of Linux: PID_MAX_LIMIT
START_TOLERANCE = 10.0  # seconds between a process's start and the start by the server's uptime
THREAD_MYSQL = """
SELECT THREAD_OS_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()"""
THREAD_MARIADB = "SELECT TID FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()"
"""The kernel's number of the thread that executes this statement, in the server's PID namespace."""
EXECUTED_STATEMENTS = 3
"""Statements that a process's thread must have executed to be the session's."""
MAX_ACCOUNTING_SECONDS = 0.1
"""How long the kernel may take to count a statement's CPU time: until its thread sleeps again."""


@dataclass(frozen=True, slots=True)
class ProcessNotFound:
    """The reason why the server's process is not visible on this machine."""

    reason: str


def find_server_process(connection: Connection) -> psutil.Process | ProcessNotFound:
    """Find the server's process by its socket, pid file, port or start time; else return why not.

    Every candidate must be a MySQL server. It must also have started when the server's uptime says,
    unless the kernel names it as the socket's peer: a container's first process may be older, as it
    prepares the data directory before it becomes the server. Where none started then, because the
    clock was set since, it is the one whose thread executes this session's statements.
    """
    address = connection.peer_address()
    if address is not None and not _is_own(address):
        return ProcessNotFound(f"the server is on another host ({address})")
    started = time.time() - _uptime(connection)
    pid = connection.peer_pid()
    if pid == 0:
        return ProcessNotFound(
            "the server runs in another container (its process is not visible here)"
        )
    if pid is not None and (process := _server(pid)) is not None:
        return process
    for candidate in _candidate_pids(connection):
        process = _server(candidate, started) if candidate else None
        if process is not None:
            return process
    found = _only_server_started_at(started)
    return found if isinstance(found, psutil.Process) else _executing_server(connection) or found


def _candidate_pids(connection: Connection) -> Iterator[int | None]:
    """Yield the process IDs by the pid file and by the port, the cheapest first."""
    yield _pid_from_file(connection)
    yield _pid_from_port(connection)


def _is_own(address: str) -> bool:
    """Return whether an IP address is this host's: loopback, or one of its interfaces."""
    interfaces = psutil.net_if_addrs().values()
    own = {each.address.partition("%")[0] for addresses in interfaces for each in addresses}
    return is_loopback(address) or address.partition("%")[0] in own


def _uptime(connection: Connection) -> float:
    row = connection.row("SHOW GLOBAL STATUS LIKE 'Uptime'", ResultLimits(columns=2))
    return number("Uptime", row[1])


def _pid_from_file(connection: Connection) -> int | None:
    directory = connection.variables.get("datadir", "/")
    path = Path(directory) / connection.variables.get("pid_file", "")
    try:
        content = first_bytes(path, MAX_PID_FILE_BYTES)
    except (OSError, ValueError):
        return None
    return int(content) if content.strip().isdigit() else None


def _pid_from_port(connection: Connection) -> int | None:
    return listening_process(whole_number("port", connection.variables.get("port", "0")))


def _server(pid: int, started: float | None = None) -> psutil.Process | None:
    """Return the process if it is a MySQL server started then (Unix seconds; None: any time)."""
    if not 0 < pid <= MAX_PID:
        return None
    try:
        process = psutil.Process(pid)
        near = started is None or abs(process.create_time() - started) <= START_TOLERANCE
        return process if near and _is_server(process) else None
    except psutil.Error:
        return None


def _is_server(process: psutil.Process) -> bool:
    """Return whether it is a server, by its name or by the program that a loader runs."""
    if process.name().startswith(SERVER_NAMES):
        return True
    return any(os.path.basename(word).startswith(SERVER_NAMES) for word in process.cmdline()[:6])  # noqa: PTH119


def _only_server_started_at(started: float) -> psutil.Process | ProcessNotFound:
    found = [p for pid in psutil.pids() if (p := _server(pid, started)) is not None]
    if len(found) == 1:
        return found[0]
    if found:
        return ProcessNotFound(f"{len(found)} server processes here started at the same time")
    return ProcessNotFound(
        "no process of this server is visible here (another container, or a tunnel)"
    )


def _executing_server(connection: Connection) -> psutil.Process | None:
    """Return the server process here that executes this session's statements; None if unknown.

    Another server's thread may happen to have the number of the session's, as numbers of another
    PID namespace or host say nothing here; but it does not run with each of the statements.
    """
    servers = [process for pid in psutil.pids() if (process := _server(pid)) is not None]
    thread = _session_thread(connection) if servers else None
    if thread is None:
        return None
    for process in servers:
        task = Path(f"/proc/{process.pid}/task/{thread}")
        if task.exists() and _runs_with_each_statement(task, thread, connection):
            return process
    return None


def _runs_with_each_statement(task: Path, thread: int, connection: Connection) -> bool:
    """Return whether a thread uses CPU time for each of a few statements of the session."""
    for _ in range(EXECUTED_STATEMENTS):
        before = _cpu_nanoseconds(task)
        if before is None or _session_thread(connection) != thread:
            return False
        deadline = time.monotonic() + MAX_ACCOUNTING_SECONDS
        while _cpu_nanoseconds(task) == before:
            if time.monotonic() > deadline:
                return False
            time.sleep(MAX_ACCOUNTING_SECONDS / 50)
    return True


def _cpu_nanoseconds(task: Path) -> int | None:
    """Read the CPU time of a thread; None if there is no such thread, or it cannot be read."""
    try:
        return int((task / "schedstat").read_bytes().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _session_thread(connection: Connection) -> int | None:
    """Return the kernel's number of the session's thread; None where that cannot be read."""
    query = THREAD_MARIADB if connection.is_mariadb else THREAD_MYSQL
    try:
        return whole_number("the thread's number", connection.cell(query))
    except CollectorError as error:
        if error.kind.ends_session:
            raise
        return None


IO_NAMES = {
    "read_bytes": "process_read_bytes",
    "write_bytes": "process_written_bytes",
    "syscr": "process_reads",
    "syscw": "process_writes",
}
"""Lines of /proc/PID/io and the agent's names: bytes from and to disks, and read and write calls of
any kind."""


def process_io(pid: int) -> dict[str, float]:
    """Read a process's bytes from and to disks, and I/O calls, since its start (Linux).

    Raises OSError where the kernel does not permit this account to read them.
    """
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    counters = dict(line.split(": ") for line in lines)
    return {key: float(counters[name]) for name, key in IO_NAMES.items() if name in counters}


NANOSECOND = 1e-9
MAX_THREADS = 256
"""About how many threads of a process are read at most; of more, an even sample."""
WORD, MIXING_FACTORS = 2**32, (0x9E3779B1, 0x85EBCA6B)
"""Multipliers of hash functions, which spread neighbouring numbers over all of a word."""


def is_in_sample(task: int, step: int) -> bool:
    """Return whether a thread is in a sample of one in `step`, evenly whatever their numbers are.

    The sample is stable, and that of a greater `step` is a part of it.
    """
    first, second = MIXING_FACTORS
    mixed = task * first % WORD
    mixed = (mixed ^ mixed >> 16) * second % WORD
    return (mixed ^ mixed >> 13) * step < WORD


ALL_THREADS_WAIT, CLIENT_THREADS_WAIT = "process_run_delay_seconds", "connection_run_delay_seconds"
APPLIERS_CPU = "applier_cpu_seconds"
CLIENT_THREAD_NAMES = ("connection", "one_connection")
"""Names of clients' threads, on servers that name their threads."""
APPLIER_THREAD_NAMES = ("rpl_rca_sql", "rpl_rca_wkr")
"""Beginnings of the names of threads that apply what another server wrote, likewise."""


class ThreadTimes:
    """Measures how long the threads of a process waited for a CPU while they could run (Linux).

    It is the sum of each thread's own counter; the last wait of a thread that has ended is missed.
    Also measures the CPU time of the threads that apply another server's writes, each of which is
    read, however many threads there are.
    """

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self._names: dict[str, str] = {}
        self._last_waits: dict[str, int] = {}
        self._last_cpu: dict[str, int] = {}
        self._step = 1
        self._sums = {ALL_THREADS_WAIT: 0.0, CLIENT_THREADS_WAIT: 0.0}

    def read(self) -> dict[str, float]:
        """Return the sums since the first call (s): the waits of all and of the clients' threads.

        Where no thread has a client's name (MariaDB), all count as clients' threads. The CPU time
        of appliers is returned once one was seen.
        """
        waits, cpu = {}, {}
        try:
            tasks = os.listdir(self._tasks)  # noqa: PTH208  (half the time of iterdir)
            names = {task: self._names.get(task) or self._name_of(task) for task in tasks}
            step = -(-len(tasks) // MAX_THREADS)
            for task in tasks:
                is_applier = names[task].startswith(APPLIER_THREAD_NAMES)
                is_sampled = is_in_sample(int(task), step)
                if is_applier or is_sampled:
                    ran, waited = _read_thread_times(f"{self._tasks}/{task}/schedstat")
                    if is_sampled:
                        waits[task] = waited
                    if is_applier:
                        cpu[task] = ran
        except (OSError, ValueError, IndexError, ZeroDivisionError):
            return {}
        if not any(waits.values()):
            return {}
        self._add_applier_cpu(cpu)
        self._names = names
        self._add_waits(waits, step, len(tasks) / len(waits))
        return dict(self._sums)

    def _add_waits(self, now: dict[str, int], step: int, weight: float) -> None:
        """Add the wait of each thread since its last reading; of a new thread, since it began."""
        counts_new_threads = bool(self._last_waits) and step == self._step
        clients = {task for task in now if self._names[task] in CLIENT_THREAD_NAMES}
        for task, waited in now.items():
            before = self._last_waits.get(task, 0 if counts_new_threads else waited)
            increase = weight * max(0, waited - before) * NANOSECOND
            self._sums[ALL_THREADS_WAIT] += increase
            if task in clients or not clients:
                self._sums[CLIENT_THREADS_WAIT] += increase
        self._last_waits, self._step = now, step

    def _add_applier_cpu(self, now: dict[str, int]) -> None:
        """Add the CPU time of each applier likewise."""
        for task, ran in now.items():
            before = self._last_cpu.get(task, 0 if self._last_waits else ran)
            increase = max(0, ran - before) * NANOSECOND
            self._sums[APPLIERS_CPU] = self._sums.get(APPLIERS_CPU, 0.0) + increase
        self._last_cpu = now

    def _name_of(self, task: str) -> str:
        """Return the name that the server gave to a thread; empty for one that has just ended."""
        try:
            return (self._tasks / task / "comm").read_text().strip()
        except OSError:
            return ""


def _read_thread_times(path: str) -> tuple[int, int]:
    """Read the nanoseconds that a thread ran and waited; 0 for one that has just ended."""
    try:
        file = os.open(path, os.O_RDONLY)  # many are read, and a file object takes twice as long
        try:
            ran, waited = os.read(file, 100).split()[:2]
            return int(ran), int(waited)
        finally:
            os.close(file)
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0
