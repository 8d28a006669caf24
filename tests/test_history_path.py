"""Whether a history can be written at its path, as `check` tells it without writing anything."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from disks import remount, small_disk

from agent.history.history_file import FILE_NAME, path_problem
from testbed.real.daemon import is_root

NOBODY = 65534


def test_a_private_folder_is_usable(tmp_path: Path) -> None:
    """Also one that does not exist yet; nothing is created."""
    tmp_path.chmod(0o700)
    assert path_problem(tmp_path / FILE_NAME) is None
    assert path_problem(tmp_path / "data" / FILE_NAME) is None
    assert list(tmp_path.iterdir()) == []


def test_each_obstacle_to_a_history_is_reported(tmp_path: Path) -> None:
    """A missing folder, one that others may write into, a file of another kind."""
    tmp_path.chmod(0o700)
    missing = path_problem(tmp_path / "no" / "such" / FILE_NAME)
    assert missing is not None
    assert missing.startswith(f"{tmp_path / 'no'}: no such folder; create it")
    foreign = tmp_path / "notes.txt"
    foreign.write_text("not a history, but more than sixteen bytes\n")
    told = path_problem(foreign)
    assert told is not None
    assert "this file is not a history and was not changed" in told
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    exposed = path_problem(shared / FILE_NAME)
    assert exposed is not None
    assert "other users may write into this folder" in exposed
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    told = path_problem(folder)
    assert told == f"{folder}: it is a directory; name the file in it, as {folder / FILE_NAME}"


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    """Before the agent cannot write there."""
    folder = tmp_path / "disk"
    with small_disk(folder, "3m"):
        assert path_problem(folder / FILE_NAME) is None
        (folder / "other").write_bytes(bytes(5 * 2**19))
        expected = f"{folder}: less than 1 MiB is free on its disk; free space on it"
        assert path_problem(folder / FILE_NAME) == expected


def test_a_read_only_disk_is_reported(tmp_path: Path) -> None:
    """As `run` reports it: another user could not write there either."""
    folder = tmp_path / "disk"
    with small_disk(folder, "3m"):
        remount(folder, "ro")
        expected = f"{folder}: Read-only file system; choose a path on a writable file system"
        assert path_problem(folder / FILE_NAME) == expected
        assert path_problem(folder / "data" / FILE_NAME) == expected


@pytest.mark.parametrize(
    ("mode", "told"),
    [(0o755, "this user may not write into this folder"), (0o700, "cannot be read (Permission")],
)
def test_a_folder_of_another_user_is_reported(mode: int, told: str) -> None:
    """The check is to be run as the user who runs the agent."""
    if not is_root():
        pytest.skip("only root becomes another user")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(mode)
        with another_user():
            problem = path_problem(folder / "data" / FILE_NAME)
    assert problem is not None
    assert told in problem


@contextmanager
def another_user() -> Iterator[None]:
    """Let this process be an unprivileged user inside."""
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
