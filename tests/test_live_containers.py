"""docker-compose.yml, really run: server, agent, Prometheus and Alertmanager, each in a container.

The images of the registries cannot be pulled here; `stand_in_images` makes others of real programs.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from docker_machine import DockerMachine
from history_rows import is_sound, rows
from prometheus_client.parser import text_string_to_metric_families
from stand_in_images import build_monitor, build_server, import_base, prune

from agent.history.row_kinds import INTERVALS
from testbed.real.daemon import PREFIX, wait_until
from testbed.real.server_programs import ROOT, Release

pytestmark = [pytest.mark.live, pytest.mark.patient, pytest.mark.timeout(600)]

PASSWORD = "it's a \\ pass\"word"
QUOTA = 0.1  # of a processor: one that the server gets on a busy machine too
PATIENCE = 60.0
CONFIG = ROOT / "deploy/docker/config.yaml"
ALL = {"mysql", "agent", "prometheus", "alertmanager"}
OVERRIDE = """
services:
  agent:
    volumes: ["{config}:/etc/mysql-headroom/config.yaml:ro"]
  prometheus:
    volumes: ["{rules}:/etc/prometheus/rules/test.rules.yml:ro"]
"""
OFTEN = "\nfit: {interval: 3s}\n"
"""Added to the agent's configuration, of which two intervals are waited for again and again."""
RULES = """
groups:
  - name: test
    rules:
      - alert: TheAgentSeesAServer
        expr: mysql_headroom_up == 1
"""
BUSY_SERVER = """
import pymysql
with pymysql.connect(unix_socket="/var/run/mysqld/mysqld.sock", user="headroom",
                     password=open("/run/secrets/headroom_password").read()) as connection:
    connection.cursor().execute("SELECT BENCHMARK(2000000000, 1 + 1)")
"""
CLIENT = """
import time
import pymysql
with pymysql.connect(unix_socket="/var/run/mysqld/mysqld.sock", user="headroom",
                     password=open("/run/secrets/headroom_password").read()) as connection:
    while True:
        connection.cursor().execute("SELECT 1")
        time.sleep(0.1)
"""
SERVERS_CPUS = """
import psutil
from collectors.process_lookup import _server
from collectors.cpu_quota import process_cpus
print(*[process_cpus(p) for pid in psutil.pids() if (p := _server(pid)) is not None])
"""

only_mysql = pytest.mark.parametrize("stack", ["mysql"], indirect=True)


@dataclass(frozen=True)
class Stack:
    """The services of the compose file, as a user would reach them."""

    machine: DockerMachine
    files: tuple[Path, ...]
    variables: dict[str, str]

    def compose(self, *words: str | Path) -> str:
        """Run compose on the project."""
        files = [word for file in self.files for word in ("--file", file)]
        where = ["--project-directory", ROOT, *files]
        return self.machine.compose(*where, *words, variables=self.variables)

    def start(self) -> None:
        """Run the command of the docs; ends when all are healthy."""
        self.compose("up", "--build", "--detach", "--wait", "--wait-timeout", "240")

    def container(self, service: str) -> str:
        """Its container's number."""
        return self.compose("ps", "--all", "--quiet", service)

    def state(self, service: str) -> dict[str, Any]:
        """Its state by `docker inspect`."""
        [answer] = json.loads(self.machine.docker("inspect", self.container(service)))
        return dict(answer)

    def inside(self, service: str, *words: str) -> str:
        """Run a command in its container; its output."""
        return self.machine.docker("exec", self.container(service), *words)

    def metric(self, name: str, **labels: str) -> float | None:
        """One sample of the agent's page; None where there is none, or no page."""
        try:
            page = self.machine.get("http://127.0.0.1:10104/metrics")
        except AssertionError:
            return None
        return next(
            (
                sample.value
                for family in text_string_to_metric_families(page)
                for sample in family.samples
                if sample.name == PREFIX + name and labels.items() <= sample.labels.items()
            ),
            None,
        )

    def asked(self, port: int, path: str) -> Any:
        """The answer of Prometheus or Alertmanager."""
        return json.loads(self.machine.get(f"http://127.0.0.1:{port}{path}"))


@pytest.fixture(scope="module")
def machine(compose: str) -> Iterator[DockerMachine]:
    """A Docker daemon for this file."""
    with DockerMachine(compose) as found:
        yield found
        prune(found)


@pytest.fixture(
    scope="module", params=["mysql", pytest.param("mariadb-11.8", marks=pytest.mark.long)]
)
def stack(
    machine: DockerMachine,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    """All services, on MySQL and with `--long` on MariaDB, with a rule of the test's own."""
    release: Release = request.param
    folder = tmp_path_factory.mktemp("compose")
    base = import_base(machine)
    (password := folder / "password").write_text(PASSWORD)
    password.chmod(0o444)
    (rules := folder / "rules.yml").write_text(RULES)
    (config := folder / "config.yaml").write_text(CONFIG.read_text() + OFTEN)
    (override := folder / "override.yml").write_text(OVERRIDE.format(config=config, rules=rules))
    variables = {
        "BASE_IMAGE": base,
        "MYSQL_IMAGE": build_server(machine, base, release),
        "PROMETHEUS_IMAGE": build_monitor(machine, base, "prometheus"),
        "ALERTMANAGER_IMAGE": build_monitor(machine, base, "alertmanager"),
        "HEADROOM_PASSWORD_FILE": str(password),
    }
    found = Stack(machine, (ROOT / "docker-compose.yml", override), variables)
    try:
        found.start()
        yield found
    except AssertionError as error:
        with suppress(AssertionError):
            error.add_note(found.compose("logs", "--tail", "30"))
        raise
    finally:
        found.compose("down", "--volumes", "--timeout", "20")


def test_every_service_becomes_healthy(stack: Stack) -> None:
    """Each waits for its dependencies, and its own check passes."""
    services = [json.loads(line) for line in stack.compose("ps", "--format", "json").splitlines()]
    assert {service["Service"]: service["Health"] for service in services} == dict.fromkeys(
        ALL, "healthy"
    )
    assert stack.metric("up", target="primary") == 1


def test_the_agent_finds_every_feature_of_the_server(stack: Stack) -> None:
    """`check` in the container finds statements, digests, the server's process and its quota."""
    said = stack.inside(
        "agent", "mysql-headroom", "check", "--config.file", "/etc/mysql-headroom/config.yaml"
    )
    for feature in ("statements", "threads", "digests", "host", "host_quota"):
        assert f"  ok       {feature}\n" in f"{said}\n", said
    assert "missing  host_process_io" in said  # without capabilities, as it should be


@only_mysql
def test_the_servers_cpu_and_quota_are_read(stack: Stack) -> None:
    """A server with a quota of a tenth of a processor is full when it uses that."""

    def used() -> float:
        return stack.metric("resource_utilisation_ratio", resource="server_cpu") or 0.0

    client, server = stack.container("agent"), stack.container("mysql")
    seen = stack.inside("agent", "python", "-c", SERVERS_CPUS)
    assert [float(word) for word in seen.split()] == [os.cpu_count()]
    stack.machine.docker("update", "--cpus", str(QUOTA), server)
    try:
        seen = stack.inside("agent", "python", "-c", SERVERS_CPUS)
        assert [float(word) for word in seen.split()] == [QUOTA]
        stack.machine.docker("exec", "--detach", client, "python", "-c", BUSY_SERVER)
        wait_until("the server's CPU is full", lambda: 0.8 < used() < 1.2, PATIENCE)
    finally:
        stack.machine.docker("update", "--cpus", str(os.cpu_count()), server)


@only_mysql
def test_the_agent_can_write_only_its_history(stack: Stack) -> None:
    """No root, capability or new privilege, and a read-only root, as the kernel shows."""
    status = stack.inside("agent", "cat", "/proc/self/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Uid"].split() == ["10104"] * 4
    assert {int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapInh")} == {0}
    assert fields["NoNewPrivs"] == "1"
    for path in ("/opt/mysql-headroom/x", "/etc/x", "/var/run/mysqld/x", "/sys/fs/cgroup/x"):
        with pytest.raises(AssertionError, match="Read-only file system"):
            stack.inside("agent", "touch", path)
    stack.inside("agent", "touch", "/tmp/x", "/var/lib/mysql-headroom/x")
    assert PASSWORD not in json.dumps(stack.state("agent"))


@only_mysql
def test_prometheus_scrapes_the_agent_and_evaluates_the_rules(stack: Stack) -> None:
    """The target is up, and every alerting rule was evaluated without an error."""

    def healths() -> set[str]:
        groups = stack.asked(9090, "/api/v1/rules")["data"]["groups"]
        return {rule["health"] for group in groups for rule in group["rules"]}

    wait_until("every rule is evaluated", lambda: healths() == {"ok"}, PATIENCE)
    groups = stack.asked(9090, "/api/v1/rules")["data"]["groups"]
    assert "MysqlHeadroomSaturated" in {r["name"] for group in groups for r in group["rules"]}
    [target] = stack.asked(9090, "/api/v1/targets")["data"]["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")


@only_mysql
def test_an_alert_of_prometheus_reaches_alertmanager(stack: Stack) -> None:
    """A rule on the agent's own metric fires, and Alertmanager has it with the target's name."""

    def alerts() -> list[dict[str, str]]:
        found = stack.asked(9093, "/api/v2/alerts")
        return [a["labels"] for a in found if a["labels"]["alertname"] == "TheAgentSeesAServer"]

    [labels] = wait_until("the alert", alerts, PATIENCE)
    assert (labels["target"], labels["job"]) == ("primary", "mysql-headroom")


@only_mysql
def test_the_agent_survives_a_crash_of_the_server(stack: Stack) -> None:
    """The same agent sees the server go and return as another process, and counts the restart."""
    before = stack.state("agent")["State"]["StartedAt"]
    stack.machine.docker("kill", "--signal", "KILL", stack.container("mysql"))
    stack.machine.docker("start", stack.container("mysql"))  # Docker restarts none that it killed

    def again() -> bool:
        return stack.metric("up") == 1 and stack.metric("server_restarts_total") == 1

    wait_until("the server is back", again, PATIENCE)
    assert stack.state("agent")["State"]["StartedAt"] == before
    wait_until("its process", lambda: stack.metric("feature_enabled", feature="host") == 1)


@only_mysql
def test_the_agent_stops_orderly_and_continues_its_history(stack: Stack, tmp_path: Path) -> None:
    """SIGTERM ends it with 0 within seconds; the next one reads its history back."""

    def kept(least: int) -> Callable[[], bool]:
        return lambda: (stack.metric("intervals_kept") or 0) >= least

    container = stack.container("agent")
    stack.machine.docker("exec", "--detach", container, "python", "-c", CLIENT)
    wait_until("some intervals", kept(2), 120)
    began = time.monotonic()
    stack.machine.docker("stop", "--time", "10", container)
    assert time.monotonic() - began < 10
    state = stack.state("agent")["State"]
    assert (state["ExitCode"], state["OOMKilled"]) == (0, False)
    stack.machine.docker("cp", f"{container}:/var/lib/mysql-headroom/.", tmp_path)
    assert is_sound(tmp_path / "history.db")
    assert len(rows(tmp_path / "history.db", INTERVALS)) >= 2
    stack.start()
    wait_until("its window is back", kept(2))
