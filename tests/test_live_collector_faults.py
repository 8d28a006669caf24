"""One collector fails: it is named with its remedy, goes on by itself, and harms no other."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest
from conftest import ServerFactory

from agent.config.loader import load_config
from agent.demo.private_server import Flavour, PrivateServer
from agent.sampling.collector_health import CollectorHealth
from agent.service import target_session
from agent.service.daemon import Agent
from agent.service.target_monitor import TargetMonitor
from agent.support.scheduled_thread import Worker
from collectors import COLLECTORS as TABLE
from collectors import CollectorSpec
from collectors.base import FailureKind, Feature, Prepared
from collectors.connection import Connection
from collectors.result_cells import number
from testbed.real.clients import run_as_root
from testbed.real.daemon import target, wait_until, write_config
from testbed.real.server_account import least_account

ALL_ON = "--performance-schema-consumer-events-statements-current=ON"


@pytest.fixture
def failing(private_server: ServerFactory, flavour: Flavour) -> PrivateServer:
    """A server of the test's own, that offers all that can be read."""
    return private_server(flavour, options=[ALL_ON])


def test_a_missing_grant_is_reported_and_detected_when_it_returns(
    failing: PrivateServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log has the exact GRANT; also if it is revoked from a running session."""
    grant = "GRANT SELECT ON performance_schema.* TO 'headroom'@'%'"
    revoke = grant.replace("GRANT", "REVOKE").replace("TO", "FROM")
    account = least_account(failing)
    run_as_root(failing, revoke)
    check_each_second(monkeypatch)
    file, _ = write_config(tmp_path, target(tmp_path, failing, account))
    with running_here(Agent(load_config(file))) as agent:
        wait_until("lacks", lambda: lacking(agent) >= set(LACKING))
        run_as_root(failing, grant)
        wait_until("all", lambda: not lacking(agent) & set(LACKING), 20)
        first = len(caplog.records)
        run_as_root(failing, revoke)
        wait_until("lacks again", lambda: lacking(agent) >= set(LACKING))
        assert [one.connects for one in agent.own_state().targets] == [1]
        run_as_root(failing, grant)
        wait_until("all again", lambda: not lacking(agent) & set(LACKING), 20)
    said = [r for r in caplog.records[:first] if "may not read performance_schema" in r.message]
    named = [vars(record)["fields"]["feature"] for record in said]
    assert set(LACKING) <= set(named)
    assert len(named) == len(set(named))
    assert {vars(record)["fields"]["remedy"] for record in said} == {grant}


LACKING = ("statements", "statements_in_flight", "threads")  # without the grant
SWITCHES = {
    "statements": "setup_instruments SET ENABLED = '{}' WHERE NAME LIKE 'statement/%'",
    "times of statements": "setup_instruments SET TIMED = '{}' WHERE NAME LIKE 'statement/%'",
    "statements_in_flight": "setup_consumers SET ENABLED = '{}' WHERE NAME LIKE '%statements_c%t'",
    "digests": "setup_consumers SET ENABLED = '{}' WHERE NAME = 'statements_digest'",
}
LACKED = {"statements_in_flight": {"statements_in_flight"}, "digests": {"digests"}}
"""Features that each takes away; of the others both, which would be without statements or times."""


def test_a_feature_switched_off_while_running_is_reported(
    failing: PrivateServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And detected again; not only what was absent from the beginning."""
    check_each_second(monkeypatch)
    file, _ = write_config(tmp_path, target(tmp_path, failing))
    with running_here(Agent(load_config(file))) as agent:
        for name, switch in SWITCHES.items():
            lacked = LACKED.get(name, {"statements", "digests"})
            wait_until("all", lambda: not lacking(agent) & SWITCHES.keys())
            run_as_root(failing, f"UPDATE performance_schema.{switch.format('NO')}")
            wait_until(f"lacks {name}", lambda names=lacked: names <= lacking(agent))  # type: ignore[misc]
            run_as_root(failing, f"UPDATE performance_schema.{switch.format('YES')}")
        wait_until("all again", lambda: not lacking(agent) & SWITCHES.keys())
        assert [one.connects for one in agent.own_state().targets] == [1]


def check_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have features checked again each second, and not after minutes."""
    for name in ("PREPARE_SECONDS", "REFUSED_SECONDS"):
        monkeypatch.setattr(target_session, name, 1.0)


def lacking(agent: Agent) -> set[str]:
    """What the only target does not offer; everything before it was looked at."""
    [snapshot] = agent.snapshots()
    found = snapshot.health.features
    return {feature.name for feature in found if not feature.enabled} if found else {"unknown"}


@contextmanager
def running_here(agent: Agent) -> Iterator[Agent]:
    """The agent within this process."""
    agent.start()
    try:
        yield agent
    finally:
        agent.stop()


def gaps(moments: Iterable[float]) -> list[float]:
    """The times between moments that follow each other."""
    return [after - before for before, after in pairwise(sorted(moments))]


SLOW_SQL = "SELECT SUM(SLEEP(0.02)) FROM performance_schema.setup_instruments"
BROKEN_SQL = "SELECT nothing FROM performance_schema.threads"


def asking(name: str, sql: str) -> CollectorSpec:
    """A collector of this statement."""

    def prepare(connection: Connection) -> Prepared:
        def read() -> dict[str, float]:
            return {"value": number("value", connection.cell(sql))}

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
def test_a_failing_collector_affects_no_other(
    server: PrivateServer,
    sql: str,
    kind: FailureKind,
    duration: float,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Aborted or broken: timed, counted, logged once; the status keeps its schedule."""
    file, _ = write_config(
        tmp_path, target(tmp_path, server), collectors={}, fit={"interval": "2s"}
    )
    moments: list[float] = []
    status, statements, *_ = TABLE
    bad = asking("bad", sql)
    config = load_config(file)
    table = [noting(status, moments), bad, statements]
    watched = TargetMonitor(config, config.targets[0], table)
    with ticking(watched):
        wait_until("readings", lambda: len(moments) >= 9)
        bad_health = health(watched, "bad")
    _, *on_grid = gaps(moments)  # the first reading is made at once, wherever the grid is
    assert mean(on_grid) == pytest.approx(1.0, abs=0.1)
    assert max(on_grid) < 1.6
    assert health(watched, "statements").success
    assert health(watched, "statements").failures == {}
    assert bad_health.success is False
    assert bad_health.failures[kind] >= 2
    assert bad_health.duration == pytest.approx(duration, abs=0.25)
    named = [r for r in caplog.records if vars(r).get("fields", {}).get("collector") == "bad"]
    assert len(named) == 1


def test_the_server_aborts_a_slow_statement_before_the_client(
    server: PrivateServer, tmp_path: Path
) -> None:
    """However seldom the status is read, a slow statement costs no session."""
    seldom = {"status": {"interval": "30s"}}
    watched_target = {**target(tmp_path, server), "timeout": "1s"}
    file, _ = write_config(tmp_path, watched_target, collectors=seldom, fit={"interval": "1m"})
    config = load_config(file)
    watched = TargetMonitor(config, config.targets[0], [TABLE[0], asking("bad", SLOW_SQL)])
    with ticking(watched):
        wait_until("it is cut off", lambda: health(watched, "bad").failures)
        time.sleep(1.5)
        assert set(health(watched, "bad").failures) == {FailureKind.SLOW}
        assert watched.snapshot.health.up
        assert watched.connects == 1


def health(watched: TargetMonitor, name: str) -> CollectorHealth:
    """The status of one collector."""
    [found] = [c for c in watched.snapshot.health.collectors if c.name == name]
    return found


@contextmanager
def ticking(watched: TargetMonitor) -> Iterator[None]:
    """Serve one watch as the agent does."""
    workers = [
        Worker("server", [watched.server_tick]),
        Worker("assessment", [watched.assessment_tick]),
    ]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
            worker.join()
        watched.close()
