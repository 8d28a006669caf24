"""Where the account comes from, and that its password never shows."""

import os
from pathlib import Path

import pytest

from agent.config.credentials import Credentials, client_options, option_value
from collectors.base import CollectorError, FailureKind


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("secret", "secret"),
        ("  secret  ", "secret"),
        ("'with space '", "with space "),
        ('"a#b"', "a#b"),
        ("a#b", "a"),
        ("'it''s'", "it''s"),
        (r'"say \"hi\""', 'say "hi"'),
        (r"tab\there", "tab\there"),
        (r"back\\slash", "back\\slash"),
        (r"odd\q", r"odd\q"),
        ("'open", "'open"),
        ('"#" # comment', "#"),
        ("", ""),
        ("pässwörd", "pässwörd"),
    ],
)
def test_an_option_file_is_read_as_mysql_reads_it(written: str, meant: str) -> None:
    """Quotes, escapes and comments of a my.cnf mean the same as to the client."""
    assert option_value(written) == meant


def test_only_the_client_group_counts(tmp_path: Path) -> None:
    """Other groups, includes, flags without a value and comments are skipped."""
    path = tmp_path / "my.cnf"
    path.write_text(
        "# all\n!includedir /etc/x\n[mysqld]\nport=1\n[client]\nuser=u\nssl_ca = /ca\nquick\n"
        "; no\n[client2]\nuser=v\n[client]\npassword='p#1'\n"
    )
    assert client_options(path) == {"user": "u", "ssl-ca": "/ca", "quick": "", "password": "p#1"}


def test_the_password_is_read_again_at_every_login(tmp_path: Path) -> None:
    """A rotated password is used at the next connect, without a restart."""
    path = tmp_path / "password"
    path.write_text("old\n")
    credentials = Credentials(user="u", password_file=path)
    assert credentials.login().password == "old"
    path.write_text(" new with spaces \n")
    assert credentials.login().password == " new with spaces "


def test_the_password_may_come_from_the_environment_or_a_my_cnf(tmp_path: Path) -> None:
    """Each source gives the account; the file's user may be overridden."""
    environment = {"HEADROOM": "secret"}
    from_env = Credentials(user="u", password_env="HEADROOM", environment=environment)
    assert from_env.login().password == "secret"
    path = tmp_path / "my.cnf"
    path.write_text("[client]\nuser=v\npassword=x\n")
    assert Credentials(defaults_file=path).login().user == "v"
    assert Credentials(user="u", defaults_file=path).login().user == "u"


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_final_newline_is_no_part_of_a_password(tmp_path: Path, end: str) -> None:
    """Editors append one to a file, and a BOM before it, heredocs to a variable's value."""
    path = tmp_path / "password"
    path.write_bytes(f" secret {end}".encode())
    from_env = Credentials(password_env="P", environment={"P": f" secret {end}"})
    assert from_env.login().password == " secret "
    assert Credentials(password_file=path).login().password == " secret "
    path.write_bytes(f"\ufeff secret {end}".encode())
    assert Credentials(password_file=path).login().password == " secret "


@pytest.mark.parametrize("source", ["password_file", "defaults_file"])
@pytest.mark.parametrize("kind", ["fifo", "device", "endless", "folder"])
def test_a_source_that_is_no_small_regular_file_is_refused_at_once(
    tmp_path: Path, source: str, kind: str
) -> None:
    """A login at every connect must not block, nor take much memory."""
    path = tmp_path / "source"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(2**40)
    with pytest.raises(CollectorError, match=r"^no password: ") as caught:
        Credentials(**{"user": "u", source: path}).login()  # type: ignore[arg-type]
    assert caught.value.kind is FailureKind.DENIED


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"", b"\n"])
def test_an_unreadable_source_is_a_denied_login(tmp_path: Path, content: bytes | None) -> None:
    """A missing or empty password file is reported like a wrong password, not as a defect."""
    path = tmp_path / "password"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CollectorError, match=r"^no password: ") as caught:
        Credentials(user="u", password_file=path).login()
    assert caught.value.kind is FailureKind.DENIED


def test_no_repr_shows_a_password(tmp_path: Path) -> None:
    """A login or its sources may be logged or printed."""
    path = tmp_path / "password"
    path.write_text("hunter2")
    credentials = Credentials(user="u", password_file=path, environment={"X": "hunter2"})
    assert "hunter2" not in repr(credentials) + repr(credentials.login()) + str(credentials.login())
