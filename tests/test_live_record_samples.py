"""The script that records samples without an agent: what it writes is replayed."""

import csv
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.cli import main
from agent.demo.private_server import PrivateServer
from testbed.real.clients import Clients
from testbed.real.server_programs import ROOT

SCRIPT = ROOT / "docs/examples/record-samples.sh"
SAMPLES, CLIENTS, LASTS = 16, 3, 0.02
"""One a second; clients at once; seconds of each statement."""
BEFORE_THREE = 1_761_440_000.25
"""The first of two instants at which it was 2:53:20 in Berlin: summer time ended at 3:00."""


@pytest.mark.live
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
    first = dict(zip(header.split(","), rows[0].split(","), strict=True))
    assert first["redo_writes"] != ""
    assert (first["redo_syncs"] != "") == (server.flavour == "mysql")
    assert main(["replay", str(file), "--interval", "6s", "--format", "json"]) == 0
    end = json.loads(capsys.readouterr().out.splitlines()[-1])
    at = [float(row.split(",")[0]) for row in rows]
    rate = done / (at[-1] - at[0])
    assert end["load"]["throughput"] == pytest.approx(rate, rel=0.25)
    assert end["load"]["throughput"] < CLIENTS / LASTS
    assert 0 < end["load"]["utilisation"]["server_cpu"] <= 1
    assert end["load"]["utilisation"]["connections"] > 0
    if server.flavour == "mysql":  # MariaDB times no statements by default
        # each lasts so long on the server, and clients lose time between them on a busy machine
        assert end["load"]["concurrency"]["statement_time"] == pytest.approx(rate * LASTS, rel=0.25)


def test_a_large_cpu_counter_is_recorded_exactly(
    mariadb_server: PrivateServer, tmp_path: Path
) -> None:
    """To 0.01 s, also above a million: six digits would be steps of 10 s."""
    slow_clock = tmp_path / "getconf"  # as if each tick were minutes: the times are those of months
    slow_clock.write_text("#!/bin/sh\necho 0.003\n")
    slow_clock.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    [sample] = _recorded(mariadb_server, tmp_path, PATH=path)
    for name in ("host_cpu_busy_s", "server_cpu_s"):
        assert re.fullmatch(r"\d+\.\d\d", sample[name]), f"{name}: {sample[name]}"
    assert float(sample["host_cpu_busy_s"]) > 1e6


def test_a_login_may_come_from_a_file(mariadb_server: PrivateServer, tmp_path: Path) -> None:
    """The client takes `--defaults-file` only as its first option."""
    (file := tmp_path / "my.cnf").write_text("[client]\nuser=root\n")
    [sample] = _recorded(mariadb_server, tmp_path, first=f"--defaults-file={file}")
    assert int(sample["max_connections"]) > 0


@pytest.mark.parametrize("release", ["mysql", "mariadb"])
def test_a_recording_has_one_time_base_when_summer_time_ends(
    release: str,
    start_server: Callable[..., PrivateServer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The local hour that occurs twice is in the recording once."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    with start_server(release) as server:
        for at in (BEFORE_THREE, BEFORE_THREE + 3600):
            [sample] = _recorded(server, tmp_path, f"--init-command=SET timestamp={at}")
            assert float(sample["t_s"]) == at


def _recorded(
    server: PrivateServer,
    folder: Path,
    *options: str,
    first: str = "--user=root",
    **environment: str,
) -> list[dict[str, str]]:
    """Record one sample with these options of the client; return the rows."""
    file = folder / "samples.csv"
    with file.open("w") as out:
        subprocess.run(
            ["sh", str(SCRIPT), first, f"--socket={server.socket}", *options],
            env={**os.environ, "SAMPLES": "1", **environment},
            stdout=out,
            check=True,
            timeout=60,
        )
    with file.open(newline="") as rows:
        return list(csv.DictReader(rows))
