"""The script that records samples without an agent: what it writes is replayed."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from agent.cli import main
from agent.demo.server import PrivateServer
from testbed.real.clients import Clients
from testbed.real.server_programs import ROOT

SCRIPT = ROOT / "docs/examples/record-samples.sh"
SAMPLES, CLIENTS, LASTS = 16, 3, 0.02
"""One a second; clients at once; seconds of each statement."""


@pytest.mark.parametrize("fixture", ["mysql_server", "mariadb_server"])
def test_a_server_is_recorded_and_replayed(
    fixture: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Throughput, concurrency and the CPU of the server's process are those of the load."""
    server: PrivateServer = request.getfixturevalue(fixture)
    file = tmp_path / "samples.csv"
    with Clients(server, f"SELECT SLEEP({LASTS})", CLIENTS) as load, file.open("w") as out:
        subprocess.run(
            ["sh", str(SCRIPT), f"--socket={server.socket}", "--user=root"],
            env={**os.environ, "INTERVAL": "1", "SAMPLES": str(SAMPLES)},
            stdout=out,
            check=True,
            timeout=120,
        )
        done = load.done
    header, *rows = file.read_text().splitlines()
    assert len(rows) == SAMPLES
    assert all(row.count(",") == header.count(",") for row in rows)
    assert main(["replay", str(file), "--interval", "4s", "--format", "json"]) == 0
    end = json.loads(capsys.readouterr().out.splitlines()[-1])
    at = [float(row.split(",")[0]) for row in rows]
    rate = done / (at[-1] - at[0])
    assert end["load"]["throughput"] == pytest.approx(rate, rel=0.25)
    assert end["load"]["throughput"] < CLIENTS / LASTS
    assert 0 < end["load"]["utilisation"]["server_cpu"] <= 1
    assert end["load"]["utilisation"]["connections"] > 0
    if server.flavour == "mysql":  # MariaDB times no statements by default
        assert end["load"]["concurrency"]["statement_time"] == pytest.approx(CLIENTS, rel=0.2)
