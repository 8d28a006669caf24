"""A real server, watched and recorded at once: a replay of the recording says the same."""

import json
import time
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from recordings import as_rows, nearly, written

from agent.assessment.snapshot import Snapshot
from agent.cli import main
from agent.config.settings import Config
from agent.demo.private_server import PrivateServer
from agent.export.snapshot_json import snapshots_as_json
from agent.service.target_monitor import TargetMonitor
from agent.window.interval_buffer import IntervalBuffer
from collectors.base import Sample
from testbed.real.clients import Clients

SAMPLING, WIDTH = 0.25, 1.0
STEPS = (1, 2, 4, 7, 3)
"""Clients at once."""
EACH = 3.0  # seconds
WORK = "SELECT SLEEP(0.01)"
NOT_RECORDED = (
    *("redo_", "checkpoint_", "innodb_", "disk:", "network:", "replicas_"),
    *("cpu_clock_", "cpu_idle_entries", "process_run_delay_", "connection_run_delay_"),
)
"""What the agent reads and a recording has no column for: it is kept from both."""
ATTEMPTS = 5
Json = dict[str, Any]


def is_in_time(samples: list[Sample]) -> bool:
    """Whether no reading was so late that its interval had been closed without it.

    The daemon does not wait for such a one, a replay has it in its place.
    """
    grace = IntervalBuffer(WIDTH, 0.0, SAMPLING).grace
    by_collector = defaultdict[str, list[float]](list)
    for sample in samples:
        by_collector[sample.collector].append(sample.at)
    return all(b - a < grace for times in by_collector.values() for a, b in pairwise(times))


def watched(server: PrivateServer) -> tuple[Snapshot, float, list[Sample]]:
    """What the agent says at the end of a load, when (monotonic), and the samples it has read."""
    every = {"interval": f"{SAMPLING}s"}
    config = Config.validated(
        {
            "fit": {"interval": WIDTH},
            "collectors": {
                **dict.fromkeys(("status", "statements", "threads", "host"), every),
                "digests": {"enabled": False},
            },
            "targets": [{"name": "db", "socket": server.socket, "user": "root"}],
        }
    )
    monitor = TargetMonitor(config, config.targets[0])
    samples: list[Sample] = []
    keep = monitor.buffer.append

    def append(sample: Sample) -> None:
        values = {n: v for n, v in sample.values.items() if not n.startswith(NOT_RECORDED)}
        samples.append(replace(sample, values=values))
        keep(samples[-1])

    monitor.buffer.append = append  # type: ignore[method-assign]
    try:
        for clients in STEPS:
            with Clients(server, WORK, clients):
                until = time.monotonic() + EACH
                while (now := time.monotonic()) < until:
                    due = monitor.server_tick(now), monitor.host_tick(now)
                    monitor.assessment_tick(time.monotonic())
                    time.sleep(max(0.0, min(*due) - time.monotonic()))
        now = time.monotonic()
        monitor.assessment_tick(now)
    finally:
        monitor.close()
    return monitor.snapshot, now, samples


def test_a_replay_of_the_agents_samples_gives_its_results(
    mysql_server: PrivateServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Load, capacity, limits, law and every point have the same numbers, to nine digits."""
    runs = (watched(mysql_server) for _ in range(ATTEMPTS))
    snapshot, now, samples = next(run for run in runs if is_in_time(run[2]))
    document = json.loads(snapshots_as_json([snapshot], snapshot.at))
    file = written(tmp_path / "db.csv", as_rows(samples))
    options = ("--at", repr(now), "--interval", f"{WIDTH}", "--sampling", f"{SAMPLING}")
    assert main(["replay", str(file), *options, "--format", "json"]) == 0
    expected, found = document["targets"][0], json.loads(capsys.readouterr().out)
    assert len(expected["points"]) >= 10
    assert expected["capacity"]["lower"] > 0
    assert {"cpu", "server_cpu", "connections"} <= set(expected["load"]["utilisation"])
    del expected["load"]["utilisation"]["cpu:steal"]  # a recording has one counter of all
    for name in ("server", "outliers_total"):  # of the whole daemon, and by how often it assessed
        del expected[name]
    for name in ("server", "outliers_total", "alerts"):
        del found[name]
    assert expected.pop("forecast") is None  # the daemon looks for one every few minutes
    assert found.pop("forecast")["days"] == 0
    assert timeless(expected) == timeless(found)


def timeless(value: Any) -> Any:
    """The same without times, which are of two clocks."""
    if isinstance(value, dict):
        kept = {
            n: part for n, part in value.items() if n not in ("at", "assessed_at", "changed_at")
        }
        return {name: timeless(part) for name, part in kept.items()}
    return [timeless(part) for part in value] if isinstance(value, list) else nearly(value)
