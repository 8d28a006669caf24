"""The alert end to end: a real load on a real MySQL, the agent, Prometheus and our own rules."""

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from live import Clients, Daemon, Sane, free_port, running, target, wait_until, watching
from prometheus_rules import RULES, rules_with_short_intervals

from agent.demo.server import PrivateServer

ALERT = "MysqlHeadroomSaturated"
RISING = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 17, 20)  # clients, the last far beyond the peak
FAR_BELOW = 4
MIXED = (1, 3, 2, 4)  # a second of each before, as real loads are: a steady one tells nothing
STEP = 3.0  # seconds at each
DEADLINE = 40.0  # seconds for a state of the alert to come

# Contention and coherency without CPU, so that a busy machine does not bend the curve: a statement
# waits 40 ms, 5 % of that for each that runs beside it, and 1 % for each pair of these and itself.
WORK = """
SELECT SLEEP(0.040 + 0.0020 * beside + 0.0004 * beside * (beside + 1)) FROM (
    SELECT COUNT(*) AS beside FROM performance_schema.threads
     WHERE PROCESSLIST_STATE = 'User sleep') AS others"""
PEAK = 9.7  # sqrt((1 - 0.05) / 0.01)


class Watcher:
    """Prometheus, asked how our alert stands; keeps the states in their order."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1/"
        self.states: list[str] = []

    def ask(self, what: str) -> Any:
        """The data of one answer of its API."""
        with urllib.request.urlopen(self._url + what, timeout=5) as answer:
            return json.load(answer)["data"]

    def is_ready(self) -> bool:
        """Whether it has evaluated the rules on a page of the agent."""
        try:
            return bool(self.ask("query?query=mysql_headroom_up")["result"] and self.state)
        except OSError:
            return False

    @property
    def state(self) -> str:
        """The alert's state now; one that is new is kept."""
        groups = self.ask("rules?type=alert")["groups"]
        [state] = [r["state"] for g in groups for r in g["rules"] if r["name"] == ALERT]
        if self.states[-1:] != [state]:
            self.states.append(state)
        return str(state)

    def look_on(self, seconds: float) -> None:
        """Keep the states that come in that time."""
        until = time.monotonic() + seconds
        wait_until("time", lambda: self.state and time.monotonic() > until)

    def wait_for(self, state: str) -> None:
        """Until the alert is in that state."""
        wait_until(f"{ALERT} {state}", lambda: self.state == state, DEADLINE)


@contextmanager
def prometheus_on(agent: Daemon, folder: Path, program: str) -> Iterator[Watcher]:
    """A Prometheus that scrapes the agent every second, with the rules we ship, impatient."""
    rules = folder / RULES.name
    rules.write_text(rules_with_short_intervals(RULES.read_text()))
    job = {
        "job_name": "mysql-headroom",
        "static_configs": [{"targets": [f"127.0.0.1:{agent.port}"]}],
    }
    config = folder / "prometheus.yml"
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config.write_text(
        yaml.safe_dump({"global": every, "rule_files": [str(rules)], "scrape_configs": [job]})
    )
    port = free_port()
    with running(
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ):
        watcher = Watcher(port)
        wait_until("prometheus", watcher.is_ready)
        yield watcher


def work(server: PrivateServer, count: int) -> Clients:
    """So many clients that never rest."""
    return Clients(server, WORK, count)


def raise_load(server: PrivateServer, watcher: Watcher) -> None:
    """Go far beyond the peak, step by step; nothing is said far below it."""
    for count in MIXED:
        with work(server, count):
            watcher.look_on(1.0)
    for count in RISING:
        with work(server, count):
            watcher.look_on(STEP)
        if count <= FAR_BELOW:
            assert watcher.states == ["inactive"]


def test_the_alert_fires_under_a_rising_load_and_ends_with_it(
    mysql_server: PrivateServer, prometheus: str, tmp_path: Path
) -> None:
    """Far below the peak the alert is silent, past it it fires, at low load it ends."""
    sane = Sane(threads=RISING[-1] + 5)
    with ExitStack() as stack:
        there = target(tmp_path, mysql_server)
        agent = stack.enter_context(watching(tmp_path, there, sane=sane))
        watcher = stack.enter_context(prometheus_on(agent, tmp_path, prometheus))
        raise_load(mysql_server, watcher)
        with work(mysql_server, RISING[-1]):
            watcher.wait_for("firing")
            assert agent.get("usl_max_concurrency") == pytest.approx(PEAK, rel=0.4)
        with work(mysql_server, 1):
            watcher.wait_for("inactive")
    assert watcher.states[:2] == ["inactive", "pending"]
    assert watcher.states[-3:] == ["pending", "firing", "inactive"]


def test_a_steady_load_predicts_nothing(mysql_server: PrivateServer, tmp_path: Path) -> None:
    """A load that never changes says nothing about its limit, so no fit of it is trusted."""
    there = target(tmp_path, mysql_server)
    with watching(tmp_path, there) as agent, Clients(mysql_server, "SELECT SLEEP(0.05)", 2):
        wait_until("ten points", lambda: (agent.get("usl_points") or 0) >= 10)
        assert not any(agent.seen("usl_trust", trust="trusted"))
