"""Watching one target: what it publishes when not all is as it should be."""

import socket
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from history_rows import SERVER, SETTINGS
from law_windows import RISING, intervals

from agent.assessment.snapshot import Health, Snapshot
from agent.config.settings import Config
from agent.history.store import Store
from agent.pipeline import assess
from agent.service.daemon import Agent
from agent.service.target_monitor import TargetMonitor
from agent.service.target_session import RECONNECT_MIN, USEFUL_SESSION_SECONDS, TargetSession
from agent.support.compact_numbers import CompactNumbers
from agent.window.intervals import Window
from collectors.base import Sample
from testbed.attacks.lying_server import (
    COUNTERS,
    GAUGES,
    LyingServer,
    Packets,
    error,
    status_table,
)
from testbed.real.daemon import wait_until


def test_another_server_at_the_address_starts_a_new_window() -> None:
    """No result of the first server is shown for the second, also without a history."""
    config = Config.validated({"targets": [{"name": "db", "user": "u"}]})
    monitor = TargetMonitor(config, config.targets[0])
    monitor.buffer.restore(Window(intervals(RISING[:8])))
    for server, kept in (("first", 8), ("first", 8), ("second", 0)):
        monitor.session.server = server
        monitor.assessment_tick(50.0)
        assert len(monitor.buffer.window(50.0)) == kept
    assert monitor.snapshot.assessed.capacity is None
    assert monitor.snapshot.load is None


def test_another_server_that_answers_during_an_assessment_starts_afresh_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a history: what was inferred about the first server is not continued."""
    users = {"name": "users", "unit": "users", "query": "SELECT 1"}
    store = Store(tmp_path / "history.db", SETTINGS)
    with LyingServer(variables={"server_uuid": "first"}) as server:
        target = {"name": "db", "user": "u", "port": server.port, "business_metrics": [users]}
        config = Config.validated({"targets": [target]})
        monitor = TargetMonitor(config, config.targets[0], store=store)
        session, assess_window = monitor.session, monitor._assess

        def assess_after_failover(now: float) -> Snapshot:
            server.variables = {**server.variables, "server_uuid": "second"}
            session.close()
            session.read_server(time.monotonic())
            return assess_window(now)

        session.read_server(time.monotonic())
        monitor.assessment_tick(50.0)
        monitor.business.series["users"].append(50.0, 1.0)
        with monkeypatch.context() as patched:
            patched.setattr(monitor, "_assess", assess_after_failover)
            monitor.assessment_tick(51.0)
        assert session.server == "second"
        monitor.assessment_tick(52.0)
        session.close()
    assert monitor.business.series["users"].latest is None
    store.close()


def test_a_target_is_reported_once_when_it_comes_up(caplog: pytest.LogCaptureFixture) -> None:
    """And again after it was down; each run has a next one, also the forecast's before any data."""
    config = Config.validated({"targets": [{"name": "db", "user": "u"}]})
    monitor = TargetMonitor(config, config.targets[0])
    assert monitor.forecast_tick(50.0) > 50.0
    with caplog.at_level("INFO"):
        for is_up in (False, True, True, False, False, True):
            monitor.session.server_health = Health(is_up)
            assert monitor.assessment_tick(50.0) > 50.0
    assert [record.message for record in caplog.records] == ["up", "up"]


def test_an_unreachable_server_is_not_asked_again_at_once() -> None:
    """The first time after a second, less what is random; until then no session is opened."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    config = Config.validated({"targets": [{"name": "db", "user": "u", "port": port}]})
    session = TargetMonitor(config, config.targets[0]).session
    before = time.monotonic()
    due = session.read_server(before)
    assert due > before + RECONNECT_MIN / 2
    assert session.read_server(before) == due
    assert session.server_health.up is False


def session_that_has_served(server: LyingServer) -> TargetSession:
    """One that is old enough to be worth another."""
    target = {"name": "db", "user": "u", "port": server.port, "timeout": "1s"}
    often = {"status": {"interval": "1s"}}
    config = Config.validated({"targets": [target], "collectors": often})
    session = TargetMonitor(config, config.targets[0]).session
    session.read_server(time.monotonic())
    time.sleep(USEFUL_SESSION_SECONDS + 0.1)
    return session


def test_a_session_that_has_served_is_opened_again_at_once_and_only_once() -> None:
    """The server may still be up; one that then refuses is down, and asked again later."""
    with LyingServer() as server:
        session = session_that_has_served(server)
    before = time.monotonic()
    assert session.read_server(before) <= time.monotonic()
    assert session.server_health.up is True
    assert session.read_server(time.monotonic()) > before + RECONNECT_MIN / 2
    assert session.server_health.up is False


def test_a_server_that_no_longer_answers_is_asked_again_later() -> None:
    """Another session would have no answer either."""
    end = threading.Event()

    def silence() -> Packets:
        end.wait(30)
        return ()

    with LyingServer() as server:
        session = session_that_has_served(server)
        server.lies["performance_schema.global_status"] = silence
        before = time.monotonic()
        assert session.read_server(before) > before + RECONNECT_MIN / 2
        assert session.server_health.up is False
        end.set()


@pytest.mark.parametrize("kept", [(True, True), (True, False), (False, True), (False, False)])
def test_a_reload_goes_on_with_the_servers_history(kept: tuple[bool, bool], tmp_path: Path) -> None:
    """If it was kept before and still is; the window and the forecast stay in any case."""
    config = Config.validated({"targets": [{"name": "db", "user": "u"}]})
    store = Store(tmp_path / "history.db", SETTINGS)
    before, after = (
        TargetMonitor(config, config.targets[0], store=store if is_kept else None)
        for is_kept in kept
    )
    before.buffer.restore(Window(intervals(RISING)))
    if before.recorder is not None:
        before.session.server = SERVER
        before.assessment_tick(150.0)
        assert before.recorder.server == SERVER
    before.forecast_tick(time.monotonic() + 1000.0)
    after.take_over(before)
    assert len(after.buffer.latest_window) == len(RISING)
    assert after.buffer.server == (SERVER if kept[0] else None)
    after.assessment_tick(151.0)
    assert after.snapshot.forecast is not None
    if after.recorder is not None:
        assert after.recorder.server == (SERVER if all(kept) else None)
    store.close()


def test_another_server_at_the_address_is_no_restart() -> None:
    """It has another uptime; a restart is of one server."""
    with LyingServer(variables={"server_uuid": "first"}) as server:
        config = Config.validated({"targets": [{"name": "db", "user": "u", "port": server.port}]})
        session = TargetMonitor(config, config.targets[0]).session
        for uuid, born, restarts in (("first", 0, 0), ("second", -900, 0), ("second", 900, 1)):
            server.variables = {**server.variables, "server_uuid": uuid}
            server.born += born
            session.close()
            session.read_server(time.monotonic())
            assert session.server_health.up
            assert session.server == uuid
            assert session.server_health.restarts == restarts
        session.close()


def test_samples_of_a_server_are_kept_in_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait for their interval, and for their query classes' for five minutes."""
    with LyingServer() as server:
        config = Config.validated({"targets": [{"name": "db", "user": "u", "port": server.port}]})
        session, seen = TargetMonitor(config, config.targets[0]).session, list[Sample]()
        monkeypatch.setattr(session, "_on_sample", seen.append)
        session.read_server(time.monotonic())
        session.close()
    assert {type(s.values) for s in seen if s.collector == "status"} == {CompactNumbers}


@pytest.mark.parametrize(("refused", "after"), [(False, 300.0), (True, 60.0)])
def test_features_are_checked_again_sooner_where_one_is_refused(
    *, refused: bool, after: float
) -> None:
    """After a GRANT its operator waits a minute at most; without need each check costs 3 ms."""
    lies = {"setup_instruments": lambda: error(1142, b"SELECT command denied")} if refused else {}
    with LyingServer(lies) as server:
        config = Config.validated({"targets": [{"name": "db", "user": "u", "port": server.port}]})
        session = TargetMonitor(config, config.targets[0]).session
        begun = time.monotonic()
        session.read_server(begun)
        server.asked = []
        for later, is_checked in ((0.74 * after, False), (after + 1, True)):
            session.read_server(begun + later)
            assert any("setup_instruments" in said for said in server.asked) is is_checked
        session.close()


@pytest.mark.parametrize("step", [3600.0, -60.0])
def test_setting_the_servers_clock_is_no_restart(step: float) -> None:
    """Its `Uptime` changes too, as after an NTP step or when a virtual machine resumes."""
    clock, age = time.time(), 5000.0

    def status() -> Packets:
        counters = {**dict.fromkeys(COUNTERS, 100), **GAUGES, "Uptime": round(age)}
        stamp = f"{datetime.fromtimestamp(clock, UTC):%Y-%m-%d %H:%M:%S.%f}"
        return status_table(counters, stamp)

    with LyingServer({"performance_schema.global_status": status}) as server:
        config = Config.validated({"targets": [{"name": "db", "user": "u", "port": server.port}]})
        session = TargetMonitor(config, config.targets[0]).session
        for moved, uptime, restarts in ((0.0, 5000, 0), (step, 5000 + step, 0), (step, 2, 1)):
            clock, age = time.time() + moved, uptime
            session.close()
            session.read_server(time.monotonic())
            assert session.server_health.up
            assert session.server_health.restarts == restarts
        session.close()


def test_an_agent_suspended_after_a_reading_sees_no_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its wall clock is set an hour ahead between the reading and its use, and back later."""
    with LyingServer() as server:
        config = Config.validated({"targets": [{"name": "db", "user": "u", "port": server.port}]})
        session = TargetMonitor(config, config.targets[0]).session
        session.read_server(time.monotonic())
        clock = time.time
        for ahead in (3600.0, 0.0):
            with monkeypatch.context() as resumed:
                resumed.setattr(
                    session,
                    "_on_sample",
                    lambda _, by=ahead: resumed.setattr(time, "time", lambda: clock() + by),
                )
                session.close()
                server.born -= 60.0  # it has gone on by its own clock
                session.read_server(time.monotonic())
            assert session.server_health.restarts == 0
        session.close()


def test_the_class_monitor_uses_the_sampling_of_host_and_status() -> None:
    """That of the slower one; with another sampling the class window begins again."""
    monitors = []
    for sampling in ("20s", "20s", "10s"):
        config = Config.validated(
            {
                "targets": [{"name": "db", "user": "u"}],
                "collectors": {"host": {"interval": sampling}},
            }
        )
        monitors.append(TargetMonitor(config, config.targets[0]))
    first, same, other = monitors
    assert first._state.classes.sampling == 20.0
    assert other._state.classes.sampling == 10.0
    for later, is_kept in ((same, True), (other, False)):
        later.take_over(first)
        assert (later._state.classes is first._state.classes) == is_kept


@pytest.mark.parametrize(("seconds", "phase"), [(5, 0), (10, 9), (20, 3), (60, 7)])
def test_the_host_may_be_sampled_less_often_than_once_an_interval(seconds: int, phase: int) -> None:
    """Every interval waits for its next sample, and has the CPU."""
    config = Config.validated(
        {
            "targets": [{"name": "db", "user": "u"}],
            "collectors": {"host": {"interval": f"{seconds}s"}},
        }
    )
    history = TargetMonitor(config, config.targets[0]).buffer
    cpu = {"cpu_user_seconds": 0.3, "process_cpu_seconds": 0.2}
    status = {"uptime": 1.0, "questions": 10.0, "own_statements": 0.0}
    for t in range(901):
        if t % 5 == 0:
            rising = {name: 100.0 + rate * t for name, rate in status.items()}
            history.append(Sample("status", float(t), {**rising, "threads_running": 1.0}))
        if t % seconds == phase:
            used = {name: rate * t for name, rate in cpu.items()}
            history.append(Sample("host", float(t), {**used, "cpus": 1.0, "process_cpus": 1.0}))
        window = history.window(float(t))
    assert len(window) > (900 - 1.5 * seconds) / 15 - 3
    known = window.utilisations["cpu"][window["end"] - window["seconds"] >= phase]
    assert known == pytest.approx(0.3)


def test_an_exception_in_the_models_does_not_hide_that_a_server_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The health is published first; the worker counts the exception."""
    config = Config.validated({"targets": [{"name": "db", "user": "u"}]})
    monitor = TargetMonitor(config, config.targets[0])
    monkeypatch.setattr("agent.service.target_monitor.assess", lambda *_, **__: 1 / 0)
    monitor.session.server_health = Health(up=False, server="MySQL")
    with pytest.raises(ZeroDivisionError):
        monitor.assessment_tick(50.0)
    assert monitor.snapshot.health.up is False
    assert "ZeroDivisionError" in monitor.snapshot.assessed.waiting


def failures(agent: Agent) -> list[Mapping[str, int]]:
    """The failed assessments of each target, by part."""
    return [one.assessment_failures for one in agent.own_state().targets]


def test_a_failed_assessment_affects_no_other_target(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is counted and logged once per interval with the target; the others are assessed."""
    names = ("broken", "whole")
    targets = [{"name": name, "user": "u"} for name in names]
    config = Config.validated({"targets": targets, "history": {"path": None}})
    agent = Agent(config)
    rows = intervals(RISING)

    def failing(name: str, *arguments: Any, is_due: bool) -> Snapshot:
        if name != "whole":
            raise ZeroDivisionError
        return assess(name, *arguments, is_due=is_due)

    monkeypatch.setattr("agent.service.target_monitor.assess", failing)
    monkeypatch.setattr("agent.query_classes.assessment.ClassMonitor.advance", lambda *_: [][0])
    for monitor in agent.monitors:
        monitor.buffer.restore(Window(rows))
    agent.start()
    try:
        wait_until("three rounds", lambda: failures(agent)[0].get("classes", 0) > 2)
    finally:
        agent.stop()
    broken, whole = agent.own_state().targets
    assert broken.assessment_failures["capacity"] == 1
    assert "capacity" not in whole.assessment_failures
    _, healthy = agent.snapshots()
    assert healthy.assessed.capacity is not None
    said = [r for r in caplog.records if r.message.startswith("an assessment failed: Zero")]
    assert [vars(record)["fields"]["target"] for record in said] == ["broken"]


def test_a_window_is_assessed_once_unless_the_clock_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same window is not assessed again, nor a snapshot composed of the same results.

    Times follow a wall clock that was set.
    """
    config = Config.validated({"targets": [{"name": "db", "user": "u"}]})
    monitor = TargetMonitor(config, config.targets[0])
    rows = intervals(RISING)
    unix, assessments = 1e9, list[float]()

    def counted(*arguments: Any, is_due: bool) -> Snapshot:
        assessments.append(unix)
        return assess(*arguments, is_due=is_due)

    monkeypatch.setattr("agent.service.target_monitor.assess", counted)
    monkeypatch.setattr("agent.service.target_monitor.time.time", lambda: unix)
    monitor.buffer.restore(Window(rows))
    for step, times, composed_at in (
        (0.0, 1, 0.0),
        (0.5, 1, 0.0),
        (1.0, 1, 1.0),
        (1800.0, 2, 1800.0),
    ):
        now = rows[-1].end + min(step, 2.0)
        unix = 1e9 + step
        if step == 1.0:
            monitor.session.server_health = Health(up=True)
        monitor.assessment_tick(now)
        assert len(assessments) == times
        assert monitor.snapshot.at == 1e9 + composed_at
        assert monitor.snapshot.health.up is (True if step >= 1.0 else None)
        assert monitor.snapshot.load is not None
        assert monitor.snapshot.load.end == pytest.approx(unix, abs=2.5)


def test_what_changes_during_an_assessment_is_in_the_next_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that goes down meanwhile is not shown as up until it is tried again."""
    config = Config.validated({"targets": [{"name": "db", "user": "u"}]})
    monitor = TargetMonitor(config, config.targets[0])
    rows = intervals(RISING)

    def goes_down(*arguments: Any, is_due: bool) -> Snapshot:
        monitor.session.server_health = Health(up=False)
        return assess(*arguments, is_due=is_due)

    monkeypatch.setattr("agent.service.target_monitor.assess", goes_down)
    monitor.session.server_health = Health(up=True)
    monitor.buffer.restore(Window(rows))
    monitor.assessment_tick(rows[-1].end)
    assert monitor.snapshot.health.up
    monitor.assessment_tick(rows[-1].end)
    assert monitor.snapshot.health.up is False


def test_a_failed_sla_affects_no_other_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is counted as a part of its own, once per interval; the capacity stays."""
    target = {"name": "db", "user": "u", "sla_seconds": 0.05}
    config = Config.validated({"targets": [target]})
    monitor = TargetMonitor(config, config.targets[0])
    rows = intervals(RISING)
    monitor.buffer.restore(Window(rows))
    monitor.session.server_health = Health(up=True)
    now = rows[-1].end + 1
    monitor.assessment_tick(now)
    monitor.sla_tick(now)
    monitor.assessment_tick(now)
    before = monitor.snapshot
    assert before.sla is not None
    assert before.sla.seconds == 0.05
    monkeypatch.setattr("agent.what_if.target_sla.sla_of", lambda *_: 1 / 0)
    monitor.buffer.append_intervals([rows[-1]._replace(end=now)], now)
    monitor.assessment_tick(now)
    with pytest.raises(ZeroDivisionError):
        monitor.sla_tick(now)
    monitor.sla_tick(now)
    monitor.assessment_tick(now)
    assert monitor.assessment_failures == {"sla": 1}
    assert monitor.snapshot.sla is None
    assert monitor.snapshot.assessed.capacity is not None
