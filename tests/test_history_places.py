"""`mysql-headroom history` at a place that holds none: each is told with what to do about it."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from history_rows import filled
from unprivileged_user import NOBODY, as_unprivileged_user, world_readable_folder

from agent.cli import main
from agent.history.row_kinds import INTERVALS
from agent.history.text.csv_format import as_csv
from testbed.real.daemon import is_root

NO_HISTORY = "file is not a database; this is not a history: check the path"
DENIED = "Permission denied; run this as the agent's user or root: the file is private"
FOREIGN = "this database is not a history; set another path under `history`"


def nothing(place: Path) -> None:
    """There is not even a file."""


def noise(place: Path) -> None:
    """Random bytes."""
    place.write_bytes(os.urandom(8192))


def of_another_user(place: Path) -> None:
    """A database, but none of ours."""
    connection = sqlite3.connect(place)
    connection.execute("CREATE TABLE customers (name TEXT)")
    connection.close()


PLACES = [
    (
        nothing,
        "there is no history at this path; check it: the agent creates the file when it runs",
        None,
    ),
    (Path.touch, "this file is empty; check the path: the agent fills it when it runs", None),
    (noise, NO_HISTORY, NO_HISTORY),
    (Path.mkdir, "this is a folder; name the file in it", "Is a directory; name the file in it"),
    (
        os.mkfifo,
        "this is not a regular file; check the path",
        "this is not a regular file; check the path",
    ),
    (of_another_user, FOREIGN, FOREIGN),
]


@pytest.mark.parametrize(
    ("make", "told", "told_by_import"), PLACES, ids=[make.__name__ for make, _, _ in PLACES]
)
def test_a_path_without_a_history_is_reported(
    make: Callable[[Path], None],
    told: str,
    told_by_import: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line with the path and the remedy; an import creates a history where nothing is."""
    place, rows = tmp_path / "history.db", tmp_path / "rows.csv"
    rows.write_text("".join(as_csv(INTERVALS, [])))
    make(place)
    for action in (["show"], ["export"], ["prune", "--before", "1d"]):
        code = main(["history", *action, "--file", str(place)])
        assert (code, capsys.readouterr().err) == (1, f"mysql-headroom: {place}: {told}\n")
    code = main(["history", "import", str(rows), "--file", str(place)])
    err = f"mysql-headroom: {place}: {told_by_import}\n" if told_by_import else ""
    assert (code, capsys.readouterr().err) == (1 if told_by_import else 0, err)


def test_missing_read_permission_is_reported_with_the_owner(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also if the folder may not be entered: the file is private, and stays as it is."""
    with world_readable_folder() as folder:
        path = filled(folder / "history.db", 1)
        for modes in ((0o755, 0), (0o600, 0o600)):
            folder.chmod(modes[0])
            path.chmod(modes[1])
            for action in (["show"], ["export"], ["prune", "--before", "1d"]):
                with as_unprivileged_user():
                    can_be_seen = os.access(path, os.F_OK, effective_ids=True)
                    code = main(["history", *action, "--file", str(path)])
                assert can_be_seen is (modes[0] == 0o755)
                told = f"mysql-headroom: {path}: {DENIED}\n"
                assert (code, capsys.readouterr().err) == (1, told)


@pytest.mark.skipif(not is_root(), reason="only root can give a folder away")
def test_root_is_told_the_owner_of_the_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Writes in another user's folder could follow a link elsewhere: root reads only."""
    folder, rows = tmp_path / "theirs", tmp_path / "rows.csv"
    rows.write_text("".join(as_csv(INTERVALS, [])))
    folder.mkdir(mode=0o700)
    path = filled(folder / "history.db", 1)
    os.chown(folder, NOBODY, -1)
    for action in (["import", str(rows)], ["prune", "--before", "1d"]):
        assert main(["history", *action, "--file", str(path)]) == 1
        told = f"{folder}: this folder is the user nobody's; run this as that user"
        assert capsys.readouterr().err.startswith(f"mysql-headroom: {path}: {told}")
    assert main(["history", "show", "--file", str(path)]) == 0


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("no/such/history.db", "No such file or directory; create its folder"),
        ("rows.csv/history.db", "File exists; its folder is a file: check the path"),
        ("link.db", "Too many levels of symbolic links; name the file itself, not a link to it"),
    ],
)
def test_a_path_where_none_can_be_created_is_reported(
    place: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No folder, a folder that is a file, a link to elsewhere."""
    rows = tmp_path / "rows.csv"
    rows.write_text("".join(as_csv(INTERVALS, [])))
    (tmp_path / "link.db").symlink_to(rows)
    path = tmp_path / place
    assert main(["history", "import", str(rows), "--file", str(path)]) == 1
    assert capsys.readouterr().err == f"mysql-headroom: {path}: {told}\n"
