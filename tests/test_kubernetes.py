"""The Kubernetes manifest: by the published schema, the agent's own rules, and its promises."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.config.loader import load_config
from testbed.real.server_programs import ROOT

MANIFEST = ROOT / "deploy/kubernetes/mysql-with-headroom.yaml"
VERSIONS = ("1.29", "1.37")  # the oldest that we name, and the newest whose schema there is
DOCUMENTS: list[dict[str, Any]] = list(yaml.load_all(MANIFEST.read_text(), Loader=yaml.CSafeLoader))
BY_KIND = {document["kind"]: document for document in DOCUMENTS}
COMPOSE = yaml.load((ROOT / "docker-compose.yml").read_text(), Loader=yaml.CSafeLoader)["services"]

each_version = pytest.mark.parametrize("version", VERSIONS)


def pod() -> dict[str, Any]:
    """The pod that the StatefulSet makes."""
    return dict(BY_KIND["StatefulSet"]["spec"]["template"]["spec"])


def container(name: str) -> dict[str, Any]:
    """One of its containers."""
    [found] = [container for container in pod()["containers"] if container["name"] == name]
    return dict(found)


def complaint(document: dict[str, Any], version: str) -> str:
    """What the published schema refuses of a document; nothing of a good one."""
    from kubernetes_validate import ValidationError, validate

    try:
        validate(document, version, strict=True)
    except ValidationError as error:
        return str(error)
    return ""


@each_version
@pytest.mark.parametrize("kind", sorted(BY_KIND))
def test_the_published_schema_accepts_the_manifest(version: str, kind: str) -> None:
    """Every field is known to Kubernetes, with a value of its type."""
    assert complaint(BY_KIND[kind], version) == ""


def broken(path: str, value: object) -> dict[str, Any]:
    """The StatefulSet, with one field of the agent's container set."""
    changed = copy.deepcopy(BY_KIND["StatefulSet"])
    place = changed["spec"]["template"]["spec"]["containers"][1]
    *folders, last = path.split(".")
    for name in folders:
        place = place[name]
    place[last] = value
    return changed


@each_version
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("securityContext.readOnlyRootFileSystem", True),
        ("livenessProb", {}),
        ("resources.limit", {"memory": "1Gi"}),
        ("livenessProbe.periodSeconds", "often"),
        ("securityContext.capabilities.drop", "ALL"),
    ],
)
def test_the_schema_would_refuse_a_mistake(version: str, path: str, value: object) -> None:
    """A misspelt field, or one of another type."""
    assert complaint(broken(path, value), version)


def test_the_agent_accepts_its_configuration(tmp_path: Path) -> None:
    """The file in the ConfigMap is valid, and so are its paths."""
    text = BY_KIND["ConfigMap"]["data"]["config.yaml"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container("headroom")["volumeMounts"]}
    assert mounts["/etc/mysql-headroom/secret"] == "password"
    (password := tmp_path / "password").write_text("secret")
    file = tmp_path / "config.yaml"
    file.write_text(text.replace("/etc/mysql-headroom/secret/password", str(password)))
    config = load_config(file)
    [target] = config.targets
    assert target.socket == "/var/run/mysqld/mysqld.sock"
    assert mounts["/var/run/mysqld"] == "socket"
    assert config.listen.endswith(":10104")
    assert config.history.path == Path("/var/lib/mysql-headroom/own/history.db")
    assert mounts["/var/lib/mysql-headroom"] == "history"


def test_the_configuration_differs_from_composes_by_password_log_and_history_only() -> None:
    """The containers' tests run what the pod runs."""
    ours = yaml.safe_load(BY_KIND["ConfigMap"]["data"]["config.yaml"])
    theirs = yaml.safe_load((ROOT / "deploy/docker/config.yaml").read_text())
    for config in (ours, theirs):
        del config["targets"][0]["password_file"], config["log"], config["history"]
    assert ours == theirs
    assert container("mysql")["args"] == COMPOSE["mysql"]["command"]


def test_the_agent_runs_without_privileges() -> None:
    """Not root, a read-only root file system, no capability, the runtime's seccomp profile."""
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod()["automountServiceAccountToken"] is False
    own = container("headroom")["securityContext"]
    assert own["runAsUser"] == own["runAsGroup"] == 10104
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    for each in pod()["containers"]:
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_agent_can_see_the_servers_process() -> None:
    """One process namespace, the socket in a volume of both, and no quota that it cannot see."""
    assert pod()["shareProcessNamespace"] is True
    for name in ("mysql", "headroom"):
        mounts = {mount["name"]: mount["mountPath"] for mount in container(name)["volumeMounts"]}
        assert mounts["socket"] == "/var/run/mysqld"
    assert "cpu" not in container("mysql")["resources"]["limits"]


def test_every_referenced_volume_and_port_exists() -> None:
    """The schema cannot compare names."""
    claims = BY_KIND["StatefulSet"]["spec"]["volumeClaimTemplates"]
    known = {volume["name"] for volume in pod()["volumes"]}
    known |= {claim["metadata"]["name"] for claim in claims}
    for each in pod()["containers"]:
        assert {mount["name"] for mount in each["volumeMounts"]} <= known
        ports = {port["name"] for port in each["ports"]}
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            if "httpGet" in each.get(probe, {}):
                assert each[probe]["httpGet"]["port"] in ports
    annotations = BY_KIND["StatefulSet"]["spec"]["template"]["metadata"]["annotations"]
    assert int(annotations["prometheus.io/port"]) == 10104
    labels = BY_KIND["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert BY_KIND["StatefulSet"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert BY_KIND["Service"]["spec"]["selector"].items() <= labels.items()
