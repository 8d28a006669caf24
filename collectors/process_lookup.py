"""Which process on this machine is the server we are connected to, if any.

Host counters belong to a server only when its process is visible here: behind a network, in another
container or another PID namespace they would be another machine's.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from collectors.bounded_results import Shape, number, whole
from collectors.connection import Connection
from collectors.port_owner import listening_process
from collectors.regular_file import first_bytes

SERVER_NAMES = ("mysqld", "mariadbd")
MAX_PID_FILE_BYTES = 20  # bytes
MAX_PID = 2**22  # of any Linux: PID_MAX_LIMIT
START_TOLERANCE = 10.0  # seconds between a process's start and the server's own count of it


@dataclass(frozen=True, slots=True)
class ProcessNotFound:
    """The server's process is not visible on this machine, and why."""

    reason: str


def find_server_process(connection: Connection) -> psutil.Process | ProcessNotFound:
    """The server's process: by its socket, its pid file, its port or its start; else why not.

    Every candidate must be a MySQL server. All but the one that the kernel names as the socket's
    must also have started when the server says it did; a container's first process may be older, as
    it prepares the data directory before it becomes the server.
    """
    address = connection.peer_address()
    if address is not None and address not in _own_addresses():
        return ProcessNotFound(f"the server is on another host ({address})")
    started = time.time() - _uptime(connection)
    pid = connection.peer_pid()
    if pid == 0:
        return ProcessNotFound(
            "the server runs in another container (its process is not visible here)"
        )
    if pid is not None and (process := _server(pid)) is not None:
        return process
    for candidate in _named(connection):
        process = _server(candidate, started) if candidate else None
        if process is not None:
            return process
    return _only_one_started_then(started)


def _named(connection: Connection) -> Iterator[int | None]:
    """The processes that something names, the cheapest to ask first."""
    yield _pid_from_file(connection)
    yield _pid_from_port(connection)


def _own_addresses() -> set[str]:
    return {
        address.address.split("%")[0]
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
    } | {"127.0.0.1", "::1"}


def _uptime(connection: Connection) -> float:
    row = connection.row("SHOW GLOBAL STATUS LIKE 'Uptime'", Shape(columns=2))
    return number("Uptime", row[1])


def _pid_from_file(connection: Connection) -> int | None:
    directory = connection.variables.get("datadir", "/")
    path = Path(directory) / connection.variables.get("pid_file", "")
    try:
        said = first_bytes(path, MAX_PID_FILE_BYTES)
    except (OSError, ValueError):
        return None
    return int(said) if said.strip().isdigit() else None


def _pid_from_port(connection: Connection) -> int | None:
    return listening_process(whole("port", connection.variables.get("port", "0")))


def _server(pid: int, started: float | None = None) -> psutil.Process | None:
    """The process, if it is a MySQL server, and started at that time (Unix seconds; None: any)."""
    if not 0 < pid <= MAX_PID:
        return None
    try:
        process = psutil.Process(pid)
        near = started is None or abs(process.create_time() - started) <= START_TOLERANCE
        return process if near and _is_server(process) else None
    except psutil.Error:
        return None


def _is_server(process: psutil.Process) -> bool:
    """By its name, or by the program that a loader runs."""
    if process.name().startswith(SERVER_NAMES):
        return True
    return any(os.path.basename(word).startswith(SERVER_NAMES) for word in process.cmdline()[:6])  # noqa: PTH119


def _only_one_started_then(started: float) -> psutil.Process | ProcessNotFound:
    found = [p for pid in psutil.pids() if (p := _server(pid, started)) is not None]
    if len(found) == 1:
        return found[0]
    if found:
        return ProcessNotFound(f"{len(found)} server processes here started at the same time")
    return ProcessNotFound(
        "no process of this server is visible here (another container, or a tunnel)"
    )


IO_NAMES = {
    "read_bytes": "process_read_bytes",
    "write_bytes": "process_written_bytes",
    "syscr": "process_reads",
    "syscw": "process_writes",
}
"""Lines of /proc/PID/io and our names: bytes from and to disks, and system calls of any kind."""


def process_io(pid: int) -> dict[str, float]:
    """The bytes that a process has read and written since its start (Linux).

    Raises OSError where the kernel does not let this account look.
    """
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    counters = dict(line.split(": ") for line in lines)
    return {ours: float(counters[name]) for name, ours in IO_NAMES.items() if name in counters}


NANOSECOND = 1e-9
MAX_THREADS = 256
"""Number of threads of a process that are read; of more, an even sample."""


ALL_WAITED, CLIENTS_WAITED = "process_run_delay_seconds", "connection_run_delay_seconds"
CONNECTIONS = ("connection", "one_connection")
"""Names of clients' threads, on servers that name their threads."""


class RunDelay:
    """How long the threads of a process have waited for a CPU while they could have run (Linux).

    Adds up what each thread reports; what one that has ended waited last is missed.
    """

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self._seen: dict[str, int] = {}
        self._clients: dict[str, bool] = {}
        self._step = 1
        self._sums = {ALL_WAITED: 0.0, CLIENTS_WAITED: 0.0}

    def read(self) -> dict[str, float]:
        """The sums since the first call, of all and of the clients' threads; none if not known.

        Where no thread has a client's name (MariaDB), all count as such.
        """
        now = {}
        try:
            tasks = os.listdir(self._tasks)  # noqa: PTH208  (half the time of iterdir)
            step = -(-len(tasks) // MAX_THREADS)
            for task in tasks:
                if int(task) % step == 0:
                    now[task] = _waited(f"{self._tasks}/{task}/schedstat")
        except (OSError, ValueError, IndexError, ZeroDivisionError):
            return {}
        if not any(now.values()):
            return {}
        self._add(now, step, len(tasks) / len(now))
        return dict(self._sums)

    def _add(self, now: dict[str, int], step: int, stands_for: float) -> None:
        """Add the wait of each thread since it was last read; of a new one, since it began."""
        begins = bool(self._seen) and step == self._step
        self._clients = {
            task: self._clients[task] if task in self._clients else self._is_client(task)
            for task in now
        }
        named = any(self._clients.values())
        for task, waited in now.items():
            before = self._seen.get(task, 0 if begins else waited)
            grown = stands_for * max(0, waited - before) * NANOSECOND
            self._sums[ALL_WAITED] += grown
            if self._clients[task] or not named:
                self._sums[CLIENTS_WAITED] += grown
        self._seen, self._step = now, step

    def _is_client(self, task: str) -> bool:
        """Whether the server named this thread as one of a client."""
        try:
            return (self._tasks / task / "comm").read_text().strip() in CONNECTIONS
        except OSError:
            return False


def _waited(path: str) -> int:
    """Nanoseconds that a thread has waited; 0 for one that has just ended."""
    try:
        file = os.open(path, os.O_RDONLY)  # there are many, and a file object takes twice as long
        try:
            return int(os.read(file, 100).split()[1])
        finally:
            os.close(file)
    except (FileNotFoundError, ProcessLookupError):
        return 0
