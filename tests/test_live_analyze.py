"""`analyze` beside the agent on one run: a server that Prometheus really scraped meanwhile."""

import json
import time
import urllib.request
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from contended_work import NO_HOST, ContendedLoad
from exporters import mysqld_exporter, node_exporter
from prometheus_server import serving

from agent.cli import main
from agent.demo.private_server import PrivateServer, free_port
from testbed.real.daemon import Daemon, target, wait_until, watching
from testbed.real.server_account import least_account

STEPS, EACH, FIRST = (1, 3, 6, 10, 16), 6.5, 3.0
"""Clients at once, up to beyond the peak, and for how long, s, at least; the first is while they
connect."""
LATE = 30.0  # seconds that an interval of either may come later than it should
SETTLED = 2.5
"""Seconds of a step after which what ends lies within it: two intervals of `WIDTH` at least."""
WIDTH = 2.0
NEAR = 0.15
"""Of each other are two measurements whose intervals have other edges."""
SINCE = "90s"
OWN = 6.0
"""Statements/s of the agent at most, which it leaves out and `analyze` cannot: 5 were seen."""
SLOW = {name: {"interval": "1s"} for name in ("status", "statements", "threads")}
Json = dict[str, Any]


def scraping(**ports: int) -> Json:
    """The configuration of a Prometheus that scrapes these jobs each second."""
    jobs = [
        {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
        for job, port in ports.items()
    ]
    return {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": jobs}


Step = tuple[float, float]
"""When it began and ended, Unix seconds."""


def within(points: Sequence[Json], step: Step) -> list[Json]:
    """The points that lie within a step."""
    return [point for point in points if step[0] + SETTLED < point["at"] <= step[1]]


def by_step(points: Sequence[Json], steps: Sequence[Step], what: str) -> list[float]:
    """The mean of each step's points."""
    return [fmean(point[what] for point in within(points, step)) for step in steps]


def snapshot(agent: Daemon) -> Json:
    """What the agent says of the one server."""
    with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/api/v1/snapshot") as answer:
        (said,) = json.loads(answer.read())["targets"]
    return dict(said)


def analysed(url: str, capsys: pytest.CaptureFixture[str], *more: str) -> Json:
    """What `analyze` says of the one server."""
    words = ("--selector", '{job="mysql"}', "--since", SINCE, "--interval", f"{WIDTH}", *more)
    assert main(["analyze", "--prometheus", url, *words, "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["targets"]
    return dict(found)


def agree(found: Mapping[str, float], said: Mapping[str, float]) -> bool:
    """Whether two intervals have anything in common, but for the agent's own statements."""
    return found["lower"] - OWN <= said["upper"] and said["lower"] <= found["upper"]


@pytest.mark.live
def test_analyze_agrees_with_the_agent(
    mysql_server: PrivateServer,
    prometheus: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same throughput and concurrency at each load, capacities that agree, and its host."""
    account = least_account(mysql_server)
    mysql, node = free_port(), free_port()
    watched = target(tmp_path, mysql_server, account)
    collectors = {**SLOW, **NO_HOST["collectors"]}
    with (
        node_exporter(node),
        mysqld_exporter(mysql, mysql_server, account),
        serving(prometheus, tmp_path / "data", config=scraping(mysql=mysql, node=node)) as url,
        watching(tmp_path, watched, fit={"interval": "2s"}, collectors=collectors) as agent,
    ):
        steps: list[Step] = []

        def both_have_points(began: float) -> bool:
            answers = snapshot(agent), analysed(url, capsys, "--no-hosts")
            return all(within(said["points"], (began, time.time())) for said in answers)

        with ContendedLoad(mysql_server, max(STEPS)) as load:
            load.set(STEPS[0])
            time.sleep(FIRST)
            for clients in STEPS[1:]:
                load.set(clients)
                began = time.time()
                time.sleep(EACH)
                wait_until("points", partial(both_have_points, began), LATE)
                steps.append((began, time.time()))
        said, found = snapshot(agent), analysed(url, capsys, "--no-hosts")
        of_host = analysed(url, capsys)
    assert found["concurrency_source"] == said["concurrency_source"] == "statement_time"
    for what, apart in (("throughput", OWN), ("concurrency", 0.0)):
        expected = by_step(said["points"], steps, what)
        measured = by_step(found["points"], steps, what)
        assert measured == pytest.approx(expected, rel=NEAR, abs=apart), what
    assert found["capacity"]["limit"] == said["capacity"]["limit"] == "usl"
    assert found["capacity"]["value"] == pytest.approx(said["capacity"]["value"], rel=NEAR)
    assert agree(found["capacity"], said["capacity"])
    assert 0 < of_host["load"]["utilisation"]["cpu"] <= 1
