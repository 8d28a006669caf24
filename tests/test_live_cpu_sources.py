"""The capacity from each source of the CPU, beside what the server really does.

One server is three targets: on this host, with that host's node_exporter, and as a service of
which nothing but the server itself can be read. Below half of its load the agent says what each of
them can do; a closed loop before and after finds the truth.
"""

import os
import time
from pathlib import Path

import psutil
import pytest
from conftest import ServerFactory
from limited_servers import CLIENTS, FEW_CLIENTS, FIT, OFTEN, SHARES, most
from live import Clients, Daemon, free_port, run_as_root, target, wait_until, watching
from servers import least_account
from test_live_node_exporter import node_exporter

from agent.demo.server import PrivateServer

ROWS = 4000
TABLE = f"""
CREATE TABLE test.numbers (id INT PRIMARY KEY, a INT) AS
WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < {ROWS})
SELECT id, id * 7 % 1000 AS a FROM n"""
STATEMENT = "SELECT SUM(a * a % 17) FROM test.numbers"
SOURCES = ("host", "node_exporter", "statements")
AT_REST, PATIENCE = 25.0, 60.0  # per cent; seconds
STEP = 3.0  # seconds at each share of the peak
WANDERS = 0.35
"""By how much the truth does, where other work shares the processors."""


def load(server: PrivateServer, count: int, pace: float) -> Clients:
    """Clients that sum up a table, a statement of about two milliseconds."""
    return Clients(server, STATEMENT, count, pace=pace)


def wait_for_rest() -> None:
    """Other work would fill the processors that the prediction and the truth are about."""
    deadline = time.monotonic() + PATIENCE
    while psutil.cpu_percent(interval=2.0) > AT_REST:
        if time.monotonic() > deadline:
            pytest.skip(f"other work uses more than {AT_REST:g} % of the processors")


def capacity(agent: Daemon, name: str) -> list[float | None]:
    """The capacity and its bounds."""
    metrics = (f"capacity_{bound}queries_per_second" for bound in ("", "lower_", "upper_"))
    return [agent.get(metric, target=name) for metric in metrics]


@pytest.mark.live
def test_each_source_of_the_cpu_tells_the_capacity(
    private_server: ServerFactory, tmp_path: Path
) -> None:
    """Side by side from half of the load: each holds the truth; statements are an indication."""
    wait_for_rest()
    server, port = private_server("mysql"), free_port()
    run_as_root(server, "CREATE DATABASE test", "SET cte_max_recursion_depth = 10000", TABLE)
    account = least_account(server)
    there = {name: target(tmp_path, server, account, name=name) for name in SOURCES}
    there["node_exporter"]["node_exporter"] = {"url": f"http://127.0.0.1:{port}"}
    there["statements"]["collectors"] = {"host": {"enabled": False}}
    there["statements"]["resources"] = {"vcpus": os.cpu_count()}
    before = most(lambda count, pace: load(server, count, pace))
    with (
        node_exporter(port),
        watching(tmp_path, *there.values(), fit=FIT, collectors=OFTEN) as agent,
    ):
        for share in SHARES:
            with load(server, FEW_CLIENTS, 1 / (share * before)):
                time.sleep(STEP)
        for name in SOURCES:
            wait_until(f"capacity of {name}", lambda name=name: capacity(agent, name)[0], 60)  # type: ignore[misc]
        said = {name: capacity(agent, name) for name in SOURCES}
        page = agent.page
    truth = (before + most(lambda count, pace: load(server, count, pace))) / 2
    print(f"\ntruth: {truth:.0f} queries/s of {CLIENTS} clients that never rest")
    for name, (value, low, high) in said.items():
        assert value is not None
        assert low is not None
        upper = float("inf") if high is None else high
        print(f"{name:14} {value:6.0f} [{low:.0f}, {upper:.0f}]  {value / truth - 1:+.0%}")
        assert (1 - WANDERS) * low < truth < (1 + WANDERS) * upper, name
        assert page.get("cpu_source_info", target=name, source=name) == 1.0
    assert page.get("capacity_trust", target="statements", trust="trusted") == 0.0
    assert page.get("capacity_reason", target="statements", reason="cpu_assumed") == 1.0
