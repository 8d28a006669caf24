"""`mysql-headroom history import`: every mistake is told, and nothing is imported by halves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from history_command import Run
from history_command import path as path
from history_command import run as run
from history_rows import SERVER, everything, filled, interval, is_sound

from agent.history.row_kinds import INTERVALS, KINDS, RowKind
from agent.history.text.csv_format import as_csv, header
from agent.history.text.openmetrics_format import as_openmetrics

GOOD = "".join(as_csv(INTERVALS, [interval(0), interval(1)])).splitlines()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("db,s,soon,15,1,,,,,,,", "time is 'soon', which is not a finite number"),
        ("db,s,-5,15,1,,,,,,,", "time is -5; give it in seconds since 1970"),
        ("db,s,1700000000,0,1,,,,,,,", "seconds is 0, and must be 0.001 or more"),
        ("db,s,1700000000,15,-1,,,,,,,", "throughput is -1, and must be 0 or more"),
        ("db,s,1700000000,15,,,,,,,,", "throughput is missing; fill it in or drop the line"),
        ("db,s,1700000000,15,nan,,,,,,,", "throughput is 'nan', which is not a finite number"),
        ("db,s,1700000000,15,1e999,,,,,,,", "throughput is '1e999', which is not a finite number"),
        (
            "d b,s,1700000000,15,1,,,,,,,",
            "target is 'd b'; use only the characters of a target name",
        ),
        (",s,1700000000,15,1,,,,,,,", "target is ''; give 1 to 255 printable characters"),
        ("db,s,1700000000,15,1", "5 cells, the header has 12 columns"),
        ("db,s,1700000000,15,1,,,,,,,{", "resources is not valid JSON"),
        ('db,s,1700000000,15,1,,,,,,,"[1]"', "resources has no numbers by name"),
        ('db,s,1700000000,15,1,,,,,,,"{""cpu"": ""x""}"', "resources: cpu is not a number"),
    ],
)
def test_an_invalid_line_is_reported_with_its_number(
    path: Path, tmp_path: Path, run: Run, line: str, told: str
) -> None:
    """And the remedy; the valid lines around it are not imported either."""
    text = tmp_path / "rows.csv"
    text.write_text("\n".join([GOOD[0], GOOD[1], line, GOOD[2]]) + "\n")
    code, out, err = run("import", text)
    assert (code, out) == (2, "")
    assert err.startswith(f"mysql-headroom: {text}:3: {told}")
    assert err.count("\n") == 1
    assert not path.exists()


THROUGHPUT = "mysql_headroom_history_interval_throughput"
LABELS = f'{{target="db",server="{SERVER}"}}'


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("something 1 2", "this is not a line of an exported history"),
        (f"{THROUGHPUT}_x{LABELS} 1 1700000000", "this is not a line of an exported history"),
        (f"{THROUGHPUT}{{target=db}} 1 1700000000", "the labels are invalid"),
        (f'{THROUGHPUT}{{target="db"}} 1 1700000000', "server is ''"),
        (f'{THROUGHPUT}{{target="d",server="s",x="y"}} 1 1700000000', "the label x is not known"),
        (
            f"{THROUGHPUT}{LABELS} NaN 1700000000",
            "throughput is 'NaN', which is not a finite number",
        ),
        (
            f"{THROUGHPUT}{LABELS} 5.0 1700000000.000",
            "this series has a value at this time already",
        ),
        (f"{THROUGHPUT}{LABELS} 5.0 1800000000.000", "seconds is missing"),
        (
            'mysql_headroom_history_fit_trust{target="d",server="s",trust="blind"} 1 1700000000',
            "trust is 'blind'; give one of trusted, indicative, not_identifiable",
        ),
    ],
)
def test_an_invalid_openmetrics_sample_is_reported_with_its_line(
    path: Path, tmp_path: Path, run: Run, line: str, told: str
) -> None:
    """The same for OpenMetrics."""
    good = "".join(as_openmetrics([INTERVALS], lambda _: [interval(0)])).splitlines()
    text = tmp_path / "rows.om"
    text.write_text("\n".join([*good[:-1], line, good[-1]]) + "\n")
    code, out, err = run("import", text)
    assert (code, out) == (2, "")
    assert err.startswith(f"mysql-headroom: {text}:{len(good)}: {told}")
    assert not path.exists()


def test_a_truncated_file_is_not_imported(path: Path, tmp_path: Path, run: Run) -> None:
    """Without its end mark an OpenMetrics file may lack anything."""
    good = "".join(as_openmetrics([INTERVALS], lambda _: [interval(0)]))
    text = tmp_path / "rows.om"
    text.write_text(good[: len(good) // 2].rpartition("\n")[0] + "\n")
    code, _, err = run("import", text)
    assert code == 2
    assert "it was cut off; export it again" in err
    assert not path.exists()


@pytest.mark.parametrize(
    ("count", "words"), [(100, "and 80 more invalid lines"), (21, "and 1 more invalid line")]
)
def test_only_the_first_twenty_mistakes_are_listed(
    tmp_path: Path, run: Run, count: int, words: str
) -> None:
    """And how many more there are."""
    text = tmp_path / "rows.csv"
    text.write_text("\n".join([GOOD[0], *["db"] * count]) + "\n")
    _, _, err = run("import", text)
    assert err.count("\n") == 21
    assert err.endswith(f"{words}\n")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_table_with_another_header_is_refused(tmp_path: Path, run: Run, kind: RowKind) -> None:
    """With the header that is the most alike."""
    text = tmp_path / "rows.csv"
    text.write_text(",".join([*header(kind)[:-1], "renamed"]) + "\n")
    code, _, err = run("import", text)
    assert code == 2
    remedy = f"the header must be {','.join(header(kind))}, or that of another kind\n"
    assert err.endswith(f"rows.csv:1: this is not the header of an exported history; {remedy}")


def test_an_empty_file_is_called_empty(tmp_path: Path, run: Run) -> None:
    """As an export leaves it that a full disk has ended."""
    text = tmp_path / "rows.csv"
    text.touch()
    code, _, err = run("import", text)
    assert code == 2
    assert "rows.csv:1: the file is empty; the header must be " in err


def test_a_table_with_semicolons_is_refused_as_such(tmp_path: Path, run: Run) -> None:
    """As a spreadsheet may write it."""
    text = tmp_path / "rows.csv"
    text.write_text(GOOD[0].replace(",", ";") + "\n")
    code, _, err = run("import", text)
    assert (code, err.partition("rows.csv:1: ")[2]) == (
        2,
        "its cells are separated by semicolons; separate them by commas\n",
    )


def test_a_failed_import_changes_nothing(
    path: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Aborted after half of its rows, the history is as it was."""
    filled(path, 3)
    other = filled(tmp_path / "other" / "history.db", 30, "imported")
    text = tmp_path / "rows.om"
    run("export", "--kind", "all", "--format", "openmetrics", "-o", text, file=other)
    before = everything(path)
    code = (
        "import os, sys, agent.commands.history as h, agent.cli\n"
        "real = h.insert_rows\n"
        "def insert(connection, kind, rows):\n"
        "    real(connection, kind, rows)\n"
        "    if kind.name == 'fits': os.kill(os.getpid(), 9)\n"
        "    return 0\n"
        "h.insert_rows = insert\n"
        "agent.cli.main(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", code, "history", "import", "--file", str(path), str(text)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == -9
    assert everything(path) == before
    assert is_sound(path)


def test_a_full_temporary_directory_is_named_in_the_error(path: Path, tmp_path: Path) -> None:
    """A pipe is copied there first: one line names the directory and the remedy."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    script = (
        "import resource, sys\n"
        "from agent.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "history", "import", "--file", path, "-"],
        input="\n".join([*GOOD, "#" * 10_000]),
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TMPDIR": str(folder)},
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"mysql-headroom: {folder}: no room for a copy of <stdin> (File too large);"
        " free some space there, or set TMPDIR to another directory\n"
    )
    assert not path.exists()
    assert list(folder.iterdir()) == []
