"""Files that systemd hands over: the copy is read where there is one, and only for its own file."""

from pathlib import Path

import pytest

from agent.config import systemd_credentials
from agent.config.settings import Target
from agent.config.systemd_credentials import readable_path


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


def test_the_copy_of_a_file_is_read(folder: Path) -> None:
    """A target's password comes from the copy that systemd made of the file it names."""
    target = Target.validated({"name": "a", "password_file": folder / "password"})
    assert target.credentials.login().password == "copy"


def test_without_systemd_the_file_itself_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So root may check the same configuration at any time."""
    monkeypatch.delenv("CREDENTIALS_DIRECTORY")
    assert readable_path(folder / "password") == folder / "password"


def test_another_file_of_that_name_is_not_mistaken_for_it(folder: Path) -> None:
    """No password goes to another server: files elsewhere and those without a copy stay."""
    elsewhere = folder / "second/password"
    for path in (elsewhere, folder / "other", Path("password")):
        assert readable_path(path) == path
