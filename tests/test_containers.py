"""The image and the compose file, as far as they can be judged without a Docker daemon.

`test_live_containers.py` runs them.
"""

import fnmatch
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.config.loader import load_config
from testbed.real.server_programs import program

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = ROOT / "deploy/docker/Dockerfile"
COMPOSE_FILE = ROOT / "docker-compose.yml"
PROMETHEUS = ROOT / "deploy/prometheus/prometheus.yml"
AGENT_CONFIG = ROOT / "deploy/docker/config.yaml"
SECRET = "/run/secrets/headroom_password"

EVERY_PROFILE = ("--profile", "*")
COMPOSE: dict[str, Any] = yaml.safe_load(COMPOSE_FILE.read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
each_service = pytest.mark.parametrize("name", sorted(SERVICES))


def validate(compose: str, file: Path) -> subprocess.CompletedProcess[str]:
    """Have compose judge a file; this needs no daemon."""
    return subprocess.run(
        [compose, "--project-directory", ROOT, "--file", file, *EVERY_PROFILE, "config", "--quiet"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def instructions(keyword: str) -> list[str]:
    """The arguments of every such instruction of the Dockerfile's last stage, unfolded."""
    unfolded = DOCKERFILE.read_text().replace("\\\n", " ")
    last_stage = re.split(r"^FROM ", unfolded, flags=re.MULTILINE)[-1]
    return re.findall(rf"^{keyword} +(.*)$", last_stage, re.MULTILINE)


def mounts(name: str) -> dict[str, str]:
    """The files of the checkout that a service sees: path inside to path here, all read-only."""
    found = {}
    for volume in SERVICES[name]["volumes"]:
        source, inside, *mode = volume.split(":")
        if source.startswith("./"):
            assert mode == ["ro"], volume
            found[inside] = source
    return found


def test_hadolint_finds_nothing() -> None:
    """The Dockerfile passes its linter."""
    hadolint = program("hadolint", first=Path(sys.executable).parent)
    result = subprocess.run(
        [hadolint, DOCKERFILE], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_compose_accepts_the_file(compose: str) -> None:
    """The compose file is valid and causes no warning."""
    result = validate(compose, COMPOSE_FILE)
    assert (result.returncode, result.stderr) == (0, "")


def test_compose_would_refuse_a_misspelt_key(compose: str, tmp_path: Path) -> None:
    """So that the check above can fail."""
    broken = tmp_path / "broken.yml"
    broken.write_text(COMPOSE_FILE.read_text().replace("restart:", "restrat:"))
    assert "restrat" in validate(compose, broken).stderr


def test_the_compose_file_has_no_obsolete_version() -> None:
    """Compose v2 warns about a `version:` key."""
    assert "version" not in COMPOSE


@each_service
def test_dependent_services_wait_for_health(name: str) -> None:
    """Every dependency has a condition on health, and a health check."""
    for needed, how in SERVICES[name].get("depends_on", {}).items():
        assert how["condition"] == "service_healthy"
        assert "healthcheck" in SERVICES[needed]


def test_the_order_of_the_start_is_server_agent_prometheus() -> None:
    """The agent waits for the server, Prometheus for the agent and for Alertmanager."""
    assert list(SERVICES["agent"]["depends_on"]) == ["mysql"]
    assert list(SERVICES["prometheus"]["depends_on"]) == ["agent", "alertmanager"]


@each_service
def test_mounts_exist_and_are_read_only(name: str) -> None:
    """A mount of a missing file would become an empty directory."""
    for source in mounts(name).values():
        assert (ROOT / source).is_file(), source


@each_service
def test_ports_are_published_to_this_machine_only(name: str) -> None:
    """The example opens no port to the network."""
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


def test_the_agent_runs_without_privileges() -> None:
    """No capabilities, no new privileges, a read-only root and configuration."""
    agent = SERVICES["agent"]
    assert agent["read_only"] is True
    assert agent["cap_drop"] == ["ALL"]
    assert agent["security_opt"] == ["no-new-privileges:true"]
    assert mounts("agent")["/etc/mysql-headroom/config.yaml"] == "./deploy/docker/config.yaml"


def test_the_password_is_a_compose_secret() -> None:
    """Creation and use of the account read one secret, which is in no file here."""
    file = "${HEADROOM_PASSWORD_FILE:-./secrets/headroom_password}"
    assert COMPOSE["secrets"] == {"headroom_password": {"file": file}}
    assert "secrets/" in (ROOT / ".gitignore").read_text().splitlines()
    for name in ("mysql", "agent"):
        assert SERVICES[name]["secrets"] == ["headroom_password"]
        assert "HEADROOM_PASSWORD" not in str(SERVICES[name])
    assert "assword" not in DOCKERFILE.read_text()
    assert SECRET in (ROOT / "deploy/docker/mysql-init.sh").read_text()


def test_the_agents_configuration_is_valid(tmp_path: Path) -> None:
    """The agent accepts the mounted configuration; the socket is in a shared volume."""
    text = AGENT_CONFIG.read_text()
    assert f"password_file: {SECRET}\n" in text
    password = tmp_path / "password"
    password.write_text("secret")
    file = tmp_path / "config.yaml"
    file.write_text(text.replace(SECRET, str(password)))
    config = load_config(file)
    assert config.listen == "0.0.0.0:10104"
    [target] = config.targets
    assert target.socket == "/var/run/mysqld/mysqld.sock"
    assert "mysql-socket:/var/run/mysqld" in SERVICES["mysql"]["volumes"]
    assert "mysql-socket:/var/run/mysqld:ro" in SERVICES["agent"]["volumes"]


def test_prometheus_scrapes_the_agent_and_loads_the_rules() -> None:
    """Its configuration has the agent's service and port, and the mounted rules."""
    config = yaml.safe_load(PROMETHEUS.read_text())
    (job,) = config["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["agent:10104"]}]
    inside = mounts("prometheus")
    (pattern,) = config["rule_files"]
    (rules,) = [path for path in inside if fnmatch.fnmatch(path, pattern)]
    assert inside[rules] == "./deploy/prometheus/mysql-headroom.rules.yml"


def test_grafana_shows_the_dashboards_of_that_prometheus() -> None:
    """Only if asked for; it has the data source and both dashboards where it looks for them."""
    inside = {path: ROOT / source for path, source in mounts("grafana").items()}
    folder = "/etc/grafana/provisioning"
    [source] = yaml.safe_load(inside[f"{folder}/datasources/mysql-headroom.yml"].read_text())[
        "datasources"
    ]
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    assert SERVICES["prometheus"]["ports"] == ["127.0.0.1:9090:9090"]
    [provider] = yaml.safe_load(inside[f"{folder}/dashboards/mysql-headroom.yml"].read_text())[
        "providers"
    ]
    found = {s for path, s in inside.items() if path.startswith(f"{provider['options']['path']}/")}
    assert found == set((ROOT / "deploy/grafana").glob("*.json"))
    assert SERVICES["grafana"]["profiles"] == ["grafana"]
    assert "profiles" not in SERVICES["prometheus"]


def test_the_image_runs_as_a_numeric_user() -> None:
    """Not root, so that orchestrators can check it."""
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", instructions("USER")[-1])


def test_the_image_sets_the_agents_environment() -> None:
    """No import from the working directory, one thread for linear algebra."""
    (settings,) = instructions("ENV")
    assert {"PYTHONSAFEPATH=1", "OPENBLAS_NUM_THREADS=1"} <= set(settings.split())


def test_the_image_starts_the_agent_without_a_shell() -> None:
    """The agent receives the signals itself, and its health check is over HTTP."""
    assert instructions("ENTRYPOINT") == ['["mysql-headroom"]']
    assert instructions("CMD")[-1].startswith('["run", "--config.file", ')
    (check,) = instructions("HEALTHCHECK")
    assert "/-/healthy" in check


def test_the_base_image_is_a_build_argument() -> None:
    """Of every stage."""
    text = DOCKERFILE.read_text()
    assert "\nARG BASE_IMAGE=python:3.12-slim\n" in text
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE_IMAGE}"}


def test_the_build_context_has_only_what_is_copied() -> None:
    """Only what the Dockerfile copies."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE.read_text(), re.MULTILINE)
    named = {name.rstrip("/") for names in copied for name in names.split()}
    assert {line[1:] for line in lines if line.startswith("!")} == named


def test_the_image_installs_locked_versions() -> None:
    """Each library is checked against its hash, and no other is resolved."""
    text = DOCKERFILE.read_text()
    installs = re.findall(r"bin/pip install (.*)$", text, re.MULTILINE)
    options = "--no-cache-dir --no-deps"
    assert installs == [f"{options} --require-hashes -r requirements.lock", f"{options} ."]


def test_the_init_script_is_sourced() -> None:
    """MySQL's entrypoint runs an executable script in a shell that lacks its functions."""
    assert not (ROOT / "deploy/docker/mysql-init.sh").stat().st_mode & stat.S_IXUSR
