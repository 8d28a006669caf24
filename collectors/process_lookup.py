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
MAX_PID_FILE_BYTES = 20
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
IO_NAMES = {
    "read_bytes": "process_read_bytes",
    "write_bytes": "process_written_bytes",
    "syscr": "process_reads",
    "syscw": "process_writes",
}
"""Lines of /proc/PID/io and the agent's names: bytes from and to disks, and read and write calls of
any kind."""


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
    pid = connection.peer_pid()
    if pid == 0:
        return ProcessNotFound(
            "the server runs in another container (its process is not visible here)"
        )
    if pid is not None and (process := _server(pid)) is not None:
        return process
    started = time.time() - server_uptime(connection)
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


def server_uptime(connection: Connection) -> float:
    """Return the server's uptime (s); it is asked only where the status was not read yet."""
    if connection.uptime_read is not None:
        at, uptime = connection.uptime_read
        return uptime + time.monotonic() - at
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


def process_io(pid: int) -> dict[str, float]:
    """Read a process's bytes from and to disks, and I/O calls, since its start (Linux).

    Raises OSError where the kernel does not permit this account to read them.
    """
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    counters = dict(line.split(": ") for line in lines)
    return {key: float(counters[name]) for name, key in IO_NAMES.items() if name in counters}
