"""`mysql-headroom profile` on real servers: the observers are apart from what they observe."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.cli import main
from agent.demo.private_server import PrivateServer
from models.attribution.class_interval_table import AGENT
from testbed.real.clients import Clients, run_as_root
from testbed.real.daemon import target, wait_until, watching
from testbed.real.server_account import least_account

OBSERVING = (
    "performance_schema",
    "GLOBAL_STATUS",
    "SHOW GLOBAL STATUS",
    "CONNECTION_ID",
    "lock_wait_timeout",
)


def profiled(file: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    """The classes of a profile, texts included."""
    asked = ["profile", "--config.file", str(file), "--text", "--format", "json", *options]
    assert main([*asked, "--top", "1000"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["classes"]
    return found


def test_a_running_agent_is_one_class(
    server: PrivateServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither its statements nor the profile's are classes of the load, and their cost is shown."""
    run_as_root(server, "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest")
    here = target(tmp_path, server, least_account(server))
    if server.flavour == "mysql":
        here["class_slas"] = [{"digest": "ab" * 32, "seconds": "100ms"}]
    file = tmp_path / "config.yaml"
    with watching(tmp_path, here) as agent, Clients(server, "SELECT BENCHMARK(9999, 2)", pace=0.05):
        wait_until("the agent reads", lambda: agent.get("up") == 1)
        seen = profiled(file, capsys, "--seconds", "6")
        summed = profiled(file, capsys, "--since", "start")
    for classes in (seen, summed):
        assert [c for c in classes if "BENCHMARK" in (c["text"] or "")]
        [own] = [c for c in classes if c["digest"] == AGENT]
        assert own["calls"] > 10
        assert own["seconds"] > 0
        others = [c["text"] or "" for c in classes]
        others = [text for text in others if not text.startswith(("GRANT", "TRUNCATE"))]
        assert not [text for text in others if any(word in text for word in OBSERVING)]
