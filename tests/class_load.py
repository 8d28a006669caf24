"""A load of query classes, each with its own user: computing, waiting, sending, reading."""

import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pymysql
from binary_protocol import Prepared
from pymysql.cursors import Cursor

from agent.demo.private_server import PrivateServer
from testbed.real.clients import Threads, run_as_root

ROWS, BIG_ROWS = 16_384, 32_768
MOOD_SECONDS, MOOD_SPREAD = 3.0, 0.8
"""Each class changes its rate so often, by a factor e^N(0, spread²)."""
SMALL_POOL = ("--innodb-buffer-pool-size=16M", "--innodb-flush-method=O_DIRECT")

Draw = Callable[[random.Random], Sequence[str | float]]


@dataclass(frozen=True)
class Work:
    """One class: its statements, their rate, and how its digest text is recognised."""

    name: str
    draw: Draw
    rate: float
    pattern: str
    clients: int = 1
    first: tuple[str, ...] = ()
    binary: bool = False
    """It is prepared and executed by the binary protocol; `first` is none then."""


def always(*statements: str | float) -> Draw:
    """Return a client's statements, the same each time; a number is a pause in seconds."""
    return lambda _: statements


WORKS = (
    Work("compute", always("SELECT BENCHMARK(800000, 2 + 1) AS compute"), 7, r"`compute`"),
    Work(
        "hashes",
        always("SELECT SUM(CRC32(SHA2(b, 256))) AS hashes FROM live.t WHERE id < 4000"),
        5,
        r"`hashes`",
    ),
    Work("scan", always("SELECT SUM(a) AS scan FROM live.t WHERE b < 'z'"), 4, r"`scan`"),
    Work(
        "sorts",
        always("SELECT a AS sorts FROM live.t WHERE id < 6000 ORDER BY b, a DESC LIMIT 3"),
        5,
        r"`sorts`",
    ),
    Work(
        "groups",
        always("SELECT a % 97 AS grouped, COUNT(*) FROM live.t WHERE id < 5000 GROUP BY a % 97"),
        4,
        r"`grouped`",
    ),
    Work(
        "joins",
        always(
            "SELECT COUNT(*) AS joins FROM live.t x JOIN live.t y ON y.id = x.id + 1"
            " WHERE x.id < 4000"
        ),
        4,
        r"`joins`",
    ),
    Work(
        "points",
        lambda rng: [f"SELECT a AS points FROM live.t WHERE id = {rng.randrange(ROWS)}"],
        50,
        r"`points`",
        clients=2,
    ),
    Work(
        "inserts", lambda rng: [f"INSERT INTO live.log (a) VALUES ({rng.random()})"], 15, r"`log`"
    ),
    Work(
        "ships",
        always("SELECT REPEAT(b, 60) AS ships FROM live.t LIMIT 150"),
        5,
        r"`ships`",
    ),
    Work(
        "reads",
        lambda rng: [
            "SELECT SUM(LENGTH(pad)) AS reads_disk FROM live.big WHERE id BETWEEN"
            f" {(start := rng.randrange(BIG_ROWS))} AND {start + 150}"
        ],
        8,
        r"`reads_disk`",
    ),
    Work(
        "binary",
        always("SELECT BENCHMARK(300000, 5 * 8) AS binary_work"),
        8,
        r"`binary_work`",
        binary=True,
    ),
    Work(
        "prepared",
        always("EXECUTE prepared_work"),
        6,
        r"EXECUTE|`?prepared_work`?",
        first=("PREPARE prepared_work FROM 'SELECT BENCHMARK(300000, 3 * 7) AS prepared'",),
    ),
    Work("calls", always("CALL live.work()"), 5, r"^CALL"),
    Work("sleeps", always("SELECT SLEEP(0.3) AS sleeps"), 50, r"`sleeps`", clients=2),
    Work(
        "locks",
        always(
            "SELECT GET_LOCK('live', 2) AS user_locks",
            0.05,
            "SELECT RELEASE_LOCK('live') AS user_locks",
        ),
        50,
        r"`user_locks`",
        clients=3,
    ),
    Work(
        "hot_row",
        always("BEGIN", "UPDATE live.hot SET n = n + 1 WHERE id = 1", 0.04, "COMMIT"),
        50,
        r"`hot`|^BEGIN|^COMMIT|^START",
        clients=3,
    ),
    Work(
        "holder",
        always("LOCK TABLES live.m WRITE", 0.2, "UNLOCK TABLES", 0.02),
        50,
        r"LOCK TABLES",
    ),
    Work(
        "metadata", always("SELECT COUNT(*) AS metadata_lock FROM live.m"), 50, r"`metadata_lock`"
    ),
)
BURN = Work("burn", always("SELECT BENCHMARK(3000000, 1 + 6) AS burn"), 1e6, r"`burn`", clients=6)
"""More clients that compute than there are processors."""
SLEEP_SECONDS = 5
LONG = Work("long", always(f"SELECT SLEEP({SLEEP_SECONDS}) AS long_sleep"), 1e-4, r"`long_sleep`")
"""Sleeps once."""
KNOWN = "SELECT SLEEP(0) AS long_sleep"
"""With it MariaDB has the digest of the sleeper, which is there when a first statement ends."""
WAITERS = ("sleeps", "locks", "metadata", "holder")
"""These use next to nothing, however long they take."""
WITHOUT_TABLES = ("compute", "binary", "prepared", "calls", "sleeps", "locks")
"""These read nothing from disk."""

SCHEMA = (
    "CREATE DATABASE live",
    "USE live",
    "CREATE TABLE live.t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(64))",
    "INSERT INTO live.t (a, b) VALUES (1, SHA2(1, 256))",
    *["INSERT INTO live.t (a, b) SELECT a * 31 % 9973 + id, SHA2(id + a, 256) FROM live.t"] * 14,
    "CREATE TABLE live.big (id INT PRIMARY KEY AUTO_INCREMENT, pad VARCHAR(1500))",
    "INSERT INTO live.big (pad) SELECT REPEAT(b, 20) FROM live.t",
    "INSERT INTO live.big (pad) SELECT pad FROM live.big",
    "CREATE TABLE live.log (id INT PRIMARY KEY AUTO_INCREMENT, a DOUBLE)",
    "CREATE TABLE live.hot (id INT PRIMARY KEY, n INT)",
    "INSERT INTO live.hot VALUES (1, 0)",
    "CREATE TABLE live.m (id INT PRIMARY KEY)",
    "CREATE PROCEDURE live.work() BEGIN DECLARE x INT; SELECT BENCHMARK(300000, 4 * 9) INTO x; END",
)


def prepare(server: PrivateServer) -> None:
    """Create the tables and the users."""
    run_as_root(server, *SCHEMA)
    for work in (*WORKS, BURN, LONG):
        run_as_root(
            server,
            f"CREATE USER {user_of(work.name)}@localhost IDENTIFIED BY ''",
            f"GRANT ALL ON *.* TO {user_of(work.name)}@localhost",
        )


def user_of(name: str) -> str:
    """Return the user of a class."""
    return f"u_{name}"


def class_of(text: str) -> str | None:
    """Return the class to which a digest text belongs."""
    return next((work.name for work in (*WORKS, BURN, LONG) if re.search(work.pattern, text)), None)


class Load(Threads):
    """All classes at once, each at a varying rate; leaving the block ends them."""

    def __init__(self, server: PrivateServer, works: Sequence[Work] = WORKS) -> None:
        super().__init__(
            partial(self._live, work, random.Random(f"{work.name}{k}"))
            for work in works
            for k in range(work.clients)
        )
        self.failures: list[str] = []
        self._server = server

    def _live(self, work: Work, rng: random.Random) -> None:
        connection = pymysql.connect(
            unix_socket=self._server.socket, user=user_of(work.name), password="", autocommit=True
        )
        try:
            with connection.cursor() as cursor:
                if work.binary:
                    [statement] = work.draw(rng)
                    prepared = Prepared(connection, str(statement))
                    self._work(work, rng, lambda _: prepared.execute())
                    return
                for statement in work.first:
                    cursor.execute(statement)
                self._work(work, rng, lambda said: _say(cursor, said))
        except pymysql.MySQLError as error:
            self.failures.append(f"{work.name}: {error}")
        finally:
            connection.close()

    def _work(self, work: Work, rng: random.Random, say: Callable[[str], None]) -> None:
        mood, until = 1.0, 0.0
        while not self._stop.is_set():
            if time.monotonic() > until:
                mood = rng.lognormvariate(0, MOOD_SPREAD)
                until = time.monotonic() + MOOD_SECONDS * rng.uniform(0.5, 1.5)
            for step in work.draw(rng):
                if isinstance(step, str):
                    say(step)
                else:
                    time.sleep(step)
            self._stop.wait(rng.expovariate(work.rate / work.clients * mood))


def _say(cursor: Cursor, statement: str) -> None:
    cursor.execute(statement)
    cursor.fetchall()
