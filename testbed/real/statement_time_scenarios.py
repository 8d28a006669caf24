"""Loads, each limited by another resource, and where their statement time goes.

Six of them, on one private server with a throttled disk and a slow link. The agent sees what it
always sees. The truth is that of the sessions' own threads: file, socket and metadata waits and,
for the updates, waits in the table handler (events_waits_summary_by_thread_by_event_name, its
instruments switched on for that alone); CPU and the wait for a processor of the same threads are
the kernel's (/proc/PID/task/TID/schedstat).
"""

import json
import math
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agent.config.resources import ResourceSettings
from agent.demo.private_server import Flavour, PrivateServer
from agent.window.recent_time_split import time_use
from models.time_split.limiting_resource import PARTS_OF, LimitedBy, LimitingResource
from models.time_split.time_parts import EXPLAINED_PARTS, TimePart, TimeSplit
from testbed.real.agent_in_process import watched, window_of
from testbed.real.cgroups import ahead_of_others, disk_under, throttled_reads
from testbed.real.clients import Ask, Clients, root, run_as_root, session_over
from testbed.real.daemon import COMMAND, target, write_config
from testbed.real.namespaces import OtherHost, slow_cable
from testbed.real.server_programs import server_program

OPERATIONS, RATE = 1000, "100Mbit"
INTERVAL, SETTLE = 1.0, 1.5  # seconds
ALIKE = 0.1
"""Shares of the truth that differ by less are as great as each other."""
NANOSECOND, PICOSECOND = 1e-9, 1e-12
DIGITS = " UNION ALL SELECT ".join(["SELECT 0 AS n", *map(str, range(1, 10))])
TABLES = (
    "CREATE DATABASE bench",
    "CREATE TABLE bench.t (id INT PRIMARY KEY, pad VARCHAR(7000)) CHARSET latin1",
    f"CREATE TABLE bench.digits {DIGITS}",
    "INSERT INTO bench.t SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n, REPEAT('x', 7000)"
    " FROM bench.digits a, bench.digits b, bench.digits c, bench.digits d",
    "CREATE TABLE bench.small (id INT PRIMARY KEY, v INT)",
    "INSERT INTO bench.small SELECT id, id FROM bench.t",
    "CREATE TABLE bench.hot (id INT PRIMARY KEY, n INT)",
    "INSERT INTO bench.hot VALUES (1, 0)",
    "CREATE TABLE bench.locked (id INT PRIMARY KEY)",
)
LOCKED, UNLOCKED = 0.4, 0.02  # seconds
FILES, SOCKETS, HANDLER = "wait/io/file/", "wait/io/socket/", "wait/io/table/"
METADATA = "wait/lock/metadata/"
INSTRUMENTS = " OR NAME LIKE ".join(f"'{kind}%'" for kind in (FILES, SOCKETS, HANDLER, METADATA))
CONSUMERS = "'events_waits_current', 'global_instrumentation', 'thread_instrumentation'"
WAITS = """
SELECT EVENT_NAME, SUM(SUM_TIMER_WAIT)
  FROM performance_schema.events_waits_summary_by_thread_by_event_name
 WHERE THREAD_ID IN ({threads}) AND SUM_TIMER_WAIT > 0 GROUP BY EVENT_NAME"""
THREADS = """
SELECT THREAD_ID, THREAD_OS_ID FROM performance_schema.threads
 WHERE PROCESSLIST_INFO LIKE '%{word}%' AND PROCESSLIST_ID <> CONNECTION_ID()"""
STATEMENT_TIME = """
SELECT SUM(SUM_TIMER_WAIT) FROM performance_schema.events_statements_summary_by_thread_by_event_name
 WHERE THREAD_ID IN ({threads})"""
RUNNING = """
SELECT SUM(TIMER_WAIT) FROM performance_schema.events_statements_current
 WHERE THREAD_ID IN ({threads}) AND END_EVENT_ID IS NULL"""


@dataclass(frozen=True)
class StatementTimeScenario:
    """One load, and what limits it."""

    name: str
    limit: LimitingResource
    statement: str
    clients: int
    handler_is_lock: bool = False
    locks_table: bool = False
    text: str = ""
    """How its digest's text begins, where that is not as the statement does."""


SCENARIOS = (
    StatementTimeScenario(
        "scan that computes",
        LimitingResource.CPU,
        "SELECT SUM(CRC32(REPEAT(v, 50))) FROM bench.small",
        1,
    ),
    StatementTimeScenario(
        "scan of a slow disk",
        LimitingResource.DISK,
        "SELECT SUM(LENGTH(pad)) FROM bench.t, (SELECT FLOOR(9000 * RAND()) AS start) AS s"
        " WHERE id BETWEEN start AND start + 600",
        1,
    ),
    StatementTimeScenario(
        "result over a slow link",
        LimitingResource.NETWORK,
        "SELECT REPEAT('x', 16000) FROM bench.digits a, bench.digits b",
        3,
        text="SELECT REPEAT (",
    ),
    StatementTimeScenario(
        "updates of one row",
        LimitingResource.LOCKS,
        "UPDATE bench.hot SET n = n + 1 WHERE id = 1 AND SLEEP(0.02) = 0",
        4,
        handler_is_lock=True,
    ),
    StatementTimeScenario(
        "reads of a locked table",
        LimitingResource.LOCKS,
        "SELECT COUNT(*) FROM bench.locked",
        3,
        locks_table=True,
        text="SELECT COUNT ( * ) FROM bench . locked",
    ),
    StatementTimeScenario(
        "sleep", LimitingResource.DBMS, "SELECT SLEEP(0.2)", 2, text="SELECT SLEEP ("
    ),
)


@dataclass(frozen=True)
class Result:
    """A scenario's split by the agent, and the truth."""

    scenario: StatementTimeScenario
    flavour: Flavour
    found: TimeSplit
    truth: TimeSplit

    @property
    def limited_by(self) -> LimitedBy | None:
        """The limiting resource according to the agent; None if unknown."""
        return LimitedBy.of(self.found)

    @property
    def found_shares(self) -> dict[LimitingResource, float]:
        """The agent's shares, by limiting resource."""
        return shares_by_limit(self.found)

    @property
    def true_shares(self) -> dict[LimitingResource, float]:
        """The true shares, by limiting resource."""
        return shares_by_limit(self.truth)

    @property
    def is_right(self) -> bool:
        """Whether nothing takes more of the truth than what the agent names, but for some points.

        Beside others a load may be limited by something else than its name says.
        """
        limited, true = self.limited_by, self.true_shares
        return limited is not None and true[limited.limit] > max(true.values()) - ALIKE

    @property
    def worst(self) -> float:
        """The greatest difference of a share, in points."""
        true = self.true_shares
        return max(abs(self.found_shares[k] - true[k]) for k in true) * 100


def shares_by_limit(split: TimeSplit) -> dict[LimitingResource, float]:
    """Sum up the parts of each limit."""
    shares = split.shares
    return {limit: sum(shares.get(p, 0.0) for p in parts) for limit, parts in PARTS_OF.items()}


def line(result: Result) -> str:
    """Write a row of the table."""
    limited = result.limited_by
    said = f"{limited.limit}, {limited.share:.0%}" if limited else "nothing"
    wrong = "" if result.is_right else " (wrong)"
    found, true = (
        " / ".join(f"{100 * share:.0f}" for share in shares.values())
        for shares in (result.found_shares, result.true_shares)
    )
    worst = f"{result.worst:.0f}"
    cells = (result.flavour, result.scenario.name, said + wrong, found, true, worst)
    return "| " + " | ".join(cells) + " |"


@dataclass(frozen=True)
class Place:
    """A server with a slow disk and a slow link, and what the agent is told of them."""

    server: PrivateServer
    resources: Mapping[str, Any]
    there: OtherHost
    password: str

    @contextmanager
    def playing(self, scenario: StatementTimeScenario) -> Iterator[None]:
        """Run a scenario's clients."""
        session = None
        if scenario.limit is LimitingResource.NETWORK:
            session = partial(_session_from, self.there, self.password)
        clients = Clients(self.server, scenario.statement, scenario.clients, session=session)
        locking = _locking(self.server) if scenario.locks_table else nullcontext()
        with clients, locking:
            yield


@contextmanager
def slow_place(flavour: Flavour) -> Iterator[Place]:
    """Start a server with tables, a throttled disk and a guest behind a slow link.

    It runs ahead of other programs: a thread that waits for a processor once its page has come is
    still in the file wait that is the truth, and the disk serves fewer reads meanwhile.
    """
    options = ["--innodb-flush-method=O_DIRECT", "--innodb-buffer-pool-size=8M"]
    options += ["--bind-address=0.0.0.0"]
    options += ["--innodb-read-ahead-threshold=0"] * (flavour == "mariadb")
    program = server_program(flavour)
    if program is None:
        sys.exit(f"no {flavour} server here (scripts/test installs it)")
    password = secrets.token_hex(8)
    with ExitStack() as stack:
        stack.enter_context(ahead_of_others(os.getpid()))
        server = stack.enter_context(PrivateServer(program, options=options))
        run_as_root(server, *TABLES, *_switch_on(), f"CREATE USER guest IDENTIFIED BY '{password}'")
        run_as_root(server, "GRANT SELECT ON bench.* TO guest")
        there = stack.enter_context(slow_cable(RATE.lower()))
        disk = disk_under(server.datadir)
        resources = {
            "disks": {disk: {"operations": OPERATIONS}},
            "interfaces": {there.interface: {"bandwidth": RATE}},
        }
        stack.enter_context(throttled_reads(server.pid, disk, OPERATIONS))
        yield Place(server, resources, there, password)


def results(flavour: Flavour, seconds: float, points: float = math.inf) -> Iterator[Result]:
    """Run each scenario for that many seconds on one server.

    What is more than `points` off is played once more, for three times as long: other programs use
    the disk too, and of a few seconds they may have had some.
    """
    with slow_place(flavour) as place:
        for scenario in SCENARIOS:
            result = played(place, flavour, scenario, seconds)
            if result.worst > points:
                result = played(place, flavour, scenario, 3 * seconds)
            yield result


def played(
    place: Place, flavour: Flavour, scenario: StatementTimeScenario, seconds: float
) -> Result:
    """Run one scenario, and nothing else, for that many seconds."""
    collectors = {n: {"interval": 0.5} for n in ("status", "statements", "threads", "host")}
    more: dict[str, Any] = {"resources": place.resources, "collectors": collectors}
    with watched(place.server, INTERVAL, **more) as agent, place.playing(scenario):
        time.sleep(SETTLE)
        start, truth = time.monotonic(), Truth(place.server, scenario)
        time.sleep(seconds)
        true, end = truth.split(), time.monotonic()
        time.sleep(INTERVAL + 1.3)  # until the last interval is complete
        window = window_of(agent)
    ends = window["end"]
    inside = window.select((ends - INTERVAL >= start - 0.5) & (ends <= end + 0.5))
    found = time_use(inside, 0.0, ResourceSettings.validated(place.resources))
    if found is None:
        sys.exit(f"{scenario.name}: nothing was seen")
    return Result(scenario, flavour, found.split, true)


def classes(flavour: Flavour, seconds: float) -> Iterator[Result]:
    """Run all scenarios at once; return each class as `mysql-headroom profile` has it."""
    with slow_place(flavour) as place:
        yield from classes_of(place, flavour, SCENARIOS, seconds)


def classes_alone(flavour: Flavour, seconds: float) -> Iterator[Result]:
    """Run one scenario after the other; return each class likewise."""
    with slow_place(flavour) as place:
        for scenario in SCENARIOS:
            yield from classes_of(place, flavour, [scenario], seconds)


def classes_of(
    place: Place, flavour: Flavour, scenarios: Sequence[StatementTimeScenario], seconds: float
) -> Iterator[Result]:
    """Run these scenarios at once."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        there = target(folder, place.server)
        config, _ = write_config(folder, there, resources=place.resources)
        for scenario in scenarios:
            stack.enter_context(place.playing(scenario))
        time.sleep(SETTLE)
        truths = [Truth(place.server, scenario) for scenario in scenarios]
        command = [str(COMMAND), "profile", "--config.file", str(config)]
        command += ["--seconds", f"{seconds:g}s", "--format", "json", "--text", "--top", "100"]
        said = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        true = [truth.split() for truth in truths]
    for scenario, split in zip(scenarios, true, strict=True):
        begin = _plain(scenario.text or scenario.statement[:20])
        row = next((row for row in said["classes"] if _plain(row["text"]).startswith(begin)), None)
        if row is None:
            sys.exit(f"{scenario.name}: no class of that text")
        shares = {TimePart(part): row[f"time_{part.value}"] for part in EXPLAINED_PARTS}
        spent = row["seconds"]
        parts = {part: None if share is None else share * spent for part, share in shares.items()}
        yield Result(scenario, flavour, TimeSplit.of(spent, parts), split)


def _plain(text: str | None) -> str:
    """Return a text without the changes of a server's normalisation."""
    return (text or "").replace("`", "").replace(" ", "").upper()


def _switch_on() -> tuple[str, ...]:
    instruments = "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES', TIMED = 'YES'"
    consumers = "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'"
    return (
        f"{instruments} WHERE NAME LIKE {INSTRUMENTS}",
        f"{consumers} WHERE NAME IN ({CONSUMERS})",
    )


@contextmanager
def _locking(server: PrivateServer) -> Iterator[None]:
    """Lock the table for most of the time; the session is idle meanwhile."""
    stop = threading.Event()

    def lock() -> None:
        with root(server) as ask:
            while not stop.wait(UNLOCKED):
                ask("LOCK TABLES bench.locked WRITE")
                stop.wait(LOCKED)
                ask("UNLOCK TABLES")

    thread = threading.Thread(target=lock)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def _session_from(there: OtherHost, password: str, server: PrivateServer) -> Iterator[Ask]:
    """Open a guest's session of the other host; this thread moves there."""
    there.enter()
    with (
        socket.create_connection((there.ours, server.port), timeout=10) as sock,
        session_over(sock, "guest", password) as ask,
    ):
        yield ask


class Truth:
    """Measures what the threads of the sessions wait for, from its creation until `split`."""

    def __init__(self, server: PrivateServer, scenario: StatementTimeScenario) -> None:
        self._server, self._scenario = server, scenario
        word = scenario.statement[:40].replace("'", "''").replace("%", "")
        rows: dict[int, int] = {}
        deadline = time.monotonic() + 20
        while len(rows) < scenario.clients and time.monotonic() < deadline:
            rows |= {int(t): int(o) for t, o in run_as_root(server, THREADS.format(word=word))}
        if len(rows) < scenario.clients:
            sys.exit(f"{scenario.name}: {len(rows)} sessions of {scenario.clients} were found")
        self._ids, self._tasks = ", ".join(map(str, rows)), list(rows.values())
        self._before = self._read()

    def _read(self) -> dict[str, float]:
        rows = run_as_root(self._server, WAITS.format(threads=self._ids))
        found = {str(name): float(total) * PICOSECOND for name, total in rows}
        for query in (STATEMENT_TIME, RUNNING):
            rows = run_as_root(self._server, query.format(threads=self._ids))
            found[query] = float(rows[0][0] or 0.0) * PICOSECOND
        stats = [
            Path(f"/proc/{self._server.pid}/task/{task}/schedstat").read_text().split()
            for task in self._tasks
        ]
        found["cpu"] = sum(int(stat[0]) for stat in stats) * NANOSECOND
        found["delay"] = sum(int(stat[1]) for stat in stats) * NANOSECOND
        return found

    def split(self) -> TimeSplit:
        """Return the split since the start, by the waits."""
        after = self._read()
        risen = {name: value - self._before.get(name, 0.0) for name, value in after.items()}
        statement_time = risen[STATEMENT_TIME] + risen[RUNNING]
        waits: Callable[[str], float] = lambda kind: sum(  # noqa: E731
            value for name, value in risen.items() if name.startswith(kind)
        )
        handler = 0.0
        if self._scenario.handler_is_lock:  # what its calls read is among the files' waits too
            handler = max(waits(HANDLER) - waits(FILES), 0.0)
        measured: Mapping[TimePart, float | None] = {
            TimePart.CPU: risen["cpu"],
            TimePart.PROCESSOR_QUEUE: risen["delay"],
            TimePart.DISK_RANDOM: waits(FILES),
            TimePart.NETWORK: waits(SOCKETS),
            TimePart.LOCKS: handler + waits(METADATA),
        }
        return TimeSplit.of(statement_time, measured)
