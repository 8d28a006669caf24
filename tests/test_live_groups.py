"""Two groups of real servers: the node that is slowed down is named, one that is killed left out.

A primary with two replicas (MySQL) and three shards (MariaDB), each server with a part of a
processor. The load of a group is divided evenly, so the node with half the part is used most.
"""

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from conftest import ServerFactory

from agent.demo.private_server import PrivateServer
from testbed.real.cgroups import cpu_quota
from testbed.real.clients import Clients
from testbed.real.daemon import Daemon, is_root, target, wait_until, watching
from testbed.real.predicted_limit import OFTEN, most
from testbed.real.replication import let_follow

STATEMENT = "DO BENCHMARK(200000, 1 + 1)"
"""A few milliseconds of a processor, by its speed."""
REPLICAS, SHARDS = ("primary", "replica1", "replica2"), ("shard1", "shard2", "shard3")
SLOW = {"replicas": "replica1", "shards": "shard2"}
PART, SLOWED = 0.2, 0.1  # of a processor
BUSY = 0.7
"""Of what the slow node can do, the load of each node at its highest."""
SHARES, STEP = (0.3, 1.0, 0.6, 0.9, 0.4, 0.8), 1.5
FIT = {"interval": "1s", "window": "2m"}
PATIENCE = 120.0

Servers = dict[str, PrivateServer]


@pytest.fixture
def servers(private_server: ServerFactory) -> Servers:
    """The nodes of both groups by their names; the replicas follow the primary."""
    started = {"primary": private_server("mysql", log_bin=True)}
    for number, name in enumerate(REPLICAS[1:], 2):
        started[name] = private_server("mysql", options=[f"--server-id={number}", "--log-bin=bin"])
        let_follow(started["primary"], started[name])
    return started | {name: private_server("mariadb") for name in SHARDS}


def group_of(agent: Daemon, name: str) -> dict[str, Any]:
    """The summary of a group as JSON; empty where there is none."""
    with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/api/v1/groups", timeout=5) as got:
        [group] = [group for group in json.load(got)["groups"] if group["group"] == name]
    return group["summary"] or {}


def use(summary: dict[str, Any]) -> dict[str, float | None]:
    """The share of its capacity that each node uses."""
    return {node["target"]: node["capacity_used"] for node in summary.get("nodes", [])}


def is_named(agent: Daemon, group: str) -> bool:
    """Say whether the slow node is the bottleneck.

    The capacities of the others may be unknown, and are while other tests fill the host's
    processors: those could end the growth before a node's own part does, and nobody knows when.
    """
    return bool(group_of(agent, group).get("bottleneck") == SLOW[group])


def highest_rates(servers: Servers) -> dict[str, float]:
    """Statements/s of each node at the highest load: a part of what the slow one can do."""
    rates: dict[str, float] = {}
    for group, slow in SLOW.items():
        rate = BUSY * most(partial(load, servers[slow]))
        rates |= {name: rate for name in servers if group_name(name) == group}
    return rates


def load(server: PrivateServer, count: int, pace: float) -> Clients:
    """Clients that compute."""
    return Clients(server, STATEMENT, count, pace=pace)


def group_name(name: str) -> str:
    """The group of a node."""
    return "shards" if name in SHARDS else "replicas"


@contextmanager
def loaded(servers: Servers, rates: dict[str, float], share: float) -> Iterator[None]:
    """Load each of them to this share of its highest rate."""
    with ExitStack() as stack:
        for name, server in servers.items():
            stack.enter_context(load(server, 2, 1 / (rates[name] * share)))
        yield


def load_until_named(agent: Daemon, servers: Servers, rates: dict[str, float]) -> None:
    """Vary the load until the slow node of each group is known to be its bottleneck."""
    deadline = time.monotonic() + PATIENCE
    for share in cycle(SHARES):
        with loaded(servers, rates, share):
            time.sleep(STEP)
        if all(is_named(agent, group) for group in SLOW):
            return
        assert time.monotonic() < deadline, {group: group_of(agent, group) for group in SLOW}


@pytest.mark.live
@pytest.mark.long
@pytest.mark.skipif(not is_root(), reason="only root limits what a process may use")
def test_the_slow_node_is_the_bottleneck_and_a_killed_one_is_left_out(
    servers: Servers, tmp_path: Path
) -> None:
    """By its name; the killed one is lost, and the others are still summarised."""
    there = [
        {**target(tmp_path, server, name=name), "group": group_name(name)}
        for name, server in servers.items()
    ]
    with ExitStack() as stack:
        for name, server in servers.items():
            part = SLOWED if name in SLOW.values() else PART
            stack.enter_context(cpu_quota(server.pid, part))
        rates = highest_rates(servers)
        agent = stack.enter_context(watching(tmp_path, *there, fit=FIT, collectors=OFTEN))
        load_until_named(agent, servers, rates)
        for group, slow in SLOW.items():
            summary = group_of(agent, group)
            print(f"\n{group}: {json.dumps(summary)}")
            used = [share for share in use(summary).values() if share is not None]
            assert max(used) == use(summary)[slow]
            assert len(used) == 1 or summary["imbalance"] > 1.1
            clocks = [node["clock_offset"] for node in summary["nodes"]]  # of one machine
            assert all(abs(clock["seconds"]) <= clock["uncertainty"] for clock in clocks), clocks
            assert agent.get("group_bottleneck_info", group=group, target=slow) == 1.0
            layers = summary["layer_shares"]  # they only compute
            assert sum(layers.values()) == pytest.approx(1.0)
            assert layers["system"] > 0.9
            servers[slow].kill()
        left = {name: server for name, server in servers.items() if name not in SLOW.values()}
        with loaded(left, rates, 0.8):
            for group, slow in SLOW.items():
                goes_on_without(agent, group, slow)


def goes_on_without(agent: Daemon, group: str, slow: str) -> None:
    """Wait for three more intervals of the group: without the node, and with the other two."""
    wait_until("it is lost", lambda: group_of(agent, group).get("lost") == [slow], PATIENCE)
    lost = "group_intervals_lost_total"
    before = agent.get(lost, group=group, target=slow) or 0
    wait_until(
        "three more intervals",
        lambda: (agent.get(lost, group=group, target=slow) or 0) >= before + 3,
        PATIENCE,
    )
    summary = group_of(agent, group)
    assert summary["lost"] == [slow]
    assert summary["bottleneck"] != slow
    assert summary["throughput"] > 0
    assert agent.get("group_up", group=group) == 2.0
