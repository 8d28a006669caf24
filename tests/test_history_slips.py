"""A path that names somebody else's file by a slip: that file stays as it is, down to its mode."""

import logging
import os
from contextlib import closing
from pathlib import Path

import pytest
from history_rows import SETTINGS, batch, filled, interval, rows

from agent.cli import main
from agent.history.failures import StoreFailure
from agent.history.history_file import Lock
from agent.history.open_database import open_to_write
from agent.history.row_access import insert_rows
from agent.history.row_kinds import INTERVALS
from agent.history.store import Store

OTHERS = {
    "hosts": b"127.0.0.1 localhost\n",
    "rows.csv": b"time,throughput\n1,2\n" * 1000,
    "tiny": b"{}",
    "image.png": b"\x89PNG\r\n\x1a\n" + bytes(9000),
    "zeroes": bytes(8192),
}
REMEDY = "this file is not a history and was not changed; set another path under `history`"


def looks(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """What is in a folder: modes, times and contents."""
    return {
        file.name: (file.stat().st_mode, file.stat().st_mtime_ns, file.read_bytes())
        for file in folder.iterdir()
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that nobody else may write into."""
    made = tmp_path / "etc"
    made.mkdir(mode=0o755)
    return made


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_of_another_kind_is_not_changed(
    name: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once with path and remedy; a history is created when the path is free."""
    path = folder / name
    path.write_bytes(OTHERS[name])
    path.chmod(0o644)
    before = looks(folder)
    store = Store(path, SETTINGS)
    store.put(batch(0))
    for minute in (1, 2, 3):
        store.tick(60.0 * minute)
    assert looks(folder) == before
    assert store.state.failures == {StoreFailure.FOREIGN: 3}
    assert store.state.corrupt_files == 0
    said = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert len(said) == 1
    assert f"{path}: {REMEDY}" in said[0].message
    path.rename(folder.parent / name)
    store.tick(240.0)
    store.close()
    assert rows(path, INTERVALS) == [interval(0)]


@pytest.mark.parametrize(("lock", "mode"), [(b"GEM\n  specs:\n", 0o600), (b"", 0o644)])
def test_another_programs_lock_file_does_not_make_the_file_ours(
    lock: bytes, mode: int, folder: Path
) -> None:
    """Such as a list of locked versions: an agent's lock is empty and private."""
    path, beside = folder / "Gemfile", folder / "Gemfile.lock"
    path.write_bytes(b"source 'https://rubygems.org'\n")
    beside.write_bytes(lock)
    beside.chmod(mode)
    before = looks(folder)
    store = Store(path, SETTINGS)
    store.put(batch(0))
    store.tick(60.0)
    store.close()
    assert looks(folder) == before
    assert store.state.corrupt_files == 0
    assert set(store.state.failures) == {StoreFailure.FOREIGN}


def test_no_command_changes_a_file_of_another_kind(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even its mode."""
    path = folder / "hosts"
    path.write_bytes(OTHERS["hosts"])
    path.chmod(0o644)
    exported = folder / "exported.csv"
    filled(folder.parent / "state" / "history.db", 1)
    file = str(folder.parent / "state" / "history.db")
    assert main(["history", "export", "--file", file, "-o", str(exported)]) == 0
    before = looks(folder)
    assert main(["history", "import", str(exported), "--file", str(path)]) == 1
    assert capsys.readouterr().err == f"mysql-headroom: {path}: {REMEDY}\n"
    assert looks(folder) == before


def without_its_beginning(path: Path, *, with_log: bool) -> Path:
    """A history whose first page is noise, with the log of its life beside it or without."""
    Store(path, SETTINGS).close()
    lock = Lock(path)
    lock.take()
    with closing(open_to_write(path)) as connection:
        insert_rows(connection, INTERVALS, [interval(0)])
        of_that_life = path.with_name(f"{path.name}-wal").read_bytes()
    lock.release()
    with path.open("r+b") as file:
        file.write(os.urandom(4096))
    if with_log:
        path.with_name(f"{path.name}-wal").write_bytes(of_that_life)
    return path


def next_life(path: Path) -> Store:
    """Another interval, and the end."""
    store = Store(path, SETTINGS)
    store.put(batch(1))
    store.tick(1.0)
    store.close()
    return store


def test_a_history_without_a_header_is_recognised_by_its_lock(folder: Path) -> None:
    """Whatever its name, an empty one replaces it."""
    path = without_its_beginning(folder / "of-the-agent", with_log=False)
    store = next_life(path)
    assert store.state.corrupt_files == 1
    assert rows(path, INTERVALS) == [interval(1)]
    assert list(folder.glob("of-the-agent.corrupt-*"))


def test_a_history_without_a_header_is_recognised_by_its_log(folder: Path) -> None:
    """The log has the pages not yet in the file, the first one too: nothing is lost."""
    path = without_its_beginning(folder / "of-the-agent", with_log=True)
    (folder / "of-the-agent.lock").unlink()
    store = next_life(path)
    assert store.state.corrupt_files == 0
    assert rows(path, INTERVALS) == [interval(0), interval(1)]
