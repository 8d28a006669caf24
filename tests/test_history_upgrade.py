"""A history of every earlier version is brought up to date, also by one who is killed meanwhile."""

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from history_rows import SETTINGS, batch, everything, filled, is_sound

from agent.assessment.deploy_markers import Marker
from agent.history.marker_table import read_markers
from agent.history.open_database import open_to_read
from agent.history.row_kinds import KINDS, Row
from agent.history.schema import MIGRATIONS, VERSION, version_of
from agent.history.store import Store

HERE = Path(__file__).resolve().parent
FIXTURES = HERE / "fixtures" / "history"
SINCE = {"intervals": 1, "fits": 1, "samples": 2, "classes": 3, "business": 5}
"""The version that brought a kind."""
MARKER, MARKERS_SINCE = Marker(1.7e9, "release 4.2"), 4
VERSIONS = range(1, VERSION + 1)
WRITTEN, LATER = 2, 10  # batches in each file; one that comes after the upgrade


def made_by(version: int, path: Path) -> Path:
    """A file as that version of the tables left it."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((FIXTURES / f"version-{version}.sql").read_text())
    return path


def expected(version: int, folder: Path) -> dict[str, list[Row]]:
    """Every row that the file has, and those of one batch more, as a new file has them."""
    path = filled(folder / "new" / "new.db", WRITTEN)
    old = everything(path)
    path.unlink()
    path = folder / "new" / "later.db"
    store = Store(path, SETTINGS)
    store.put(batch(LATER))
    store.close()
    later = everything(path)
    return {kind: [*(old[kind] if version >= SINCE[kind] else []), *later[kind]] for kind in KINDS}


def tables(path: Path) -> set[tuple[str, str]]:
    """The tables and their columns, whatever the spaces."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        return {(name, " ".join(sql.split())) for name, sql in found}


def is_brought_up_to_date(path: Path, version: int, folder: Path) -> None:
    """Its rows of all kinds are there as before, new ones can be written, and it has our tables."""
    store = Store(path, SETTINGS)
    store.put(batch(LATER))
    store.close()
    assert everything(path) == expected(version, folder)
    with closing(open_to_read(path)) as connection:
        assert read_markers(connection) == ([MARKER] if version >= MARKERS_SINCE else [])
    assert is_sound(path)
    assert tables(path) == tables(filled(folder / "new" / "tables.db", 1))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_of_every_version_is_migrated(tmp_path: Path, version: int) -> None:
    """Intervals, fits, samples and query classes."""
    is_brought_up_to_date(made_by(version, tmp_path / "old" / "old.db"), version, tmp_path)


def test_every_version_has_a_file_to_test() -> None:
    """Whoever adds a migration adds the file that the step before it wrote."""
    assert len(list(FIXTURES.glob("version-*.sql"))) == len(MIGRATIONS)
    assert set(SINCE) == set(KINDS)


def upgrade(path: Path, statement: int) -> int:
    """Have another process bring it up to date and die at that statement; its exit code."""
    command = [sys.executable, str(HERE / "history_upgrader.py"), str(path), str(statement)]
    environment = {"PYTHONPATH": f"{HERE.parent}:{HERE}", "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, env=environment, timeout=60, check=False).returncode


@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_a_killed_migration_leaves_the_former_version(tmp_path: Path, version: int) -> None:
    """At whichever statement: the file is valid, and the next start migrates it."""
    for statement in count(1):
        folder = tmp_path / str(statement)
        folder.mkdir()
        path = made_by(version, folder / "old" / "old.db")
        killed = upgrade(path, statement) == -signal.SIGKILL
        with closing(sqlite3.connect(path)) as connection:
            assert version_of(connection) == (version if killed else VERSION)
        assert is_sound(path)
        is_brought_up_to_date(path, version, folder)
        if not killed:
            break
    assert statement > 6
