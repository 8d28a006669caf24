"""Query classes on real servers: estimates against what the servers themselves account for.

A dozen classes compute, wait, ship and read for half a minute. What each used of the CPU is
estimated without looking at SUM_CPU_TIME; then MySQL's own sums per class, and MariaDB's per user
(`userstat`, a user for each class), are the truth.
"""

import json
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from class_load import SMALL_POOL, WAITERS, WORKS, Load, class_of, prepare, user_of
from class_recording import CPU_ON, blind, connected, looked_at, record
from conftest import ServerFactory
from live import PREFIX, Clients, Page, run_as_root, target, wait_until, watching

from agent.classes.book import AGENT, OTHER, Book
from agent.classes.classes import QueryClasses
from agent.classes.observe import Observed
from agent.classes.state import ClassesState
from agent.classes.ticks import Tick, TickMaker
from agent.cli import main
from agent.config.query_classes import ClassSettings
from agent.demo.server import PrivateServer
from collectors.base import Sample
from models.attribution.divide import Method

SECONDS = 50
SETTINGS = ClassSettings(top=60, digest_text=True, interval=24.0, window=3600.0)
GENEROUS, WHILE_LEARNING = 0.35, 0.45
"""Σ|share − true share|, 2 is nothing in common: over all, and as the agent said it on the way."""
A_FEW_PERCENT = 0.05


def estimated(taken: list[Sample]) -> ClassesState:
    """What the agent says at the end of what was recorded."""
    classes = QueryClasses(SETTINGS)
    for sample in taken:
        classes.append(blind(sample))
    end = taken[-1].at
    classes.advance(end + SETTINGS.interval, end)
    assert classes.state is not None
    return classes.state


def measured(taken: list[Sample]) -> dict[str, float]:
    """MySQL's own CPU seconds of each work."""
    book, ticks = Book(), list[Tick]()
    maker = TickMaker(book)
    for sample in taken:
        maker.append(sample)
    ticks = maker.ticks(taken[-1].at + 60)
    used = defaultdict[str, float](float)
    for tick in ticks:
        assert tick.changes is not None
        cpu = tick.changes.values[:, tick.changes.names.index("cpu_time")]
        for number, seconds in zip(tick.changes.classes, cpu, strict=True):
            name = class_of(book.text(book.keys[number]) or "")
            if name is not None:
                used[name] += float(seconds)
    return dict(used)


def by_userstat(server: PrivateServer) -> dict[str, float]:
    """MariaDB's CPU seconds of each work's user."""
    rows = run_as_root(server, "SELECT USER, CPU_TIME FROM information_schema.USER_STATISTICS")
    known = {str(user): float(seconds) for user, seconds in rows}
    return {work.name: known.get(user_of(work.name), 0.0) for work in WORKS}


def by_work(state: ClassesState) -> dict[str, float]:
    """The estimate of each work."""
    used = defaultdict[str, float](float)
    for one in state.classes:
        name = class_of(one.text or "")
        if name is not None:
            used[name] += one.recent["cpu"]
    return dict(used)


def by_class(seen: Observed) -> dict[str, float]:
    """The same of what `profile` says."""
    assert seen.cpu is not None
    used = defaultdict[str, float](float)
    for use in seen.cpu.classes:
        name = class_of(seen.book.text(use.name) or "")
        if name is not None:
            used[name] += use.total
    return dict(used)


def shares(used: Mapping[str, float]) -> np.ndarray:
    """Each work's part of what all of them used."""
    values = np.array([used.get(work.name, 0.0) for work in WORKS])
    return np.asarray(values / values.sum())


@pytest.mark.live
@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_estimates_are_near_what_the_server_accounts_for(
    flavour: str, private_server: ServerFactory
) -> None:
    """Nobody who waits is blamed; prepared statements and procedures are classes like others."""
    options = [*SMALL_POOL, *(["--userstat=ON"] if flavour == "mariadb" else [])]
    server = private_server(flavour, options=options)  # type: ignore[arg-type]
    prepare(server)
    run_as_root(server, CPU_ON)
    with connected(server) as connection, Load(server) as load:
        time.sleep(2.0)
        before = by_userstat(server) if flavour == "mariadb" else {}
        taken = record(connection, SECONDS)
        if flavour == "mariadb":
            after = by_userstat(server)
            truth = {name: after[name] - before[name] for name in after}
        else:
            truth = measured(taken)
    assert not load.failures
    state, seen = estimated(taken), looked_at(taken)
    cpu = state.resource("cpu")
    assert cpu is not None
    assert seen.cpu is not None
    assert cpu.source is seen.cpu.method is Method.WORK_TIME
    for found, bound in ((by_class(seen), GENEROUS), (by_work(state), WHILE_LEARNING)):
        compare(found, truth, bound)
    assert cpu.unattributed_share is not None
    assert cpu.unattributed_share < 0.8


def compare(found: Mapping[str, float], truth: Mapping[str, float], bound: float) -> None:
    """Shares are near the true ones, nobody who waits is blamed, nobody who works is missed."""
    true, part = shares(truth), shares(found)
    names = [work.name for work in WORKS]
    table = {
        n: (round(float(t), 3), round(float(p), 3))
        for n, t, p in zip(names, true, part, strict=True)
    }
    score = float(np.abs(part - true).sum())
    print(f"score {score:.3f}: {table}")
    assert score < bound, table
    for name in WAITERS:
        assert table[name][1] < A_FEW_PERCENT, (name, table)
    for name in ("prepared", "calls", "ships", "reads"):
        assert 0 < table[name][1] < 0.5, (name, table)


@pytest.mark.live
def test_the_agents_counters_rise_and_never_fall(
    server: PrivateServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A class comes to the page, with its CPU; no text does unless that is switched on.

    While the agent runs, the history that it writes answers `profile --since`.
    """
    known = "query_calls_total", "query_statement_seconds_total", "query_cpu_seconds_total"
    settings = {"interval": "5s", "top": 3}
    history = {"path": str(tmp_path / "state" / "history.db")}
    with (
        watching(tmp_path, target(tmp_path, server), classes=settings, history=history) as agent,
        Clients(server, "SELECT BENCHMARK(200000, 7 * 11) AS on_the_page", pace=0.02),
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
        )
    assert (page.get("unattributed_cpu_seconds_total") or 0) >= 0
    assert page.all("query_source_info", resource="cpu") == [1.0]
    assert page.all("query_digest_info") == []
    assert "on_the_page" not in page.text
    assert len(page.all(known[0])) <= 3 + 2
    for name in known:
        highest: dict[frozenset[tuple[str, str]], float] = {}
        for page in agent.pages:
            for labels, value in series(page, name).items():
                assert value >= highest.get(labels, 0.0)
                highest[labels] = value


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
