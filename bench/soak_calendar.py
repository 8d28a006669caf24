"""What a soak does to the daemon and its servers: load, restarts, crashes, reloads and more."""

import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import psutil
import pymysql
import yaml

from agent.demo.private_server import PrivateServer
from agent.history.history_file import size_on_disk
from testbed.real.clients import root, sessions
from testbed.real.daemon import Daemon
from testbed.real.server_faults import freeze_server, restart_server, thaw_server

CLIENTS, CLASSES, NAP = 8, 400, 0.05  # of each server; how many sorts of statement; seconds each
MOOD = 20.0  # seconds after which another number of clients is at work
FREEZE, PAUSE = 8.0, 5.0  # seconds
SILENT = 20  # web clients that say nothing


@dataclass(frozen=True)
class DaemonState:
    """What the daemon holds at one time: bytes, counts, seconds of CPU so far."""

    rss: int
    descriptors: int
    threads: int
    history: int
    cpu: float
    sessions: int


class Soak:
    """The daemon, its configuration and its servers; each method that can be on the calendar."""

    def __init__(self, agent: Daemon, config: Path, servers: list[PrivateServer]) -> None:
        self.agent = agent
        self.servers = servers
        self._config = config
        self._good = yaml.safe_load(config.read_text())
        self._process = psutil.Process(agent.process.pid)
        self._next = cycle(servers)
        self._timeout = cycle(("3s", "2s"))

    def look(self) -> DaemonState:
        """What it holds now."""
        with self._process.oneshot():
            cpu = self._process.cpu_times()
            return DaemonState(
                self._process.memory_info().rss,
                self._process.num_fds(),
                self._process.num_threads(),
                size_on_disk(Path(self._good["history"]["path"])),
                cpu.user + cpu.system,
                sum(_sessions(server) for server in self.servers),
            )

    def restart(self) -> None:
        """One server in good order."""
        restart_server(next(self._next))

    def crash(self) -> None:
        """One server in the middle of it all."""
        server = next(self._next)
        server.kill()
        server.start()

    def freeze(self) -> None:
        """One server, for longer than the agent waits."""
        server = next(self._next)
        freeze_server(server)
        time.sleep(FREEZE)
        thaw_server(server)

    def cut(self) -> None:
        """Every session of the agent's."""
        for server in self.servers:
            with root(server) as ask:
                table = "information_schema.processlist WHERE user = 'headroom'"
                for (number,) in ask(f"SELECT id FROM {table}"):
                    with suppress(pymysql.MySQLError):
                        ask(f"KILL {number}")

    def reload_changed(self) -> None:
        """Each target with another time-out: a new monitor that takes the window over."""
        timeout = next(self._timeout)
        changed = [{**t, "timeout": timeout} for t in self._good["targets"]]
        self._reload(yaml.safe_dump({**self._good, "targets": changed}))

    def reload_fewer(self) -> None:
        """Without its last target, and then with it."""
        self._reload(yaml.safe_dump({**self._good, "targets": self._good["targets"][:-1]}))
        time.sleep(PAUSE)
        self._reload(yaml.safe_dump(self._good))

    def reload_refused(self) -> None:
        """A file with a mistake in it."""
        self._reload("targets: nonsense")

    def stay_silent(self) -> None:
        """Web clients that connect and say nothing for a while."""
        with ExitStack() as stack:
            for _ in range(SILENT):
                address = ("127.0.0.1", self.agent.port)
                stack.enter_context(socket.create_connection(address, timeout=5))
            time.sleep(PAUSE)

    def _reload(self, text: str) -> None:
        self._config.write_text(text)
        self.agent.process.send_signal(signal.SIGHUP)


CALENDAR: tuple[tuple[float, float, Callable[[Soak], None]], ...] = (
    (30, 240, Soak.restart),
    (70, 240, Soak.crash),
    (110, 240, Soak.freeze),
    (45, 60, Soak.cut),
    (55, 120, Soak.reload_changed),
    (150, 240, Soak.reload_fewer),
    (190, 240, Soak.reload_refused),
    (20, 60, Soak.stay_silent),
)
"""First, then every so many seconds; each by a thread of its own."""


def _sessions(server: PrivateServer) -> int:
    """The agent's; none where the server is away."""
    try:
        return sessions(server, "headroom")
    except (pymysql.MySQLError, OSError):
        return 0


@contextmanager
def loaded(server: PrivateServer) -> Iterator[None]:
    """Clients of a server, another number of them at work from time to time."""
    stop, began = threading.Event(), time.monotonic()
    moods = random.Random(1)  # the same in every run
    at_work = [moods.randrange(1, CLIENTS + 1) for _ in range(1000)]

    def live(number: int) -> None:
        rng = random.Random(number)
        while not stop.is_set():
            with suppress(pymysql.MySQLError, OSError), root(server) as ask:
                while not stop.wait(0.01):
                    mood = int((time.monotonic() - began) / MOOD)
                    if number < at_work[mood % len(at_work)]:
                        ask(f"SELECT SLEEP({NAP}) AS c{rng.randrange(CLASSES)}")
                    else:
                        stop.wait(0.5)
            stop.wait(0.5)

    threads = [threading.Thread(target=live, args=[number]) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@contextmanager
def repeated(every: float, act: Callable[[], object], first: float = 0.0) -> Iterator[None]:
    """Do it again and again, by a thread; what fails for a server's absence is left out."""
    stop = threading.Event()

    def live() -> None:
        due = time.monotonic() + first
        while not stop.wait(max(0.0, due - time.monotonic())):
            with suppress(pymysql.MySQLError, OSError):
                act()
            due += every

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
