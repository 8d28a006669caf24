"""A changed configuration: refused or in force as a whole, and what goes on undisturbed."""

import http.client
import logging
import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from web_clients import Answer, ask

from agent.assessment.snapshot import Snapshot
from agent.config.history_settings import HistorySettings
from agent.config.loader import load_config
from agent.config.settings import Config
from agent.config.yaml_loader import ConfigError
from agent.demo.private_server import Flavour, PrivateServer, free_port
from agent.history.row_mapping import interval_row
from agent.history.store import Store
from agent.history.write_buffer import Batch
from agent.service.daemon import Agent
from agent.service.reload import Reloader, monitor_settings
from agent.service.target_monitor import TargetMonitor
from agent.support.clock_pair import ClockPair
from agent.support.scheduled_thread import Worker
from agent.web import application
from agent.window.interval_buffer import IntervalBuffer
from agent.window.intervals import Interval
from collectors.base import Sample
from testbed.real.clients import Clients
from testbed.real.daemon import COMMAND, fetch, target, wait_until, write_config
from testbed.real.server_account import Account, least_account
from testbed.recorded.record_collector_readings import FIXTURES, recorded

FLOODERS = 140  # more clients than there are places
NOW = 1_700_000_000.0


def config(*names: str, **options: Any) -> Config:
    """Targets on ports where nobody listens."""
    targets = [{"name": name, "user": "u", "port": 1} for name in names]
    return Config.validated({"targets": targets, **options})


def reloader(old: Config, new: Config | Exception) -> tuple[Reloader, list[Config]]:
    """One that finds this file, and what it puts in force; its clock adds a second each time."""
    applied: list[Config] = []
    times = iter(range(int(NOW), int(NOW) + 9))

    def load_config() -> Config:
        if isinstance(new, Exception):
            raise new
        return new

    return Reloader(old, load_config, applied.append, lambda: next(times)), applied


def test_a_valid_configuration_is_applied() -> None:
    """And the time of the reload is kept."""
    found, applied = reloader(config("a"), new := config("a", "b"))
    assert (found.state.successful, found.state.at) == (True, NOW)
    assert found.reload() == []
    assert applied == [new]
    assert (found.state.successful, found.state.at) == (True, NOW + 1)


def test_an_invalid_file_changes_nothing_and_lists_every_mistake(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The reload's time stays that of the configuration in force."""
    found, applied = reloader(config("a"), ConfigError(["first mistake", "second mistake"]))
    with caplog.at_level(logging.ERROR):
        assert found.reload() == ["first mistake", "second mistake"]
    assert applied == []
    assert (found.state.successful, found.state.at) == (False, NOW)
    assert [record.getMessage().split(": ")[1] for record in caplog.records] == found.reload()


def test_a_new_listen_address_needs_a_restart() -> None:
    """The whole file is refused, so that one configuration or the other is in force."""
    found, applied = reloader(config("a"), config("a", "b", listen="127.0.0.1:10105"))
    (problem,) = found.reload()
    assert "listen: 127.0.0.1:10105 instead of 127.0.0.1:10104 needs a restart" in problem
    assert (applied, found.state.successful) == ([], False)


def test_a_new_history_path_needs_a_restart() -> None:
    """Size and retention may change while the agent runs."""
    before = {"history": {"path": "/a/history.db"}}
    found, _ = reloader(config("a", **before), config("a", history={"path": "/b/history.db"}))
    assert found.reload() == ["history.path: another file needs a restart"]
    other = {"path": "/a/history.db", "retention": {"samples": "5m"}}
    found, _ = reloader(config("a", **before), config("a", history=other))
    assert found.reload() == []


def test_the_path_that_systemd_named_may_be_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the same file, whether the configuration names it or not; another one is refused."""
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/a")
    named = config("a", history={"path": "/var/lib/a/history.db"})
    for old, new in ((config("a"), named), (named, config("a"))):
        found, _ = reloader(old, new)
        assert found.reload() == []
    found, _ = reloader(config("a"), config("a", history={"path": "/b/history.db"}))
    assert found.reload() == ["history.path: another file needs a restart"]


def test_an_exception_during_a_reload_is_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its trace, and the agent runs on."""
    found, _ = reloader(config("a"), RuntimeError("a defect"))
    with caplog.at_level(logging.ERROR):
        assert "a defect" in found.reload()[0]
    assert "Traceback" in caplog.text


def test_a_setting_that_moves_between_sections_is_no_change() -> None:
    """What counts is the setting that results for the target."""
    for_all = config("a", fit={"interval": 30}, collectors={"host": {"enabled": False}})
    own = {"fit": {"interval": 30}, "collectors": {"host": {"enabled": False}}}
    raw = {"targets": [{"name": "a", "user": "u", "port": 1, **own}]}
    of_its_own = Config.validated(raw)
    (a,), (b,) = for_all.targets, of_its_own.targets
    assert monitor_settings(for_all, a) == monitor_settings(of_its_own, b)
    assert monitor_settings(for_all, a) != monitor_settings(config("a"), a)


@pytest.mark.parametrize(
    "changed",
    [
        {"classes": {"top": 5}},
        {"classes": {"digest_text": True}},
        {"fit": {"window": 3600}},
        {"resources": {"ceilings": {"cpu": 0.9}}},
        {"collectors": {"status": {"interval": 2}}},
    ],
)
def test_a_change_in_any_section_is_detected(changed: dict[str, Any]) -> None:
    """Also of the export of statement texts, which a reload stops at once."""
    before, after = config("a"), config("a", **changed)
    assert monitor_settings(before, before.targets[0]) != monitor_settings(after, after.targets[0])


def test_a_window_that_is_taken_over_keeps_its_latest_intervals() -> None:
    """As many as the new horizon holds."""
    before = IntervalBuffer(5.0, 600.0, 1.0)
    for sample in recorded(FIXTURES / "mysql-9.7.4.jsonl.gz")[1]:
        before.append(sample)
        window = before.window(sample.at)
    for horizon, count in ((600.0, len(window)), (10.0, 2)):
        after = IntervalBuffer(before.width, horizon, 1.0)
        after.copy_window_from(before)
        carried = after.window(sample.at)
        assert carried["end"].tolist() == window["end"].tolist()[-count:]
    assert len(window) > 2


@contextmanager
def pages(reload: Callable[[], list[str]] | None) -> Iterator[int]:
    """The web server's port."""
    server = application.serve_in_background(
        ("127.0.0.1", 0), application.Pages(CollectorRegistry(), list, lambda: NOW, reload)
    )
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def test_a_reload_over_http_answers_as_prometheus_does() -> None:
    """403 if not enabled, 405 for GET, 429 if repeated at once, 500 with the mistakes."""
    problems = [["one", "two"], []]
    with pages(None) as port:
        assert ask(port, "/-/reload", "POST")[::2] == (403, "Lifecycle API is not enabled.\n")
    with pages(lambda: problems.pop()) as port:
        status, headers, _ = ask(port, "/-/reload")
        assert (status, headers["Allow"]) == (405, "POST, PUT")
        assert ask(port, "/-/reload", "POST")[::2] == (200, "")
        again, headers, _ = ask(port, "/-/reload", "PUT")
        assert (again, headers["Retry-After"]) == (429, "1")
        answer = wait_until("its turn", lambda: _reloaded(port, "PUT"))
        assert answer is not None
        assert answer[::2] == (500, "failed to reload config:\none\ntwo\n")


def test_the_documented_http_methods_are_those_allowed() -> None:
    """Those that docs/web.md names for each page, and no other."""
    page = (Path(__file__).parent.parent / "docs" / "web.md").read_text()
    [row] = re.findall(r"^\| methods \| (.*) \|$", page, re.MULTILINE)
    reading, marking, reloading, _ = row.split("; ")
    with pages(list) as port:
        for path, words in (
            ("/metrics", reading),
            ("/api/v1/markers", marking),
            ("/-/reload", reloading),
        ):
            named = set(re.findall(r"`([A-Z]+)`", words))
            tried = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
            assert {method for method in tried if ask(port, path, method)[0] != 405} == named


def test_the_command_reloads_by_sighup_and_by_post(tmp_path: Path) -> None:
    """The file is read again, overridden by the command line as before."""
    dead = {"name": "dead", "user": "u", "port": free_port()}
    file, port = write_config(tmp_path, dead, log={"level": "debug"})
    command = [str(COMMAND), "run", "--config.file", str(file), "--web.enable-lifecycle"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    settings = yaml.safe_load(file.read_text())
    try:
        wait_until("it answers", lambda: _answers(port))
        settings["targets"].append({**dead, "name": "more"})
        file.write_text(yaml.safe_dump(settings))
        assert ask(port, "/-/reload", "POST")[0] == 200
        wait_until("another target", lambda: fetch(port).get("up", target="more") == 0)
        file.write_text("targets: []")
        os.kill(process.pid, signal.SIGHUP)
        refused = "config_last_reload_successful"
        wait_until("it is refused", lambda: fetch(port).get(refused) == 0)
        answer = wait_until("its turn", lambda: _reloaded(port))
        assert answer is not None
        status, _, text = answer
        assert (status, "targets: must name at least one server" in text) == (500, True)
    finally:
        process.terminate()
        _, log = process.communicate(timeout=10)
    assert process.returncode == 0
    assert b"the changed configuration is refused" in log


@pytest.mark.live
def test_a_flood_of_reloads_delays_no_scrape(tmp_path: Path) -> None:
    """One reload at a time and at most one a second; the others get 429 at once."""
    dead = {"name": "dead", "user": "u", "port": free_port()}
    file, port = write_config(tmp_path, dead)
    command = [str(COMMAND), "run", "--config.file", str(file), "--web.enable-lifecycle"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    stop = threading.Event()
    found: Counter[int] = Counter()

    def flood() -> None:
        while not stop.is_set():
            with suppress(OSError, http.client.HTTPException):
                status, headers, _ = ask(port, "/-/reload", "POST")
                found[status] += 1
                assert status != 429 or headers["Retry-After"] == "1"

    try:
        wait_until("it answers", lambda: _answers(port))
        begun = time.monotonic()
        with ThreadPoolExecutor(FLOODERS) as pool:
            try:
                clients = [pool.submit(flood) for _ in range(FLOODERS)]
                wait_until("a reload", lambda: found[200] > 0)
                took = [fetch(port).seconds for _ in range(14)]
            finally:
                stop.set()
            for client in clients:
                client.result()
        lasted = time.monotonic() - begun
    finally:
        process.terminate()
        process.wait(10)
    assert sorted(took)[7] < 2.0
    assert set(found) == {200, 429}
    assert found[200] <= 1 + lasted / application.MIN_RELOAD_SECONDS
    assert found[429] > found[200]
    assert process.returncode == 0


def _reloaded(port: int, method: str = "POST") -> Answer | None:
    """The answer to a reload, None where it is not its turn yet."""
    answer = ask(port, "/-/reload", method)
    return None if answer[0] == 429 else answer


def _answers(port: int) -> bool:
    try:
        return len(fetch(port).all("up")) == 1
    except OSError:
        return False


class Running:
    """An agent on a real server, in this process; its file can be changed."""

    def __init__(
        self, folder: Path, server: PrivateServer, store: Store | None = None, **change: Any
    ) -> None:
        self._folder = folder
        self._server = server
        self._account: Account = least_account(server)
        self.agent = Agent(self.write(change), store)

    def write(self, *changes: dict[str, Any], **options: Any) -> Config:
        """A configuration with a target for each of these changes."""
        targets = [
            {**target(self._folder, self._server, self._account, name=f"db{i}"), **change}
            for i, change in enumerate(changes)
        ]
        return load_config(write_config(self._folder, *targets, **options)[0])

    @property
    def intervals(self) -> list[Interval]:
        """What the first target's window is made of."""
        return self.agent.monitors[0].buffer.latest_window.as_intervals

    def snapshot(self, name: str = "db0") -> Snapshot:
        """What is known of a target."""
        (found,) = [s for s in self.agent.snapshots() if s.target == name]
        return found

    def worker(self, kind: str, name: str) -> Worker:
        """The worker of that kind that a target has."""
        (found,) = [w for w in self.agent.workers() if (w.kind, w.target) == (kind, name)]
        return found

    def connects(self) -> dict[str, int]:
        """How many sessions each target has had."""
        return {one.target: one.connects for one in self.agent.own_state().targets}


@pytest.fixture
def running(tmp_path: Path, mariadb_server: PrivateServer) -> Iterator[Running]:
    """An agent that has a few intervals of some load."""
    found = Running(tmp_path, mariadb_server)
    found.agent.start()
    try:
        with Clients(mariadb_server, "DO SLEEP(0.02)", 2):
            wait_until("intervals", lambda: len(found.intervals) > 2)
        yield found
    finally:
        found.agent.stop()


def test_a_reload_during_a_scrape_does_not_disturb_it() -> None:
    """Another thread lists the workers for /metrics while the reload replaces them."""
    agent = Agent(config("a", "b"))

    class ReloadedMeanwhile(list[Worker]):
        """The workers of a target: while they are listed, the other target is removed."""

        def __iter__(self) -> Iterator[Worker]:
            agent.apply(config("a"))
            return super().__iter__()

    first = agent.monitors[0]
    agent._target_workers[first] = ReloadedMeanwhile(agent._target_workers[first])
    assert [w.target for w in agent.own_state().workers] == ["a", "b", "", ""]
    assert {one.target for one in agent.own_state().targets} == {"a"}


def test_an_exception_while_applying_leaves_every_target_monitored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The new configuration is in force, and the next reload works."""

    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    agent = Agent(config("a", "b"))
    agent.start()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(TargetMonitor, "take_over", fail)
            with pytest.raises(RuntimeError, match="a defect"):
                agent.apply(config("a", "b", "c", fit={"window": "1h"}))
        assert sorted(w.target for w in agent.workers() if w.is_alive()) == ["", "", *"abc"]
        assert [monitor.replay_options.settings.window for monitor in agent.monitors] == [3600] * 3
        agent.apply(config("a"))
        assert sorted(w.target for w in agent.workers() if w.is_alive()) == ["", "", "a"]
    finally:
        agent.stop()


def test_targets_that_join_a_group_take_over_its_phase() -> None:
    """The intervals of a group end together, whoever was in it before."""

    def watched(*names: str, shop: tuple[str, ...]) -> Config:
        targets = [{"name": n, "user": "u", "port": 1} for n in names]
        grouped = [{**one, "group": "shop"} if one["name"] in shop else one for one in targets]
        return Config.validated({"targets": grouped})

    agent = Agent(watched("a", "b", "c", "d", "e", shop=()))
    agent.apply(watched("a", "b", "c", "d", "e", shop=("b", "c")))
    b, c = (one for one in agent.monitors if one.target.name in ("b", "c"))
    agent.apply(watched("new", "a", "b", "c", "d", "e", shop=("b", "c", "e")))
    kept = {one.target.name: one for one in agent.monitors}
    assert (kept["b"], kept["c"]) == (b, c)
    for name in "bce":
        kept[name].buffer.append(Sample("status", 1000.0, {}, 0.0))
    assert len({kept[name].buffer.due for name in "bce"}) == 1


def test_an_unchanged_target_runs_on(running: Running) -> None:
    """Worker, session and window stay when other targets come and go."""
    worker = running.worker("server", "db0")
    running.agent.apply(running.write({}, {"timeout": "2s"}))
    wait_until("the other is up", lambda: running.snapshot("db1").health.up)
    assert running.worker("server", "db0") is worker
    running.agent.apply(running.write({}))
    assert running.connects() == {"db0": 1}
    assert worker.is_alive()
    names = [thread.name for thread in threading.enumerate()]
    assert "server db1" not in names


def test_a_changed_target_keeps_its_window(running: Running) -> None:
    """It reconnects, and its results stay known, unless its address is another one."""
    before = running.intervals
    running.agent.apply(running.write({"timeout": "2s", "fit": {"window": "30m"}}))
    assert running.snapshot().health.up
    assert running.snapshot().load is not None
    assert running.intervals[: len(before)] == before
    wait_until("another session", lambda: running.connects() == {"db0": 2})
    wait_until("more", lambda: len(running.intervals) > len(before) + 1)
    running.agent.apply(running.write({"port": free_port()}))
    assert running.intervals == []
    assert running.snapshot().load is None


def test_a_window_made_longer_is_read_back_from_the_history(
    tmp_path: Path, mariadb_server: PrivateServer
) -> None:
    """As after a restart, the earlier intervals are in it at once."""
    store = Store(tmp_path / "state" / "history.db", HistorySettings())
    found = Running(tmp_path, mariadb_server, store=store, fit={"window": "30s"})
    found.agent.start()
    try:
        wait_until("a server", lambda: found.agent.monitors[0].buffer.server)
        wait_until("an interval", lambda: len(found.intervals) > 1)
        now = ClockPair(time.monotonic(), time.time())
        recorder = found.agent.monitors[0].recorder
        assert recorder is not None
        assert recorder.server is not None
        labels = ("db0", recorder.server)
        old = [found.intervals[0]._replace(end=now.monotonic - 300.0 + k) for k in range(20)]
        store.put(Batch(*labels, [interval_row(labels, one, now) for one in old]))
        found.agent.apply(found.write({"fit": {"window": "10m"}}))
        wait_until("old intervals", lambda: len(found.intervals) > 20)
        ends = [interval.end for interval in found.intervals]
        assert ends[:20] == pytest.approx([one.end for one in old], abs=0.01)
    finally:
        found.agent.stop()


def test_a_target_that_is_given_tls_keeps_its_window(
    tmp_path: Path, mysql_server: PrivateServer
) -> None:
    """It is the same server, however its session is protected."""
    found = Running(tmp_path, mysql_server)
    found.agent.start()
    try:
        wait_until("intervals", lambda: len(found.intervals) > 2)
        before = found.intervals
        found.agent.apply(found.write({"tls": {"required": True}}))
        assert found.intervals[: len(before)] == before
        wait_until("more", lambda: len(found.intervals) > len(before) + 1)
        assert found.intervals[: len(before)] == before
    finally:
        found.agent.stop()


def test_a_device_named_by_a_reload_is_read_from_then_on(running: Running) -> None:
    """The loopback is not read by default, and no more once it is not named."""
    before = running.intervals
    for named in (True, False):
        resources = {"interfaces": {"lo": {"bandwidth": "1Gbit"}}} if named else {}
        running.agent.apply(running.write({"resources": resources}))

        def is_as_named(named: bool = named) -> bool:
            load = running.snapshot().load
            return load is not None and ("network:lo:sent" in load.resources) == named

        wait_until(f"named: {named}", is_as_named)
    assert running.intervals[: len(before)] == before


def test_intervals_of_another_width_are_dropped(running: Running) -> None:
    """A window of both widths would mix averages over different times."""
    running.agent.apply(running.write({"fit": {"interval": "2s"}}))
    assert running.snapshot().health.up
    assert running.snapshot().load is None
    wait_until("intervals", lambda: len(running.intervals) > 1)
    assert {interval.seconds for interval in running.intervals} == {2.0}


def test_a_hanging_target_does_not_delay_a_reload(
    tmp_path: Path, private_server: Callable[..., PrivateServer], flavour: Flavour
) -> None:
    """A read in progress on a frozen server is interrupted, under TLS too (MySQL)."""
    server = private_server(flavour)
    found = Running(tmp_path, server, timeout="60s")
    found.agent.start()
    try:
        wait_until("it is up", lambda: found.snapshot().health.up)
        os.kill(server.pid, signal.SIGSTOP)
        time.sleep(1.5)
        started = time.monotonic()
        found.agent.apply(found.write({"timeout": "2s"}))
        assert time.monotonic() - started < 3
        workers = [thread for thread in threading.enumerate() if thread.name == "server db0"]
        assert len(workers) == 1
    finally:
        os.kill(server.pid, signal.SIGCONT)
        found.agent.stop()
