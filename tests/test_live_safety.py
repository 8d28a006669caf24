"""The watched server is safe: what it says itself of the agent, in good times and in bad."""

import os
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pymysql
import pytest
from conftest import FLAVOURS, ServerFactory
from proxy import Proxy

from agent.demo.private_server import PrivateServer
from collectors.endpoint import Endpoint
from testbed.real.clients import Ask, Clients, root, run_as_root
from testbed.real.daemon import Daemon, PlausiblePage, target, wait_until, watching
from testbed.real.server_account import Account, least_account
from testbed.real.server_faults import freeze_server, thaw_server

ALL_ON = "--performance-schema-consumer-events-statements-current=ON"
COMMANDS = "Connect|Query|Quit|Prepare|Execute|Statistics|Ping|Init DB"
LOG_LINE = re.compile(rf"^(?:\S+|\d{{6}} +\d+:\d\d:\d\d)?\t* *(\d+) ({COMMANDS})\t?(.*)$")
SESSIONS = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{user}'"
TRANSACTIONS = (  # a statement that reads the dictionary is one for its own short time
    "SELECT COUNT(*) FROM information_schema.innodb_trx"
    " JOIN information_schema.processlist ON trx_mysql_thread_id = id WHERE user = '{user}'"
    " AND (trx_rows_locked + trx_rows_modified > 0 OR trx_started < NOW() - INTERVAL 3 SECOND)"
)
SAID = (
    "SELECT EVENT_NAME FROM performance_schema.events_statements_summary_by_user_by_event_name"
    " WHERE user = '{user}' AND COUNT_STAR > 0"
)
LIMITS = (
    "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.variables_by_thread"
    " JOIN performance_schema.threads USING (THREAD_ID) WHERE PROCESSLIST_USER = '{user}'"
    " AND VARIABLE_NAME IN ('max_execution_time', 'lock_wait_timeout', 'autocommit')"
)
PEACEFUL = {"select", "set_option", "Quit", "Ping", "error", "prepare_sql", "execute_sql"}
"""And all that begins with show_. What is prepared and executed is in the server's log."""
ASKING = ("Query", "Prepare", "Execute")
OWN_NAME = re.compile(r"(PREPARE|EXECUTE) mysql_headroom_\d+\b")
PHASE = float(os.environ.get("HEADROOM_PHASE_SECONDS", "10"))  # that each phase lasts at least
CLIENTS, NAP = 3, 0.05  # each asks for a sleep of so many seconds, again and again
LOOK = 0.1  # seconds between two looks at the server's own tables, of two statements each
OWN = 50.0  # statements a second that the agent and a new session ask for at most
MOST = 1.2 * (CLIENTS / NAP + 2 / LOOK) + OWN


@dataclass
class Seen:
    """What the server's own tables said of the account, asked again and again."""

    sessions: list[int] = field(default_factory=list)
    transactions: list[int] = field(default_factory=list)


@dataclass
class WatchedServer:
    """One server, the proxy before it, and who looks on."""

    server: PrivateServer
    proxy: Proxy
    account: Account
    seen: Seen = field(default_factory=Seen)

    @property
    def name(self) -> str:
        """The target's name."""
        return self.server.flavour

    @property
    def log(self) -> Path:
        """The server's log of every statement."""
        return self.server.folder / "general.log"

    def statements(self) -> list[tuple[str, str]]:
        """Each command of the account with its text, from the server's general log."""
        ours: set[str] = set()
        found: list[tuple[str, str]] = []
        for line in self.log.read_text(errors="replace").splitlines():
            event = LOG_LINE.match(line)
            if event is None:
                if found:  # a statement of several lines goes on
                    found[-1] = found[-1][0], f"{found[-1][1]} {line.strip()}"
                continue
            session, command, text = event.groups()
            if command == "Connect":
                (ours.add if text.startswith(f"{self.account.user}@") else ours.discard)(session)
            found.append((command, text) if session in ours else ("", ""))
        return [(command, text) for command, text in found if command]


@contextmanager
def looked_on(place: WatchedServer) -> Iterator[None]:
    """Ask the server all the while; a server that does not answer is asked again."""
    stop = threading.Event()

    def look(ask: Ask) -> None:
        while not stop.wait(LOOK):
            seen = place.seen
            seen.sessions.append(int(ask(SESSIONS.format(user=place.account.user))[0][0]))
            seen.transactions.append(int(ask(TRANSACTIONS.format(user=place.account.user))[0][0]))

    def live() -> None:
        while not stop.is_set():
            with suppress(pymysql.MySQLError, OSError), root(place.server) as ask:
                look(ask)
            stop.wait(0.1)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def places(private_server: ServerFactory) -> Iterator[list[WatchedServer]]:
    """A server of each flavour that logs every statement, each behind a proxy."""

    def start(flavour: object) -> PrivateServer:
        return private_server(flavour, options=[ALL_ON, "--log-output=FILE"])  # type: ignore[arg-type]

    with ExitStack() as stack:
        made = []
        for server in map(start, FLAVOURS):
            proxy = stack.enter_context(Proxy(server.port))
            place = WatchedServer(server, proxy, least_account(server))
            run_as_root(
                server,
                f"SET GLOBAL general_log_file = '{place.log}'",
                "SET GLOBAL general_log = ON",
            )
            made.append(place)
        yield made


def rates(places: list[WatchedServer], seconds: float = PHASE) -> list[float]:
    """How many statements a second the agent asks each server for, by the server's own log."""
    before = [len(place.statements()) for place in places]
    began = time.monotonic()
    time.sleep(seconds)
    counts = [len(place.statements()) for place in places]
    took = time.monotonic() - began
    return [(after - early) / took for early, after in zip(before, counts, strict=True)]


def all_up(agent: Daemon, places: list[WatchedServer], up: int) -> bool:
    """Whether it calls them all up, or all down."""
    page = agent.page
    return all(page.get("up", target=place.name) == up for place in places)


def counted(agent: Daemon, name: str, place: WatchedServer) -> float:
    """A counter of one target, over all its collectors."""
    return sum(agent.page.all(name, target=place.name))


def freeze(places: list[WatchedServer]) -> None:
    """Halt every server."""
    for place in places:
        freeze_server(place.server)


def thaw(places: list[WatchedServer]) -> None:
    """Let every server go on."""
    for place in places:
        thaw_server(place.server)


@pytest.mark.timeout(300 + 6 * PHASE)
def test_the_server_reports_a_harmless_agent(places: list[WatchedServer], tmp_path: Path) -> None:
    """One session, no transaction, only reads, and fewer of them the slower the server answers.

    While it is healthy, behind a slow network, frozen, with broken sessions and with a refused
    password; then healthy again.
    """
    targets = [
        target(tmp_path, p.server, p.account, name=p.name, over=Endpoint(port=p.proxy.port))
        for p in places
    ]
    with ExitStack() as stack:
        for place in places:
            stack.enter_context(looked_on(place))
            stack.enter_context(Clients(place.server, f"SELECT SLEEP({NAP})", CLIENTS))
        agent = stack.enter_context(watching(tmp_path, *targets, sane=PlausiblePage(MOST, 8)))
        wait_until("up", lambda: all_up(agent, places, 1))
        good = rates(places)
        limits_are_set(places)
        assert max(max(place.seen.sessions) for place in places) == 1
        slow = while_slow(agent, places)
        frozen = while_frozen(agent, places)
        denied = while_denied(agent, places, tmp_path)
        broken_again_and_again(agent, places)
        wait_until("up", lambda: all_up(agent, places, 1), 40)
    for place, at_rest, less, none, few in zip(places, good, slow, frozen, denied, strict=True):
        assert at_rest > 3, place.name
        assert less < at_rest / 2, place.name
        assert none < 0.5, place.name
        assert few < at_rest / 2, place.name
        is_harmless(place)


def limits_are_set(places: list[WatchedServer]) -> None:
    """The session carries its own limits; MariaDB has no table that shows a session's."""
    for place in places:
        asked = " ".join(text for _, text in place.statements())
        assert re.search(
            r"SET SESSION lock_wait_timeout = 1, .*max_(execution|statement)_time", asked
        )
        if place.name == "mysql":
            found = dict(run_as_root(place.server, LIMITS.format(user=place.account.user)))
            assert 0 < int(found["max_execution_time"]) <= 1000
            assert int(found["lock_wait_timeout"]) == 1
            assert found["autocommit"] == "ON"


def while_slow(agent: Daemon, places: list[WatchedServer]) -> list[float]:
    """Each answer takes most of the time-out: turns are skipped and counted, none made up for."""
    before = [counted(agent, "collector_skipped_total", place) for place in places]
    for place in places:
        place.proxy.delay = 0.6
    time.sleep(1)
    found = rates(places)
    for place in places:
        place.proxy.delay = 0.0
    for place, early in zip(places, before, strict=True):
        assert counted(agent, "collector_skipped_total", place) > early
    return found


def while_frozen(agent: Daemon, places: list[WatchedServer]) -> list[float]:
    """Nothing is asked of a server that does not answer, and nothing is waiting for it after."""
    freeze(places)
    wait_until("down", lambda: all_up(agent, places, 0))
    found = rates(places)
    thaw(places)
    wait_until("up", lambda: all_up(agent, places, 1), 40)
    return found


def while_denied(agent: Daemon, places: list[WatchedServer], folder: Path) -> list[float]:
    """An account that is refused is tried less and less often."""
    for place in places:
        (folder / f"{place.name}.password").write_text("wrong")
        place.proxy.reset()
    wait_until("down", lambda: all_up(agent, places, 0))
    found = rates(places)
    for place in places:
        (folder / f"{place.name}.password").write_text(place.account.password)
    wait_until("up", lambda: all_up(agent, places, 1), 40)
    return found


def broken_again_and_again(agent: Daemon, places: list[WatchedServer]) -> None:
    """Sessions that are reset: as many connections as were lost, one at a time."""
    for _ in range(4):
        before = [counted(agent, "connects_total", place) for place in places]
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda place: place.proxy.reset(), places))
        for place, early in zip(places, before, strict=True):
            wait_until("again", lambda p=place, e=early: counted(agent, "connects_total", p) > e)  # type: ignore[misc]


def is_harmless(place: WatchedServer) -> None:
    """By the server's own tables and its own log."""
    assert len(place.seen.sessions) > 100
    assert max(place.seen.sessions) <= 2  # one that is ending beside the next, at most
    twice = sum(count > 1 for count in place.seen.sessions)
    assert twice < len(place.seen.sessions) / 20
    # what a halted server was doing has begun long before the first look after it
    assert not any(now and then for now, then in pairwise(place.seen.transactions))
    names = {
        str(name).rpartition("/")[2]
        for (name,) in run_as_root(place.server, SAID.format(user=place.account.user))
    }
    assert {name for name in names if not name.startswith("show_")} <= PEACEFUL, names
    said = place.statements()
    asked = [text for command, text in said if command in ASKING and not OWN_NAME.match(text)]
    assert len(asked) > 100
    assert {*ASKING} <= {command for command, _ in said}
    assert [text for text in asked if not is_reading(text)] == []
    assert {command for command, _ in said} <= {"Connect", "Quit", *ASKING}


def is_reading(text: str) -> bool:
    """A look at performance_schema or the status, or a setting of the session's own."""
    words = re.sub(r"'[^']*'", "''", " ".join(text.split()).lower())
    if re.search(r"\b(into|update|lock|sleep|get_lock|benchmark)\b", words):
        return False
    if words.startswith("set "):
        return words.startswith(("set session ", "set names ", "set autocommit"))
    if words.startswith("show "):
        return words.startswith(("show global status", "show variables"))
    tables = re.findall(r"\b(?:from|join) ([a-z_.]+)", words)
    known = (
        "performance_schema.",
        "information_schema.columns",
        "information_schema.global_status",
        "information_schema.processlist",
    )
    return words.startswith("select ") and all(table.startswith(known) for table in tables)
