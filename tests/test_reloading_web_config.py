"""The web configuration in force: from the command line to a scrape, and what a change does."""

import base64
import logging
import os
import socket
import ssl
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from test_web_config import folder as folder
from web_clients import (
    Authority,
    ask,
    eventually,
    listening,
    password_hash,
    saying,
    snapshot,
    written,
)

from agent.web import reloading_config as web_file
from agent.web.config import TlsServerConfig
from agent.web.reloading_config import WebConfigFile

HASH = password_hash("hunter2")
TLS = {"cert_file": "server.crt", "key_file": "server.key"}


def test_a_change_counts_from_the_next_connection(tmp_path: Path) -> None:
    """Neither restart nor signal is needed."""
    file = WebConfigFile(written(tmp_path, http_server_config={"http2": False}))
    with listening(snapshot(True), settings=file) as server:
        assert ask(server.server_port)[0] == 200
        written(tmp_path, basic_auth_users={"alice": HASH})
        assert ask(server.server_port)[0] == 401
        headers = {"X-XSS-Protection": "0"}
        changed = {"basic_auth_users": {"bob": HASH}, "http_server_config": {"headers": headers}}
        written(tmp_path, **changed)
        assert ask(server.server_port)[1]["X-XSS-Protection"] == "0"
    assert (file.broken, file.failures) == (False, 0)


def test_an_invalid_file_keeps_the_former_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistake neither opens the pages nor fills the log."""
    caplog.set_level(logging.INFO)
    file = WebConfigFile(written(tmp_path, basic_auth_users={"alice": HASH}))
    with listening(snapshot(True), settings=file) as server:
        saying(tmp_path, "basic_auth_users: {alice: hunter2}\n")
        for _ in range(5):
            assert ask(server.server_port)[0] == 401
        assert (file.broken, file.failures) == (True, 1)
        assert caplog.text.count("web configuration refused") == 1
        assert "hunter2" not in caplog.text
        written(tmp_path, basic_auth_users={"bob": HASH})
        assert ask(server.server_port)[0] == 401
    assert (file.broken, file.failures) == (False, 1)
    assert caplog.text.count("web configuration reloaded") == 1


@pytest.mark.parametrize("left", ["TLS", "users", "client certificates", "client names"])
def test_a_change_cannot_remove_protection(folder: Path, left: str) -> None:
    """A truncated file opens nothing; only a restart does."""
    clients = {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "clients.crt"}
    full: dict[str, object] = {
        "tls_server_config": {**TLS, **clients, "client_allowed_sans": ["a"]},
        "basic_auth_users": {"alice": HASH},
    }
    less = {
        "TLS": {"basic_auth_users": full["basic_auth_users"]},
        "users": {"tls_server_config": full["tls_server_config"]},
        "client certificates": full | {"tls_server_config": TLS},
        "client names": full | {"tls_server_config": {**TLS, **clients}},
    }
    file = WebConfigFile(written(folder, **full))
    before = file().protections
    written(folder, **less[left])
    assert file().protections == before
    assert file.broken


def test_a_named_file_that_appears_later_is_picked_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new configuration may name files that are created after it."""
    monkeypatch.setattr(web_file, "RETRY_SECONDS", 0.0)
    file = WebConfigFile(written(folder, tls_server_config=TLS))
    written(folder, tls_server_config={"cert_file": "new.crt", "key_file": "new.key"})
    assert file().config.tls_server_config == TlsServerConfig.validated(TLS)
    assert file.broken
    Authority(folder).issue("new", "127.0.0.1")
    assert file().files[1] == folder / "new.crt"
    assert not file.broken


def test_a_change_with_the_same_mtime_is_detected(tmp_path: Path) -> None:
    """Some tools set the time back, and the size may be the same."""
    path = written(tmp_path, basic_auth_users={"alice": HASH})
    file = WebConfigFile(path)
    file()
    before = path.stat()
    path.write_text(path.read_text().replace("alice", "carol"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert list(file().config.basic_auth_users) == ["carol"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with a server that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path = tmp_path / "config.yaml"
    path.write_text(f"listen: 127.0.0.1:{port}\ntargets: [{{name: a, user: u, port: 1}}]\n")
    return path


def command_with(config: Path, web: Path, name: str = "run") -> list[str]:
    """The command line of a command with both files."""
    files = ["--config.file", str(config), "--web.config.file", str(web)]
    return [sys.executable, "-m", "agent.cli", name, *files]


def ended(command: list[str]) -> "subprocess.CompletedProcess[str]":
    """The command, when it has ended."""
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", ["run", "check"])
def test_no_command_continues_with_an_invalid_file(name: str, config: Path) -> None:
    """Mistakes in either file are listed together, with exit code 2."""
    config.write_text("listen: nowhere\n")
    web = saying(config.parent, "basic_auth_users: {alice: hunter2}\n")
    done = ended(command_with(config, web, name))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"mysql-headroom: {config}:1: targets: missing" in done.stderr
    assert f"mysql-headroom: {web}:1: basic_auth_users.alice: is not a bcrypt" in done.stderr
    assert "hunter2" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"tls_server_config": TLS, "basic_auth_users": {"alice": HASH}}, "TLS, users"),
        ({"http_server_config": {"http2": False}}, "no authentication and no TLS"),
    ],
)
def test_check_describes_a_valid_web_configuration(
    sections: dict[str, object], told: str, config: Path, folder: Path
) -> None:
    """Then it tests the targets."""
    web = written(folder, **sections)
    done = ended(command_with(config, web, "check"))
    assert done.stdout.startswith(f"{web} (web pages)\n  ok       {told}\na (127.0.0.1:1)\n")
    assert (done.returncode, done.stderr) == (1, "")


def test_the_daemon_serves_by_the_web_configuration(config: Path, folder: Path) -> None:
    """TLS, a user and a header, from the command line to the scrape."""
    headers = {"Strict-Transport-Security": "max-age=60"}
    sections: dict[str, object] = {
        "tls_server_config": TLS,
        "http_server_config": {"headers": headers},
        "basic_auth_users": {"alice": HASH},
    }
    port = int(config.read_text().split("\n")[0].rpartition(":")[2])
    client = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    right = "Basic " + base64.b64encode(b"alice:hunter2").decode()

    def is_up() -> bool:
        with suppress(OSError):
            return ask(port, tls=client)[0] == 401
        return False

    def scraped() -> str:
        return ask(port, "/metrics", tls=client, Authorization=right)[2]

    command = command_with(config, written(folder, **sections))
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as daemon:
        try:
            assert eventually(is_up)
            status, found, body = ask(port, "/metrics", tls=client, Authorization=right)
            assert (status, found["Strict-Transport-Security"]) == (200, "max-age=60")
            assert "mysql_headroom_build_info" in body
            assert "mysql_headroom_web_config_last_reload_successful 1.0" in body
            (folder / "web.yml").write_text("basic_auth_users: {alice: nothing}")
            refused = "mysql_headroom_web_config_failures_total 1.0"
            assert eventually(lambda: refused in scraped())  # the answer before is shared a moment
            assert "mysql_headroom_web_config_last_reload_successful 0.0" in scraped()
        finally:
            daemon.terminate()
            said = daemon.communicate(timeout=60)[1]
    assert daemon.returncode == 0
    assert HASH not in said
