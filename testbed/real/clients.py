"""Sessions on a real server, and clients that repeat one statement each."""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Self

import numpy as np
import pymysql
from pymysql.cursors import Cursor

from agent.demo.private_server import PrivateServer
from testbed.real.daemon import PATIENCE

TOO_MANY_CONNECTIONS = 1040  # the server's error
OUT_OF_STEP = 0.037  # seconds between the starts of clients, lest they act as one


class Threads:
    """Threads of a load: they start on entry; on exit each ends after its turn."""

    def __init__(self, works: Iterable[Callable[[], object]]) -> None:
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work) for work in works]

    def __enter__(self) -> Self:
        """Start them all."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Wait until each has ended."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


class Clients(Threads):
    """Clients of a server, each a thread with a session that repeats one statement.

    Without a `pace` each asks again at once; with one, all together ask every `pace` seconds, and
    catch up when late. A broken session is opened again. Leaving the block ends them. They are root
    on this host, unless `session` opens another session.
    """

    def __init__(
        self,
        server: PrivateServer,
        statement: str,
        count: int = 1,
        *,
        first: str = "DO 0",
        pace: float = 0.0,
        session: "Callable[[PrivateServer], AbstractContextManager[Ask]] | None" = None,
    ) -> None:
        super().__init__(partial(self._live, i) for i in range(count))
        self.done = 0
        self._answered: list[float] = []
        self._server = server
        self._session = session or root
        self._statement = statement
        self._first = first
        self._pace = pace
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Start them all."""
        self.started = time.monotonic()
        return super().__enter__()

    def rates(self, seconds: float, since: float) -> tuple[float, float]:
        """Return the least and the greatest statements per second in any period of that length.

        A busy machine makes them uneven: what is seen of them must lie between.
        """
        starts = np.arange(since, time.monotonic() - seconds, seconds / 50)
        with self._lock:
            answered = np.array(self._answered)
        counts = np.diff(np.searchsorted(answered, [starts, starts + seconds]), axis=0) / seconds
        return float(counts.min()), float(counts.max())

    def _live(self, index: int) -> None:
        self._stop.wait(OUT_OF_STEP * index)
        while not self._stop.is_set():
            try:
                with self._session(self._server) as ask:
                    ask(self._first)
                    self._work(ask)
            except (pymysql.MySQLError, OSError):
                self._stop.wait(0.1)

    def _work(self, ask: "Ask") -> None:
        while not self._stop.is_set():
            ask(self._statement)
            with self._lock:
                self.done += 1
                self._answered.append(time.monotonic())
                due = self.started + self._pace * self.done
            self._stop.wait(max(0.0, due - time.monotonic()))


Ask = Callable[[str], list[tuple[Any, ...]]]


@contextmanager
def root(server: PrivateServer) -> Iterator[Ask]:
    """Open a session with all privileges; return a function from a statement to its rows.

    A full server keeps one place for root, which the session before may not have left yet.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        with socket.socket(socket.AF_UNIX) as sock:  # PyMySQL leaves open one that is refused
            sock.connect(server.socket)
            try:
                connection = _connected(sock, "root")
            except pymysql.OperationalError as error:
                if error.args[0] != TOO_MANY_CONNECTIONS or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
                continue
            with _asking(connection) as ask:
                yield ask
            return


@contextmanager
def session_over(sock: socket.socket, user: str, password: str) -> Iterator[Ask]:
    """Log in over a socket that is connected already."""
    with _asking(_connected(sock, user, password)) as ask:
        yield ask


def _connected(sock: socket.socket, user: str, password: str = "") -> "pymysql.Connection[Cursor]":
    connection: pymysql.Connection[Cursor] = pymysql.connect(
        user=user, password=password, read_timeout=60, autocommit=True, defer_connect=True
    )
    connection.connect(sock)
    return connection


@contextmanager
def _asking(connection: "pymysql.Connection[Cursor]") -> Iterator[Ask]:
    with connection.cursor() as cursor:

        def ask(statement: str) -> list[tuple[Any, ...]]:
            cursor.execute(statement)
            return list(cursor.fetchall())

        yield ask
    connection.close()


def run_as_root(server: PrivateServer, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements as root; return the last one's rows."""
    with root(server) as ask:
        return [ask(statement) for statement in statements][-1]


@contextmanager
def global_variables(server: PrivateServer, values: Mapping[str, int]) -> Iterator[None]:
    """Change these settings of a server for as long as the block runs."""
    with root(server) as ask:
        before = {name: ask(f"SELECT @@global.{name}")[0][0] for name in values}
        for name, value in values.items():
            ask(f"SET GLOBAL {name} = {value}")
        try:
            yield
        finally:
            for name, value in before.items():
                ask(f"SET GLOBAL {name} = {value}")


def sessions(server: PrivateServer, user: str) -> int:
    """Return the number of this user's sessions on the server."""
    table = "performance_schema.threads WHERE PROCESSLIST_USER"
    if not run_as_root(server, "SELECT @@performance_schema")[0][0]:
        table = "information_schema.processlist WHERE user"
    return int(run_as_root(server, f"SELECT COUNT(*) FROM {table} = '{user}'")[0][0])
