"""The agent and mysqld_exporter as their users run them: what they cost, how fast they answer."""

import atexit
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from many_digest_fixture import ROOT, WatchedServer

from agent.demo.private_server import free_port
from collectors.host import process_clock

EXPORTER = "prometheus-mysqld-exporter"  # the package and its program
SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
STARTS_WITHIN = 120.0  # seconds
KIB = 1024
UNIT = ROOT / "deploy/systemd/mysql-headroom.service"


class RunningProgram:
    """A running one that serves /metrics on that port; `pid`: the process that is measured."""

    def __init__(self, process: "subprocess.Popen[bytes]", pid: int, port: int) -> None:
        self.port = port
        self._process, self._pid = process, pid

    def cpu(self) -> float:
        """CPU seconds that it has used so far."""
        return process_clock(self._pid) or 0.0

    def memory(self, kind: str = "Rss") -> float:
        """Its memory of that kind in MiB; `Pss` shares what others have mapped as well."""
        lines = Path(f"/proc/{self._pid}/smaps_rollup").read_text().splitlines()
        line = next(line for line in lines if line.startswith(f"{kind}:"))
        return int(line.split()[1]) / KIB

    def scrape(self) -> tuple[float, bytes]:
        """The seconds from before connecting to the last byte of the metrics, and the answer."""
        parts, started = [], time.monotonic()
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(SCRAPE)
            while part := connection.recv(1 << 20):
                parts.append(part)
        elapsed, answer = time.monotonic() - started, b"".join(parts)
        if b" 200 " not in answer[:20]:
            sys.exit(f"no metrics: {answer[:200]!r}")
        return elapsed, answer

    def value(self, name: str, *labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        lines = self.scrape()[1].decode().splitlines()
        rows = (line for line in lines if line.partition("{")[0].partition(" ")[0] == name)
        return sum(float(row.split()[-1]) for row in rows if all(label in row for label in labels))

    def wait_for(self, name: str, least: float) -> None:
        """Wait until that metric is that great."""
        end = time.monotonic() + STARTS_WITHIN
        while time.monotonic() < end:
            if self._process.poll() is not None:
                sys.exit(f"a program has ended with {self._process.returncode}")
            try:
                if self.value(name) >= least:
                    return
            except OSError:
                pass
            time.sleep(max(0.2, least / 200))  # a page of many targets takes long to make
        sys.exit(f"{name} was not {least:g} within {STARTS_WITHIN:g} s")


@contextmanager
def running(
    words: Sequence[str], port: int, log: Path, within: Sequence[str] = (), **environment: str
) -> Iterator[RunningProgram]:
    """A program in the background, ended with the block; `within`: what runs it as its child."""
    command, variables = [*within, *words], {**os.environ, **environment}
    with log.open("wb") as lines:
        process = subprocess.Popen(command, stderr=lines, env=variables)
    pid = process.pid
    try:
        pid = child_of(pid) if within else pid
        yield RunningProgram(process, pid, port)
    finally:
        os.kill(pid, signal.SIGTERM)
        process.wait()


def child_of(pid: int) -> int:
    """Return the one child of a process, once it has started it."""
    children, end = Path(f"/proc/{pid}/task/{pid}/children"), time.monotonic() + STARTS_WITHIN
    while time.monotonic() < end and children.exists():
        if found := children.read_text().split():
            return int(found[0])
        time.sleep(0.05)
    sys.exit(f"the process {pid} has started no other")


@contextmanager
def running_agent(
    folder: Path,
    targets: Sequence[Mapping[str, Any]],
    within: Sequence[str] = (),
    **options: object,
) -> Iterator[RunningProgram]:
    """The daemon with the default configuration but for these options, once all targets are up.

    As users install and run it: from a wheel in an environment of its own, as the unit says.
    """
    port = free_port()
    file = folder / "config.yaml"
    config = {"listen": f"127.0.0.1:{port}", "targets": list(targets), **options}
    file.write_text(yaml.safe_dump(config))
    words = [str(installed_agent()), "run", "--config.file", str(file)]
    log = folder / "agent.log"
    with running(words, port, log, within, **service_environment()) as agent:
        agent.wait_for("mysql_headroom_up", len(targets))
        yield agent


@cache
def installed_agent() -> Path:
    """The program in a new environment, made as docs/systemd.md says; deleted at the end.

    The development's environment would not do: a library imports others where it finds them.
    """
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    python = folder / "bin/python3"
    install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    for words in (
        (sys.executable, "-m", "venv", folder),
        (*install, "--no-compile", "--require-hashes", "--requirement", "requirements.lock"),
        (*install, "--no-compile", "--no-deps", "."),
        (python, "-m", "compileall", "-q", "-o", "2", folder / "lib"),
    ):
        subprocess.run(words, cwd=ROOT, check=True)
    return folder / "bin/mysql-headroom"


def service_environment() -> dict[str, str]:
    """Return the environment that the systemd unit, like the image, gives the agent."""
    given = dict(re.findall(r"(?m)^Environment=(\w+)=(.*)$", UNIT.read_text()))
    return given | {"PYTHONPATH": ""}  # of no checkout


def target(watched: WatchedServer, folder: Path, name: str = "db") -> dict[str, object]:
    """The server as a target of the agent's configuration."""
    login = watched.logins["agent"]
    file = folder / "password"
    file.write_text(login.password)
    return {
        "name": name,
        "socket": watched.endpoint.socket,
        "user": login.user,
        "password_file": str(file),
    }


@contextmanager
def running_exporter(watched: WatchedServer, folder: Path) -> Iterator[RunningProgram]:
    """The distribution's exporter with its defaults, and the digests of every class.

    Less `slave_status`: MySQL 9 no longer knows that statement.
    """
    login, port = watched.logins["exporter"], free_port()
    words = [
        installed_exporter(),
        f"--web.listen-address=127.0.0.1:{port}",
        "--no-collect.slave_status",
        "--collect.perf_schema.eventsstatements",
        f"--collect.perf_schema.eventsstatements.limit={watched.classes + 1000}",
    ]
    source = f"{login.user}:{login.password}@unix({watched.endpoint.socket})/"
    with running(words, port, folder / "exporter.log", DATA_SOURCE_NAME=source) as exporter:
        exporter.wait_for("mysql_up", 1)
        yield exporter


def installed_exporter() -> str:
    """The program's path; the package is installed where it lacks and that may be done."""
    if not shutil.which(EXPORTER):
        install = f". scripts/lib.sh; need_packages {EXPORTER}"
        subprocess.run(["sh", "-c", install], cwd=ROOT, check=False)
    return shutil.which(EXPORTER) or sys.exit(f"no {EXPORTER} here")
