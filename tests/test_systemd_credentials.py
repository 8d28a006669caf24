"""Files that systemd hands over: the copy is read where there is one, and only for its own file."""

import json
from pathlib import Path

import pytest
from web_clients import Authority

from agent.config import systemd_credentials
from agent.config.settings import Target
from agent.config.systemd_credentials import readable_path
from agent.web.reloading_config import load_web_config


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the configuration, with the copy of one of its files handed over."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "credentials").mkdir()
    (tmp_path / "etc/password").write_text("root's")
    (tmp_path / "credentials/password").write_text("copy")
    monkeypatch.setattr(systemd_credentials, "CREDENTIAL_FOLDER", tmp_path / "etc")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "credentials"))
    return tmp_path / "etc"


def test_the_credential_copy_of_a_file_is_read(folder: Path) -> None:
    """A target's password comes from systemd's copy of the file that it names."""
    target = Target.validated({"name": "a", "password_file": folder / "password"})
    assert target.credentials.login().password == "copy"


def test_the_credential_copy_of_the_client_authority_is_read(folder: Path) -> None:
    """Like those of key and certificate, where only root may read the file itself."""
    authority, copies = Authority(folder, "clients"), folder.parent / "credentials"
    certificate, key = authority.issue("server", "127.0.0.1")
    authority.file.rename(copies / authority.file.name)
    authority.file.write_text("root's")
    tls = {
        "cert_file": str(certificate),
        "key_file": str(key),
        "client_auth_type": "RequireAndVerifyClientCert",
        "client_ca_file": str(authority.file),
    }
    web = folder / "web-config.yml"
    web.write_text(json.dumps({"tls_server_config": tls}))
    assert "client certificates" in load_web_config(web).protections


def test_without_systemd_the_file_itself_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So root may check the same configuration at any time."""
    monkeypatch.delenv("CREDENTIALS_DIRECTORY")
    assert readable_path(folder / "password") == folder / "password"


def test_another_file_of_the_same_name_is_read_itself(folder: Path) -> None:
    """No password goes to another server: the copy counts only for its own file."""
    elsewhere = folder / "second/password"
    for path in (elsewhere, folder / "other", Path("password")):
        assert readable_path(path) == path
