"""Servers that fail in every way we know of: the agent says so, shows no nonsense, and recovers."""

import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest
from conftest import ServerFactory
from live import (
    Clients,
    Daemon,
    Sane,
    run_as_root,
    sessions,
    target,
    wait_until,
    watching,
    write_config,
)
from servers import Account, least_account

from agent import watch
from agent.config.file import load
from agent.daemon import Agent
from agent.demo.server import Flavour, PrivateServer
from agent.lane import Lane
from agent.snapshot import CollectorHealth
from agent.watch import Watch
from collectors import COLLECTORS as TABLE
from collectors import CollectorSpec
from collectors.base import FailureKind, Feature, Prepared
from collectors.connection import Connection, Endpoint, Login

NAP = 0.05  # seconds
THROUGHPUT = "throughput_queries_per_second"
USER = "headroom"


@pytest.fixture
def failing(private_server: ServerFactory, flavour: Flavour) -> PrivateServer:
    """A server of the test's own, that offers all that can be read."""
    on = ["--performance-schema-consumer-events-statements-current=ON"]
    return private_server(flavour, options=on)


def napping(server: PrivateServer, clients: int = 3) -> Clients:
    """A load whose rate and concurrency cannot pass what `bound` says."""
    return Clients(server, f"SELECT SLEEP({NAP})", clients)


def bound(clients: int = 3) -> Sane:
    """The most that such a load can be, and one session to look on."""
    return Sane(queries=1.2 * clients / NAP, threads=clients + 1.5)


def is_busy(agent: Daemon) -> bool:
    """Whether it shows a load by both sources."""
    page = agent.page
    return all(
        (page.get("concurrency", source=source) or 0) > 2
        for source in ("statement_time", "threads_running")
    )


def is_up(agent: Daemon) -> bool:
    """Whether it calls its only target up."""
    return agent.get("up") == 1


def is_down(agent: Daemon) -> bool:
    """Whether it calls its only target down, and withholds what it showed of it."""
    page = agent.page
    return page.get("up") == 0 and page.get(THROUGHPUT) is None


def restart(server: PrivateServer, agent: Daemon) -> None:
    """In good order, at once."""
    server.restart()


def crash(server: PrivateServer, agent: Daemon) -> None:
    """Gone until the agent has noticed."""
    server.kill()
    wait_until("down", lambda: is_down(agent))
    server.start()


@pytest.mark.parametrize("harm", [restart, crash])
def test_a_restart_is_one_restart_and_no_rate(
    failing: PrivateServer, harm: Callable[[PrivateServer, Daemon], None], tmp_path: Path
) -> None:
    """Counters that begin anew are a restart, never a rate; then all goes on with one session."""
    there = target(tmp_path, failing)
    with watching(tmp_path, there, sane=bound()) as agent, napping(failing):
        wait_until("load", lambda: is_busy(agent))
        assert agent.get("server_restarts_total") == 0
        harm(failing, agent)
        wait_until("restart", lambda: agent.get("server_restarts_total") == 1, 30)
        wait_until("load", lambda: is_busy(agent), 30)
        assert agent.get("server_restarts_total") == 1
        assert sessions(failing, USER) == 1
        assert agent.log.count("the server has restarted") == 1


def test_a_wrong_password_is_said_without_it(failing: PrivateServer, tmp_path: Path) -> None:
    """Denied is down, counted as denied, told with its remedy; the right password heals it."""
    right, wrong = least_account(failing), Account(USER, "no-such-secret-4711")
    there = target(tmp_path, failing, wrong)
    with watching(tmp_path, there) as agent:
        assert is_down(agent)
        assert (agent.get("collector_failures_total", kind="denied") or 0) >= 1
        [line] = [line for line in agent.log.splitlines() if "denied" in line.lower()]
        assert "check the account 'headroom' and its password (deploy/grants.sql" in line
        Path(there["password_file"]).write_text(right.password)
        wait_until("up", lambda: is_up(agent))
    assert wrong.password not in agent.log
    assert right.password not in agent.log


def test_a_missing_grant_comes_back_by_itself(
    failing: PrivateServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without the grant the log has the exact GRANT; once it is run the feature is there again."""
    grant = "GRANT SELECT ON performance_schema.* TO 'headroom'@'%'"
    account = least_account(failing)
    run_as_root(failing, grant.replace("GRANT", "REVOKE").replace("TO", "FROM"))
    monkeypatch.setattr(watch, "PREPARE_AGAIN", 1.0)
    file, _ = write_config(tmp_path, target(tmp_path, failing, account))
    with running_here(Agent(load(file))) as agent:
        wait_until("lacks", lambda: features(agent) == dict.fromkeys(LACKING, False) | HAVING)
        run_as_root(failing, grant)
        wait_until("all", lambda: all(features(agent).values()), 10)
    said = [r for r in caplog.records if "may not read performance_schema" in r.message]
    assert [vars(record)["fields"]["feature"] for record in said] == list(LACKING)
    assert {vars(record)["fields"]["remedy"] for record in said} == {grant}


LACKING = ("statements", "statements_in_flight", "threads")  # without the grant
HAVING = {"status": True, "host": True}


def features(agent: Agent) -> dict[str, bool]:
    """What the only target offers, by feature."""
    [snapshot] = agent.snapshots()
    return {feature.name: feature.enabled for feature in snapshot.health.features}


@contextmanager
def running_here(agent: Agent) -> Iterator[Agent]:
    """The agent within this process."""
    agent.start()
    try:
        yield agent
    finally:
        agent.stop()


def test_a_frozen_server_delays_nobody(
    failing: PrivateServer, promtool: str, tmp_path: Path
) -> None:
    """Frozen is down within the time-out; pages and other targets go on; thawed it is up again."""
    account = least_account(failing)
    with ExitStack() as stack:
        frozen = target(tmp_path, failing, account, name="frozen")
        sound = stack.enter_context(second(failing))
        other = target(tmp_path, sound, name="other")
        agent = stack.enter_context(watching(tmp_path, frozen, other, sane=bound()))
        stack.enter_context(napping(sound))
        wait_until("load", lambda: agent.get(THROUGHPUT, target="other"))
        began = time.monotonic()
        failing.freeze()
        stack.callback(failing.thaw)
        wait_until("down", lambda: agent.get("up", target="frozen") == 0, 5)
        assert agent.get(THROUGHPUT, target="frozen") is None
        lint(promtool, agent.page.text)
        wait_until("time", lambda: time.monotonic() > began + 6)
        pages = [page for page in agent.pages if page.at > began]
        assert max(page.seconds for page in pages) < 1
        assert all(page.get("up", target="other") == 1 for page in pages)
        stamps = {page.get("last_sample_timestamp_seconds", target="other") for page in pages}
        assert max(gaps(stamp for stamp in stamps if stamp)) < 1.2
        failing.thaw()
        wait_until("up", lambda: agent.get("up", target="frozen") == 1)
        wait_until("one session", lambda: sessions(failing, USER) == 1)
        wait_until("load", lambda: agent.get(THROUGHPUT, target="frozen") is not None)


@contextmanager
def second(server: PrivateServer) -> Iterator[PrivateServer]:
    """Another server of the same program."""
    with PrivateServer(server.program) as other:
        yield other


def gaps(moments: Iterable[float]) -> list[float]:
    """The times between moments that follow each other."""
    return [after - before for before, after in pairwise(sorted(moments))]


def lint(promtool: str, text: str) -> None:
    """Have promtool judge a page."""
    command = [promtool, "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_truncated_sums_cost_one_interval(failing: PrivateServer, tmp_path: Path) -> None:
    """Sums that are set to zero under load lose an interval or two, and nothing is absurd."""
    table = "performance_schema.events_statements_summary_global_by_event_name"
    there = target(tmp_path, failing)
    with watching(tmp_path, there, sane=bound()) as agent, napping(failing):
        wait_until("load", lambda: is_busy(agent))
        for _ in range(2):
            before = time.monotonic()
            run_as_root(failing, f"TRUNCATE TABLE {table}")
            wait_until("loss", lambda: agent.get("concurrency", source="statement_time") is None)
            wait_until("load", lambda: is_busy(agent), 6)
        without = [
            p
            for p in agent.pages
            if p.at > before and not p.get("concurrency", source="statement_time")
        ]
        assert without[-1].at - without[0].at < 2.5
        assert min(agent.seen(THROUGHPUT, since=before)) > 20


def test_no_place_for_one_more_session_is_down_until_there_is(
    failing: PrivateServer, tmp_path: Path
) -> None:
    """At MAX_USER_CONNECTIONS the target is down, as refused; the agent comes in when it can."""
    account = least_account(failing)
    there = target(tmp_path, failing, account)
    with ExitStack() as stack:
        taken = [stack.enter_context(session(failing, account)) for _ in range(3)]
        agent = stack.enter_context(watching(tmp_path, there))
        wait_until("down", lambda: is_down(agent))
        assert (agent.get("collector_failures_total", kind="refused") or 0) >= 1
        assert "max_user_connections" in agent.log
        for connection in taken:
            connection.close()
        wait_until("up", lambda: is_up(agent))
        wait_until("one session", lambda: sessions(failing, USER) == 1)


@contextmanager
def session(server: PrivateServer, account: Account) -> Iterator[Connection]:
    """A session of the account's own, kept open."""
    connection = Connection(Endpoint(port=server.port), lambda: Login(*account), timeout=5, limit=5)
    connection.open()
    try:
        yield connection
    finally:
        connection.close()


SLOW_SQL = "SELECT SUM(SLEEP(0.02)) FROM performance_schema.setup_instruments"
BROKEN_SQL = "SELECT nothing FROM performance_schema.threads"


def asking(name: str, sql: str) -> CollectorSpec:
    """A collector of this statement."""

    def prepare(connection: Connection) -> Prepared:
        def read() -> dict[str, float]:
            return {"value": float(connection.query(sql)[0][0])}

        return Prepared(read, (Feature(name, enabled=True),))

    return CollectorSpec(name, prepare, 1.0, on_server=True)


def noting(spec: CollectorSpec, moments: list[float]) -> CollectorSpec:
    """The same collector, that notes when it has read."""

    def prepare(connection: Connection) -> Prepared:
        prepared = spec.prepare(connection)
        wrapped = prepared.read
        assert wrapped

        def read() -> dict[str, float]:
            values = dict(wrapped())
            moments.append(time.monotonic())
            return values

        return replace(prepared, read=read)

    return replace(spec, prepare=prepare)


@pytest.mark.parametrize(
    ("sql", "kind", "duration"),
    [(SLOW_SQL, FailureKind.SLOW, 0.4), (BROKEN_SQL, FailureKind.UNREADABLE, 0.0)],
    ids=["slow", "broken"],
)
def test_a_bad_collector_harms_no_other(
    server: PrivateServer,
    sql: str,
    kind: FailureKind,
    duration: float,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Cut off or broken: timed, counted, named once in the log, and the status keeps its grid."""
    file, _ = write_config(
        tmp_path, target(tmp_path, server), collectors={}, fit={"interval": "2s"}
    )
    moments: list[float] = []
    status, statements, *_ = TABLE
    bad = asking("bad", sql)
    config = load(file)
    table = [noting(status, moments), bad, statements]
    watched = Watch(config, config.targets[0], table)
    with ticking(watched):
        wait_until("readings", lambda: len(moments) >= 8)
        bad_health = health(watched, "bad")
    assert mean(gaps(moments)) == pytest.approx(1.0, abs=0.1)
    assert max(gaps(moments)) < 1.6
    assert health(watched, "statements").success
    assert health(watched, "statements").failures == {}
    assert bad_health.success is False
    assert bad_health.failures[kind] >= 2
    assert bad_health.duration == pytest.approx(duration, abs=0.25)
    named = [r for r in caplog.records if vars(r).get("fields", {}).get("collector") == "bad"]
    assert len(named) == 1


def health(watched: Watch, name: str) -> CollectorHealth:
    """How one collector fares."""
    [found] = [c for c in watched.snapshot.health.collectors if c.name == name]
    return found


@contextmanager
def ticking(watched: Watch) -> Iterator[None]:
    """Serve one watch as the agent does."""
    lanes = [Lane("server", [watched.server_tick]), Lane("fit", [watched.fit_tick])]
    for lane in lanes:
        lane.start()
    try:
        yield
    finally:
        for lane in lanes:
            lane.stop()
            lane.join()
        watched.close()
