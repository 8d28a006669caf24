"""Text from outside reaches terminals, logs and spreadsheets as text: nothing executes it."""

import ast
import csv
import io
import json
import logging
from contextlib import closing
from pathlib import Path

import pytest
from fuzzing import fuzz
from history_command import Run
from history_command import path as path
from history_command import run as run
from history_rows import everything, filled, interval
from hypothesis import given
from hypothesis import strategies as st

from agent.cli import main
from agent.history.open_database import open_to_write
from agent.history.row_access import insert_rows
from agent.history.row_kinds import INTERVALS
from agent.support.logs import fields, set_up_logging
from agent.support.safe_output import for_spreadsheet, from_spreadsheet, json_text, printable

ROOT = Path(__file__).resolve().parent.parent
HOSTILE = "a\x1b]0;owned\x07\x1b[2J\x9b31m\x85\u2028\u202e\x7f\r\nlevel=error"
FORMULAS = ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "'=1", "'", "''", "\t=1")


def obeyed(text: str) -> list[str]:
    """The characters that a terminal would execute; the line feeds of the text are its own."""
    return [sign for sign in text if not sign.isprintable() and sign != "\n"]


@fuzz(300)
@given(text=st.text())
def test_every_text_becomes_one_visible_line(text: str) -> None:
    """And JSON stays the same for a program that reads it."""
    assert printable(text).isprintable()
    assert json_text([text]).isprintable()
    assert json.loads(json_text([text])) == [text]
    if text.isprintable():
        assert printable(text) == text


@pytest.mark.parametrize("style", ["logfmt", "json"])
def test_a_log_line_is_one_line_to_every_reader(style: str) -> None:
    """C1 codes and Unicode line ends are escaped too, in messages and in fields."""
    stream = io.StringIO()
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        set_up_logging("info", style, stream)
        logging.getLogger("test").warning("said %s", HOSTILE, extra=fields(server=HOSTILE))
    finally:
        root.handlers[:], root.level = before
    text = stream.getvalue()
    assert obeyed(text) == []
    assert len(text.splitlines()) == 1
    if style == "json":
        assert json.loads(text)["server"] == HOSTILE


def test_check_escapes_a_host_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The author of a configuration cannot control the terminal of the user who checks it."""
    file = tmp_path / "config.yaml"
    host = "".join(character for character in HOSTILE if not character.isspace())
    target = {"name": "a", "user": "u", "host": host, "port": 1}
    file.write_text(json.dumps({"targets": [target]}))
    assert main(["check", "--config.file", str(file)]) == 1
    printed = capsys.readouterr()
    assert obeyed(printed.out + printed.err) == []
    assert r"\x1b]0;owned" in printed.out
    assert "\nlevel=error" not in printed.out


@pytest.fixture
def hostile(path: Path) -> Path:
    """A history of a server with such a name."""
    filled(path, 1)
    with closing(open_to_write(path)) as connection:
        insert_rows(connection, INTERVALS, [interval(0, server=HOSTILE)])
    return path


@pytest.mark.parametrize(
    "action",
    [("show",), ("export",), ("export", "--format", "openmetrics"), ("prune", "--before", "6h")],
    ids=" ".join,
)
def test_history_escapes_a_server_name(hostile: Path, run: Run, action: tuple[str, ...]) -> None:
    """In each of its formats, with one line per row."""
    code, out, err = run(*action)
    assert code == 0
    assert obeyed(out + err) == []
    assert not [line for line in out.splitlines() if line.startswith("level=error")]


def test_arguments_are_escaped_in_messages(
    hostile: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name of a file or a target."""
    for words in (["fit", f"/nowhere/{HOSTILE}"], ["check", "--config.file", f"/x{HOSTILE}"]):
        assert main(words) == 2
        assert obeyed(capsys.readouterr().err) == []
    assert obeyed(run("export", "--target", HOSTILE)[2]) == []


@pytest.mark.parametrize("name", FORMULAS)
def test_no_cell_of_a_csv_file_is_a_formula(path: Path, run: Run, name: str) -> None:
    """A spreadsheet shows it as text, and an import reads the original."""
    shown = name.replace("\t", "")
    with closing(open_to_write(path)) as connection:
        insert_rows(connection, INTERVALS, [interval(0, server=shown)])
    code, out, _ = run("export")
    assert code == 0
    for row in csv.reader(io.StringIO(out)):
        assert not row[1].startswith(tuple("=+-@"))
    text, copy = path.parent / "rows.csv", path.parent / "copy.db"
    text.write_text(out)
    assert run("import", text, file=copy)[0] == 0
    assert everything(copy)["intervals"] == everything(path)["intervals"]


@fuzz(200)
@given(word=st.text(alphabet="=+-@'ab ", max_size=6))
def test_escaped_csv_cells_are_restored(word: str) -> None:
    """Also one that begins with the escape character itself."""
    assert from_spreadsheet(for_spreadsheet(word)) == word


def test_commands_print_through_one_function() -> None:
    """So that no command forgets to escape; `demo` prints no text from outside."""
    for file in sorted((ROOT / "agent/commands").glob("*.py")):
        calls = (
            node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)
        )
        printed = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]
        assert not printed or file.name == "demo.py", file


def test_json_of_an_unsupported_type_is_an_error() -> None:
    """Only a log line converts everything to text; data for programs is numbers and words."""
    with pytest.raises(TypeError, match="not JSON serializable"):
        json_text({"at": Path("/")})
    assert json_text({"at": Path("/")}, default=str) == '{"at": "/"}'
