"""The table of faults: what is done to a server, how it is undone, and what the agent must say.

`test_live_faults.py` runs it: all releases at once, under load, behind a proxy, beside a server
that nothing happens to. Faults of the surroundings are in `faults_of_surroundings.py`.
Packets that are dropped need a router of their own, disks that are full or read-only one of theirs:
they are tests beside the table, in `test_live_network.py` and `test_live_history.py`.
"""

import signal
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
import yaml
from proxy import Proxy

from agent.demo.private_server import PrivateServer
from testbed.real.clients import Clients, root, run_as_root
from testbed.real.daemon import Daemon
from testbed.real.server_account import Account
from testbed.real.server_faults import freeze_server, restart_server, thaw_server
from testbed.real.server_programs import Release

FREEZE = 40.0  # seconds that a server stands still
BACK_WITHIN = 45.0  # seconds: the longest pause between two tries, 30, and a busy machine
SOON = 20.0  # seconds, where the first new sessions are let in
AT_ONCE = 10.0  # seconds, where the session goes on
CALM = "calm"  # the target that nothing happens to
NAP, CLIENTS = 0.1, 3  # what loads each server
FULL = {1040, 1203, 1226}  # no place for one more session
TABLES = (
    "performance_schema.events_statements_summary_by_digest",
    "performance_schema.events_statements_summary_global_by_event_name",
)
DIGESTS = 150  # rows of the digest table
GRANT = "GRANT SELECT ON performance_schema.* TO '{}'@'%'"
REVOKE = "REVOKE SELECT ON performance_schema.* FROM '{}'@'%'"
PASSWORD = "ALTER USER '{}'@'%' IDENTIFIED BY '{}'"
OFF = "--performance-schema=OFF"
EXACT = ("restart", "reset", "columns", "churn")  # kinds of intervals that are lost once


@dataclass
class WatchedServer:
    """A server with faults, the proxy before it, and the agent's account there."""

    name: Release  # the target's, too
    server: PrivateServer
    proxy: Proxy
    account: Account
    password_file: Path
    load: Clients
    digest: str  # of the load's statement
    held: list["pymysql.Connection[Any]"] = field(default_factory=list)

    def run(self, *statements: str) -> None:
        """Run a statement as root."""
        run_as_root(self.server, *statements)


@dataclass(frozen=True)
class Scene:
    """An agent, its configuration, and the servers that it watches."""

    agent: Daemon
    config: Path
    clock: Path  # see `set_clock`
    history: Path
    places: list[WatchedServer]
    crowd: list[socket.socket] = field(default_factory=list)  # web clients that hold the line


Act = Callable[[Scene], None]


def nothing(scene: Scene) -> None:
    """Do nothing: the fault ends by itself."""


@dataclass(frozen=True)
class Fault:
    """A fault, and what the agent must report until it is undone."""

    name: str
    inject: Act
    undo: Act = nothing
    up: int | None = None  # what it must say meanwhile; None: whatever it likes
    kinds: frozenset[str] = frozenset()  # of failures that tell it: one of them at least
    beside: frozenset[str] = frozenset()  # of failures that may be counted too; no other may
    missing: tuple[str, ...] = ()  # features
    failing: tuple[str, ...] = ()  # collectors
    loses: Mapping[str, int] = field(default_factory=dict)
    """Intervals of query classes that are lost, by kind: so many, of the others of `EXACT` none."""
    unbroken: bool = False  # whether the targets' own intervals go on
    skips: bool = False  # whether turns are missed
    gone: bool = False  # whether nothing at all is said of the targets
    restarts: int = 0
    longest_gap: int = 1  # seconds between two intervals, where they go on
    in_step: bool = True  # whether the agent itself goes on, by the same clock
    lasts: float = 2.0  # seconds, after it was noticed
    back_within: float = BACK_WITHIN  # seconds


def each(act: Callable[[WatchedServer], None]) -> Act:
    """Do it at every server at once."""

    def to_all(scene: Scene) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(act, scene.places))

    return to_all


def say(*statements: str) -> Act:
    """Run a statement as root on every server; `{}` is the agent's account."""

    def run(place: WatchedServer) -> None:
        place.run(*(statement.format(place.account.user) for statement in statements))

    return each(run)


def cut(place: WatchedServer) -> None:
    """End the agent's session; it reconnects after a second or so."""
    with root(place.server) as ask:
        sessions = "SELECT id FROM information_schema.processlist WHERE user = '{}'"
        for (session,) in ask(sessions.format(place.account.user)):
            with suppress(pymysql.MySQLError):
                ask(f"KILL {session}")


def write_wrong_password(place: WatchedServer) -> None:
    """Write another password than the server's into the file."""
    place.password_file.write_text("wrong")
    cut(place)


def write_password(place: WatchedServer) -> None:
    """Write the server's password into the file again."""
    place.password_file.write_text(place.account.password)


def rotate_password(place: WatchedServer) -> None:
    """Change the server's password, and not yet the file's."""
    place.account = place.account._replace(password=f"rotated-{time.monotonic_ns()}")
    place.run(PASSWORD.format(*place.account))
    cut(place)


def _held_as(place: WatchedServer, account: Account) -> bool:
    """Open one more session of that account; return False if there is no connection left."""
    code = 0
    try:
        place.held.append(
            pymysql.connect(
                host="127.0.0.1", port=place.server.port, user=account[0], password=account[1]
            )
        )
    except pymysql.MySQLError as error:
        code = error.args[0]
    assert code in {0} | FULL
    return code == 0


def take_places_of(account_of: Callable[[WatchedServer], Account], place: WatchedServer) -> None:
    """Open every session that the account may have, including the agent's.

    The agent's place is free once its killed session has ended; the agent may take it first.
    """
    deadline = time.monotonic() + 60
    while sessions_of_the_agent(place) or not place.held:
        if account_of(place) == place.account:
            leave(place)  # they would be killed with the agent's
        else:
            while _held_as(place, account_of(place)):
                pass
        cut(place)
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            if not _held_as(place, account_of(place)):
                time.sleep(0.01)
        assert time.monotonic() < deadline


def sessions_of_the_agent(place: WatchedServer) -> int:
    """Return the number of sessions through the proxy or not held by the test."""
    query = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{}'"
    held = sum(connection.user == place.account.user.encode() for connection in place.held)
    return int(run_as_root(place.server, query.format(place.account.user))[0][0]) - held


def fill_the_server(place: WatchedServer) -> None:
    """Use up all connections but root's."""
    place.run("CREATE USER IF NOT EXISTS 'crowd'@'%' IDENTIFIED BY 'crowd'")
    place.run("SET GLOBAL max_connections = 10")
    take_places_of(lambda _: Account("crowd", "crowd"), place)


def empty_the_server(place: WatchedServer) -> None:
    """Close them again."""
    leave(place)
    place.run("SET GLOBAL max_connections = 151")


def leave(place: WatchedServer) -> None:
    """Close every session that was opened."""
    for connection in place.held:
        with suppress(pymysql.MySQLError):
            connection.close()
    place.held.clear()


def without_schema(place: WatchedServer) -> None:
    """Restart without performance_schema."""
    place.server.options.append(OFF)
    restart_server(place.server)


def with_schema(place: WatchedServer) -> None:
    """Restart with performance_schema."""
    place.server.options.remove(OFF)
    restart_server(place.server)


def set_proxy(*, delay: float = 0.0, piece: int = 65536) -> Act:
    """Set the delay of answers, and the bytes of their pieces."""

    def to_place(place: WatchedServer) -> None:
        place.proxy.delay, place.proxy.piece = delay, piece

    return each(to_place)


def suspend(scene: Scene, meanwhile: Act = nothing) -> None:
    """Suspend the agent for less time than a scrape waits, and resume it."""
    scene.agent.process.send_signal(signal.SIGSTOP)
    meanwhile(scene)
    time.sleep(3.0)
    scene.agent.process.send_signal(signal.SIGCONT)


def reload_with(scene: Scene, names: list[str]) -> None:
    """Change the configuration to these of its targets."""
    whole = scene.config.with_suffix(".whole")
    if not whole.exists():
        whole.write_text(scene.config.read_text())
    settings = yaml.safe_load(whole.read_text())
    settings["targets"] = [t for t in settings["targets"] if t["name"] in names]
    scene.config.write_text(yaml.safe_dump(settings))
    scene.agent.process.send_signal(signal.SIGHUP)


def remove(scene: Scene) -> None:
    """Watch only the undisturbed server."""
    reload_with(scene, [CALM])


def put_back(scene: Scene) -> None:
    """Watch all servers again."""
    reload_with(scene, [CALM, *(place.name for place in scene.places)])


GONE = frozenset({"refused", "lost"})
LATE = frozenset({"timeout"})
FOR_THE_HOST = frozenset({"timeout", "unreadable"})  # a process that ends while it is read
CUT_OFF = frozenset({"lost"})  # the session that there was
FAULTS = (
    Fault(
        "stopped",
        each(lambda p: p.server.stop()),
        each(lambda p: p.server.start()),
        up=0,
        kinds=GONE,
        beside=FOR_THE_HOST,
        restarts=1,
        loses={"restart": 1},
    ),
    Fault(
        "killed",
        each(lambda p: p.server.kill()),
        each(lambda p: p.server.start()),
        up=0,
        kinds=GONE,
        beside=FOR_THE_HOST,
        restarts=1,
        loses={"restart": 1},
    ),
    Fault(
        "restarted",
        each(lambda p: restart_server(p.server)),
        kinds=GONE,
        beside=FOR_THE_HOST,
        restarts=1,
        loses={"restart": 1},
        lasts=0,
        back_within=SOON,
    ),
    Fault(
        "frozen",
        each(lambda p: freeze_server(p.server)),
        each(lambda p: thaw_server(p.server)),
        up=0,
        kinds=LATE,
        beside=CUT_OFF,
        lasts=FREEZE,
    ),
    Fault(
        "full",
        each(fill_the_server),
        each(empty_the_server),
        up=0,
        kinds=frozenset({"refused"}),
        beside=CUT_OFF,
    ),
    Fault(
        "no place for the account",
        each(partial(take_places_of, lambda p: p.account)),
        each(leave),
        up=0,
        kinds=frozenset({"refused"}),
        beside=CUT_OFF,
    ),
    Fault(
        "wrong password",
        each(write_wrong_password),
        each(write_password),
        up=0,
        kinds=frozenset({"denied"}),
        beside=CUT_OFF,
    ),
    Fault(
        "rotated password",
        each(rotate_password),
        each(write_password),
        up=0,
        kinds=frozenset({"denied"}),
        beside=CUT_OFF,
        back_within=SOON,
    ),
    Fault(
        "revoked grant",
        say(REVOKE),
        say(GRANT),
        up=1,
        kinds=frozenset({"privilege"}),
        failing=("statements", "threads"),
        back_within=AT_ONCE,
    ),
    Fault(
        "truncated sums",
        say(*(f"TRUNCATE TABLE {table}" for table in TABLES)),
        up=1,
        loses={"reset": 1},
        unbroken=True,
        back_within=AT_ONCE,
    ),
    Fault(
        "full digest table",
        say(*(f"SELECT 1 AS sort_{k}" for k in range(DIGESTS))),
        say(f"TRUNCATE TABLE {TABLES[0]}"),
        up=1,
        loses={"full": 1, "reset": 1},
        back_within=AT_ONCE,
    ),
    Fault("flushed status", say("FLUSH STATUS"), up=1, unbroken=True, back_within=AT_ONCE),
    Fault("killed session", each(cut), up=1, kinds=CUT_OFF, lasts=0, back_within=AT_ONCE),
    Fault(
        "no performance_schema",
        each(without_schema),
        each(with_schema),
        up=1,
        kinds=GONE,
        beside=FOR_THE_HOST,
        missing=("statements", "statements_in_flight", "threads"),
        restarts=2,
        loses={"restart": 1},
        back_within=SOON,
    ),
    Fault(
        "reset",
        each(lambda p: p.proxy.reset()),
        up=1,
        kinds=CUT_OFF,
        lasts=0,
        back_within=AT_ONCE,
    ),
    Fault(
        "silent network",
        each(lambda p: p.proxy.silent.set()),
        each(lambda p: p.proxy.silent.clear()),
        up=0,
        kinds=LATE,
        beside=CUT_OFF,
    ),
    Fault(
        "slow network",
        set_proxy(delay=0.6),
        set_proxy(),
        up=1,
        skips=True,
        lasts=4,
        back_within=AT_ONCE,
    ),
    Fault(
        "trickling network",
        set_proxy(delay=0.2, piece=8),
        set_proxy(),
        up=0,
        kinds=LATE,
        beside=CUT_OFF,
        lasts=1,
    ),
    Fault("suspended agent", suspend, skips=True, in_step=False, lasts=0, back_within=AT_ONCE),
    Fault("removed target", remove, put_back, gone=True, back_within=SOON),
)
