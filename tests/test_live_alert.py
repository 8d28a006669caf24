"""The alert end to end: a real load on a real MySQL, the agent, Prometheus and our own rules."""

import json
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle, groupby, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import yaml
from contended_work import NO_HOST, ContendedLoad
from prometheus_rules import RULES, rules_with_short_intervals

from agent.demo.private_server import PrivateServer, free_port
from testbed.real.clients import Clients
from testbed.real.daemon import PREFIX, Daemon, PlausiblePage, running, target, wait_until, watching

ALERT = "MysqlHeadroomSaturated"
RISING = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 17, 20)  # clients, the last far beyond the peak
BEYOND = (14, 20, 12, 17, 20)  # then up and down past the peak: a steady load tells nothing
FAR_BELOW = 4
MIXED = (1, 3, 2, 4)  # a second of each before, as real loads are
STEP = 3.0  # seconds at each
RECORDED_STEP = 0.5  # seconds: the rules are evaluated once a second
FIRES_WITHIN = 170.0  # seconds: three times up the ladder, where a busy machine makes it hard
ENDS_WITHIN = 60.0
POINTS_WITHIN = 90.0
FIT = {"interval": "1s", "window": "80s"}
"""Up and past the peak once and a half: what a busy machine bends for a while is let go again."""
TELLING = (
    "capacity_",
    "saturation_",
    "usl_",
    "resource_",
    "throughput_",
    "concurrency",
    "intervals_",
    "outliers_",
)


class Watcher:
    """Prometheus, asked how our alert stands."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1/"
        self._began = float(int(time.time()))

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
        """The alert's state now."""
        groups = self.ask("rules?type=alert")["groups"]
        [state] = [r["state"] for g in groups for r in g["rules"] if r["name"] == ALERT]
        return str(state)

    @property
    def states(self) -> list[str]:
        """The states so far, in their order, as Prometheus has recorded them: none is missed."""
        end = time.time()
        span = {"start": self._began, "end": end, "step": RECORDED_STEP}
        asked = urllib.parse.urlencode({"query": f'ALERTS{{alertname="{ALERT}"}}', **span})
        known = {
            at: str(series["metric"]["alertstate"])
            for series in self.ask(f"query_range?{asked}")["result"]
            for at, _ in series["values"]
        }
        count = int((end - self._began) / RECORDED_STEP) + 1
        times = (self._began + RECORDED_STEP * k for k in range(count))
        return [state for state, _ in groupby(known.get(at, "inactive") for at in times)]

    def wait_for_end(self) -> None:
        """Until the alert is gone."""
        wait_until(f"{ALERT} inactive", lambda: self.states[-1] == "inactive", ENDS_WITHIN)


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


def begin_below(load: ContendedLoad, watcher: Watcher) -> None:
    """Far below the peak nothing is said."""
    for count, seconds in [*((few, 1.0) for few in MIXED), *((n, STEP) for n in RISING)]:
        if count <= FAR_BELOW:
            load.set(count)
            time.sleep(seconds)
    assert watcher.states == ["inactive"]


def press_on(load: ContendedLoad, watcher: Watcher, agent: Daemon) -> float:
    """Go up to the peak and beyond, again and again, until the alert fires and trust was seen.

    The alert asks for a probability, not for trust, and may well come first. Returns the most that
    was served in a step, statements/s.
    """
    until, most = time.monotonic() + FIRES_WITHIN, 0.0
    for count in cycle([*RISING, *BEYOND]):
        load.set(count)
        most = max(most, load.throughput(STEP))
        # it fired, and perhaps does no more: the work goes up and down
        if "firing" in watcher.states and any(agent.seen("capacity_trust", trust="trusted")):
            break
        assert time.monotonic() < until, f"states {watcher.states}; the agent says\n{told(agent)}"
    return most


def assert_the_limit_was_found(agent: Daemon, served: float) -> None:
    """Contention, not a resource, and about what the load was served at most."""
    trusted = [page for page in agent.pages if page.get("capacity_trust", trust="trusted") == 1]
    assert trusted, told(agent)
    capacities = [page.get("capacity_queries_per_second") or 0.0 for page in trusted]
    assert median(capacities) == pytest.approx(served, rel=0.3), told(agent)
    assert all(
        (page.get("capacity_limit_probability", resource="usl") or 0) > 0.5 for page in trusted
    )


def told(agent: Daemon) -> str:
    """What the agent says of load, capacity and trust, for whoever reads of a failure."""
    names = tuple(PREFIX + name for name in TELLING)
    return "\n".join(line for line in agent.page.text.splitlines() if line.startswith(names))


def test_the_alert_fires_under_a_rising_load_and_resolves(
    mysql_server: PrivateServer, prometheus: str, tmp_path: Path
) -> None:
    """Far below the peak it is silent, past it it fires, at low load it resolves."""
    sane = PlausiblePage(threads=RISING[-1] + 5)
    with ExitStack() as stack:
        there = target(tmp_path, mysql_server) | NO_HOST
        agent = stack.enter_context(watching(tmp_path, there, sane=sane, fit=FIT))
        watcher = stack.enter_context(prometheus_on(agent, tmp_path, prometheus))
        load = stack.enter_context(ContendedLoad(mysql_server, max(RISING)))
        begin_below(load, watcher)
        assert_the_limit_was_found(agent, press_on(load, watcher, agent))
        load.set(1)
        watcher.wait_for_end()
        states = watcher.states
    assert states[0] == states[-1] == "inactive"
    assert {before for before, now in pairwise(states) if now == "firing"} == {"pending"}


def test_a_steady_load_gives_no_trusted_prediction(
    mysql_server: PrivateServer, tmp_path: Path
) -> None:
    """A load that never changes shows nothing of its limit."""
    there = target(tmp_path, mysql_server) | NO_HOST
    with watching(tmp_path, there) as agent, Clients(mysql_server, "SELECT SLEEP(0.05)", 2):
        wait_until("points", lambda: (agent.get("intervals_kept") or 0) >= 10, POINTS_WITHIN)
        assert not any(agent.seen("usl_trust", trust="trusted"))
        assert not any(agent.seen("capacity_trust", trust="trusted"))
