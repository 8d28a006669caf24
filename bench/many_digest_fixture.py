"""A real MySQL with a given number of query classes, all of them in use; what it costs it.

The agent and the exporter log in over its socket, each with an account of its own.
"""

import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pymysql
from pymysql.constants import CLIENT
from pymysql.cursors import Cursor

from agent.demo.private_server import Flavour, PrivateServer, find_server
from collectors.connection import Login
from collectors.endpoint import Endpoint
from collectors.host import process_clock

ROOT = Path(__file__).resolve().parent.parent
DATABASE = "bench"
STATEMENT = "SELECT a, b AS class_{} FROM orders WHERE id = 7 AND a < 100"  # as in digests.lua
NANOSECOND = 1e-9
AT_ONCE = 200  # statements in one packet
GRANTS = {
    "agent": ("SELECT ON performance_schema.*",),
    "exporter": ("PROCESS, REPLICATION CLIENT, SELECT ON *.*",),
}


class WatchedServer:
    """The server; `use_all` runs a statement of each class once."""

    def __init__(self, server: PrivateServer, classes: int) -> None:
        self.classes = classes
        self.server = server
        self._session = server.connect_as_root()
        self._ask("CREATE DATABASE bench", "USE bench")
        self._ask("CREATE TABLE orders (id INT PRIMARY KEY, a INT, b INT)")
        self._ask("INSERT INTO orders VALUES (7, 1, 2)")
        self.logins = {name: self._login(name, rights) for name, rights in GRANTS.items()}
        self._connection = self._root_of_many()
        self.use_all()

    def __enter__(self) -> Self:
        """Nothing is left to do."""
        return self

    def __exit__(self, *exception: object) -> None:
        """End our sessions."""
        self._session.close()
        self._connection.close()

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens."""
        return Endpoint(socket=self.server.socket)

    @property
    def identity(self) -> str:
        """What it calls itself."""
        return self._value("SELECT @@server_uuid")

    def cpu(self) -> float:
        """CPU seconds that it has used so far."""
        return process_clock(self.server.pid) or 0.0

    def session_cpu(self, user: str) -> float:
        """CPU seconds that the one session of this user has used so far: it is a thread there."""
        table = "performance_schema.threads WHERE PROCESSLIST_USER"
        thread = self._value(f"SELECT THREAD_OS_ID FROM {table} = '{user}'")
        times = Path(f"/proc/{self.server.pid}/task/{thread}/schedstat").read_text()
        return int(times.split()[0]) * NANOSECOND

    def session_threads(self, *users: str) -> set[str]:
        """The kernel's numbers of the threads that serve these users now."""
        listed = ", ".join(f"'{user}'" for user in users)
        with self._session.cursor() as cursor:
            cursor.execute(
                "SELECT THREAD_OS_ID FROM performance_schema.threads"
                f" WHERE PROCESSLIST_USER IN ({listed})"
            )
            return {str(row[0]) for row in cursor.fetchall()}

    def cpu_of_other_sessions(self, threads: set[str]) -> float:
        """CPU seconds that all threads of sessions have used so far, but for these.

        A thread serves one session after the other, so short sessions need not be named.
        """
        tasks, used = Path(f"/proc/{self.server.pid}/task"), 0
        for task in tasks.iterdir():
            if task.name not in threads and (task / "comm").read_text().strip() == "connection":
                used += int((task / "schedstat").read_text().split()[0])
        return used * NANOSECOND

    def use_all(self) -> None:
        """A statement of each class."""
        with self._connection.cursor() as cursor:
            for first in range(1, self.classes + 1, AT_ONCE):
                numbers = range(first, min(first + AT_ONCE, self.classes + 1))
                cursor.execute(";".join(STATEMENT.format(k) for k in numbers))
                while cursor.nextset():
                    pass

    @contextmanager
    def under_load(self, rate: float) -> Iterator[None]:
        """All classes in turn, so many statements a second, by a program of its own."""
        place = [f"--mysql-socket={self.server.socket}", "--mysql-user=root"]
        pace = [f"--rate={rate:.0f}", f"--classes={self.classes}", "--time=0"]
        script = [str(ROOT / "bench" / "digests.lua"), f"--mysql-db={DATABASE}"]
        words = ["sysbench", *script, *place, *pace, "--db-ps-mode=disable", "run"]
        before = self.session_threads("root")
        load = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        try:
            while load.poll() is None and self.session_threads("root") <= before:
                time.sleep(0.1)
            yield
            if load.poll() is not None:
                sys.exit("the load has ended before its time")
        finally:
            load.terminate()
            load.wait()

    def _ask(self, *statements: str) -> None:
        with self._session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def _value(self, statement: str) -> str:
        with self._session.cursor() as cursor:
            cursor.execute(statement)
            row = cursor.fetchone()
        return str(row[0]) if row else ""

    def _login(self, name: str, rights: tuple[str, ...]) -> Login:
        password = secrets.token_urlsafe(12)
        self._ask(f"CREATE USER {name}@localhost IDENTIFIED BY '{password}'")
        self._ask(*(f"GRANT {right} TO {name}@localhost" for right in rights))
        return Login(name, password)

    def _root_of_many(self) -> "pymysql.Connection[Cursor]":
        return pymysql.connect(
            unix_socket=self.server.socket,
            user="root",
            database=DATABASE,
            client_flag=CLIENT.MULTI_STATEMENTS,
        )


@contextmanager
def watched_server(
    classes: int, *options: str, flavour: Flavour = "mysql"
) -> Iterator[WatchedServer]:
    """A server of our own, ended with the block."""
    program = find_server(flavour, ROOT / ".cache" / flavour) or find_server(flavour)
    if program is None:
        sys.exit(f"no {flavour} here; scripts/test installs it")
    sizes = [f"--performance-schema-digests-size={classes + 1000}", *options]
    with PrivateServer(program, options=sizes) as server, WatchedServer(server, classes) as watched:
        yield watched
