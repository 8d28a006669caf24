"""The agent's counters of query classes, on a real server: they come, they rise and never fall."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from agent.cli import main
from agent.config.settings import Config
from agent.demo.private_server import PrivateServer
from agent.query_classes.assessment import ClassMonitor
from agent.service.target_monitor import TargetMonitor
from agent.service.target_session import TargetSession, scheduled_collectors
from collectors import COLLECTORS
from collectors.base import Sample
from collectors.digests import DigestRows, DigestValues
from models.attribution.class_interval_table import AGENT, OTHER
from testbed.real.clients import Clients
from testbed.real.daemon import PREFIX, Page, target, wait_until, watching


@pytest.mark.live
def test_the_agents_counters_rise_and_never_fall(
    server: PrivateServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A class appears with its CPU; its text only where that is enabled.

    The history that the agent writes meanwhile answers `profile --since`.
    """
    known = "query_calls_total", "query_statement_seconds_total", "query_cpu_seconds_total"
    settings = {"interval": "5s", "top": 3}
    history = {"path": str(tmp_path / "state" / "history.db")}
    with (
        watching(tmp_path, target(tmp_path, server), classes=settings, history=history) as agent,
        Clients(server, "SELECT BENCHMARK(200000, 7 * 11) AS on_the_page", pace=0.04),
    ):
        wait_until("classes", lambda: len(agent.page.all(known[2])) > 2, 60)
        wait_until(
            "calls",
            lambda: (
                max([v for k, v in series(agent.page, known[0]).items() if named(k)] or [0]) > 200
            ),
            60,
        )
        page = agent.page
        wait_until(
            "its calls and its CPU are in the history",
            lambda: all(on_the_page(tmp_path, capsys).get(name) for name in ("calls", "cpu")),
            60,
        )
    for name in ("cpu_seconds", "read_bytes", "written_bytes", "network_bytes"):
        assert page.all(f"query_{name}_total"), name
        assert page.get(f"unattributed_{name}_total") is not None, name
    assert (page.get("unattributed_cpu_seconds_total") or 0) > 0
    assert page.all("query_source_info", quantity="cpu") == [1.0]
    assert page.all("query_digest_info") == []
    assert "on_the_page" not in page.text
    assert len(page.all(known[0])) <= 3 + 2
    for name in known:
        highest: dict[frozenset[tuple[str, str]], float] = {}
        for page in agent.pages:
            for labels, value in series(page, name).items():
                assert value >= highest.get(labels, 0.0)
                highest[labels] = value


MAX_SERIES = 400
"""Of a target at the default settings."""
STATEMENTS = [f"SELECT BENCHMARK(5000, 7 * 11) AS class_{number}" for number in range(40)]


@pytest.mark.live
@pytest.mark.parametrize("is_another", [True, False])
def test_after_a_failover_all_rows_and_texts_are_read_again(
    server: PrivateServer, tmp_path: Path, is_another: bool
) -> None:
    """What is known of the first server is forgotten."""
    config = Config.validated(
        {
            "targets": [target(tmp_path, server)],
            "collectors": {"digests": {"interval": "0.1s"}, "host": {"enabled": False}},
        }
    )
    kept: list[Sample] = []
    collectors = scheduled_collectors(config, config.targets[0], COLLECTORS)
    session = TargetSession(config.targets[0], collectors, kept.append)

    def readings() -> list[DigestRows]:
        """Return the first two readings of a new session."""
        session.close()
        kept.clear()
        wait_until("two readings", lambda: session.read_server(time.monotonic()) and two(kept), 30)
        return two(kept)

    first, second = readings()
    assert first.complete
    assert second.texts
    wait_until("no further text", lambda: not readings()[1].texts, 30)
    if is_another:
        session.server = "another one"
    first, second = readings()
    assert first.complete == is_another
    assert bool(second.texts) == is_another
    session.close()


@pytest.mark.live
@pytest.mark.parametrize("is_defect", [True, False], ids=["defect", "failover"])
def test_a_new_class_monitor_gets_all_rows_and_texts(
    server: PrivateServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_defect: bool
) -> None:
    """Also if the first readings of another server arrive before the change is noticed."""
    config = Config.validated(
        {
            "targets": [target(tmp_path, server)],
            "collectors": {"digests": {"interval": "0.1s"}, "host": {"enabled": False}},
        }
    )
    monitor = TargetMonitor(config, config.targets[0])
    kept: dict[int, list[Sample]] = {}
    append = ClassMonitor.append

    def noted(classes: ClassMonitor, sample: Sample) -> None:
        kept.setdefault(id(classes), []).append(sample)
        append(classes, sample)

    def readings() -> list[DigestRows]:
        monitor.server_tick(time.monotonic())
        return two(kept.get(id(monitor._state.classes), []))

    monkeypatch.setattr(ClassMonitor, "append", noted)
    wait_until("two readings", readings, 30)
    first = monitor._state.classes
    if is_defect:
        monkeypatch.setattr(ClassMonitor, "advance", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            monitor.class_tick(time.monotonic())
    else:
        monitor.session.close()
        monitor.session.server = monitor.buffer.server = "another one"
        monitor.server_tick(time.monotonic())
        monitor.assessment_tick(time.monotonic())
    assert monitor._state.classes is not first
    complete, later = wait_until("two readings again", readings, 30)
    monitor.close()
    assert complete.complete
    assert set(later.own_digests)


def two(kept: list[Sample]) -> list[DigestRows]:
    """Return the first two readings of the digests; nothing while there are fewer."""
    found = [each.values.rows for each in kept if isinstance(each.values, DigestValues)]
    return found[:2] if len(found) > 1 else []


@pytest.mark.live
def test_a_target_with_many_classes_has_few_series(server: PrivateServer, tmp_path: Path) -> None:
    """Of forty classes the ten largest have their own; all of the target's use is counted."""
    settings = {"interval": "5s"}  # how often a class is assessed changes no series
    with (
        watching(tmp_path, target(tmp_path, server), classes=settings) as agent,
        server.connect_as_root() as session,
        session.cursor() as cursor,
    ):

        def all_are_there() -> bool:
            for statement in STATEMENTS:
                cursor.execute(statement)
            own = agent.page.all("query_cpu_seconds_total", schema="")
            return len(own) >= 10 and bool(agent.page.all("capacity_trust"))

        wait_until("ten classes", all_are_there, 60)
        page = agent.page
    count = sum('target="' in line for line in page.text.splitlines())
    print(f"{server.flavour}: {count} series")
    assert 100 < count <= MAX_SERIES
    identity = [line for line in page.text.splitlines() if "_target_info{" in line]
    assert len(identity) == 1
    assert f'version="{server.version}' in identity[0]
    (found,) = re.findall(r'server_identity="([^"]+)"', identity[0])
    is_location = bool(re.fullmatch(rf"[^:]+:{server.port}:/.+", found))
    assert is_location == (server.flavour == "mariadb")
    assert (page.get("queries_total") or 0) > len(STATEMENTS)


def on_the_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `profile --since` says of that class, beside the agent that writes the history."""
    capsys.readouterr()
    options = ["--since", "1h", "--text", "--format", "json"]
    if main(["profile", "--config.file", str(folder / "config.yaml"), *options]) != 0:
        return {}
    classes: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["classes"]
    return next((one for one in classes if "`on_the_page`" in (one["text"] or "")), {})


def series(page: Page, name: str) -> dict[frozenset[tuple[str, str]], float]:
    """A metric's samples by their labels."""
    return {labels: v for (found, labels), v in page.samples.items() if found == PREFIX + name}


def named(labels: frozenset[tuple[str, str]]) -> bool:
    """Whether it is one class, and not several."""
    return dict(labels)["digest"] not in (OTHER, AGENT)
