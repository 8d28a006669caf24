"""Hostile files: one line that says so, in bounded memory and time."""

import gzip
import io
import json
import sqlite3
import subprocess
import sys
import time
import zlib
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest
from history_command import Run
from history_command import path as path
from history_command import run as run
from history_rows import filled, rows

from agent.history.row_kinds import INTERVALS
from agent.history.text.csv_format import header
from agent.history.text.openmetrics_format import MAX_LINES, family

MEMORY = 1500 * 2**20  # bytes of address space that a command may take, libraries included
ROOT = Path(__file__).resolve().parent.parent
HEADER = ",".join(header(INTERVALS)) + "\n"


def bounded(*arguments: object, stdin: bytes | None = None) -> tuple[int, str, str, int]:
    """The command in a process of its own, in little memory: code, outputs, peak memory (bytes)."""
    script = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))\n"
        "from agent.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=300,
        cwd=ROOT,
        check=False,
    )
    *said, peak = done.stderr.decode().splitlines()
    assert peak.isdigit(), done.stderr.decode()
    return done.returncode, done.stdout.decode(), "\n".join(said), 1024 * int(peak)


def bomb(path: Path, piece: bytes, count: int) -> Path:
    """A gzip file of so many pieces, made without unpacking it anywhere."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    with path.open("wb") as file:
        for _ in range(count):
            file.write(packer.compress(piece))
        file.write(packer.flush())
    return path


BOMBS = {
    "zeroes": (b"\0" * 2**20, "this is not a text file"),
    "one line": (b"x" * 2**20, "a line of more than 1024 KiB"),
    "empty lines": (b"\n" * 2**20, "more than 1,048,576 lines"),
    "rows": (b"1,1\n" * 2**18, "more than 1,048,576 lines"),
}


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        *product(("fit", "attribute"), ("zeroes", "one line", "empty lines")),
        # a million rows take 20 s to read; a million points are fitted, in the memory of as many
        pytest.param("attribute", "rows", marks=pytest.mark.long),
    ],
)
def test_a_gzip_bomb_is_refused_in_one_line(tmp_path: Path, kind: str, command: str) -> None:
    """A megabyte that unpacks to a gigabyte takes no more memory than allowed."""
    piece, expected = BOMBS[kind]
    head = b"concurrency,throughput\n" if command == "fit" else b"a,cpu_s\n"
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(head) + bomb(tmp_path / "piece.gz", piece, 100).read_bytes())
    code, out, err, _ = bounded(command, path)
    assert (code, out) == (2, "")
    assert err.startswith("mysql-headroom: ")
    assert expected in err
    assert err.count("\n") == 0


@pytest.mark.parametrize("kind", ["zeroes", "one line"])
def test_a_gzip_bomb_is_not_imported(path: Path, tmp_path: Path, kind: str) -> None:
    """And no history is created for it."""
    piece, expected = BOMBS[kind]
    made = bomb(tmp_path / "bomb.gz", piece, 100)
    code, out, err, _ = bounded("history", "import", "--file", path, made)
    assert (code, out, path.exists()) == (2, "", False)
    assert expected in err


@pytest.mark.parametrize("is_piped", [False, True])
def test_the_memory_of_an_import_does_not_depend_on_its_rows(path: Path, is_piped: bool) -> None:
    """The file is streamed twice: mistakes are known before the history is changed."""
    peaks = []
    path.parent.mkdir(mode=0o700)
    for count in (2_000, 30_000):
        text = io.StringIO()
        text.write(HEADER)
        for number in range(count):
            text.write(f"db,server,{1_700_000_000 + 15 * number}.000,15,{number}.5,,,,,,,\n")
        source = path.parent / "rows.csv"
        source.write_text(text.getvalue())
        given: list[object] = ["-"] if is_piped else [source]
        stdin = source.read_bytes() if is_piped else None
        file = path.with_name(f"{count}.db")
        code, out, err, peak = bounded("history", "import", "--file", file, *given, stdin=stdin)
        assert (code, err) == (0, "")
        assert out == f"intervals: {count:,} added, 0 existed already\n"
        assert len(rows(file, INTERVALS)) == count
        peaks.append(peak)
    assert peaks[1] < peaks[0] + 12 * 2**20


def test_a_mistake_at_the_end_of_a_long_file_imports_nothing(path: Path, run: Run) -> None:
    """However many rows before it are valid; of a million mistakes twenty are listed."""
    path.parent.mkdir(mode=0o700)
    source = path.parent / "rows.csv"
    good = "".join(f"db,s,{number},15,1,,,,,,,\n" for number in range(12_000))
    source.write_text(HEADER + good + "db,s,x,15,1,,,,,,,\n")
    code, out, err = run("import", source)
    assert (code, out, path.exists()) == (2, "", False)
    assert f"{source}:12002: time is 'x'" in err
    source.write_text(HEADER + "db,s,x,15,1,,,,,,,\n" * 30_000)
    code, _, err = run("import", source)
    assert (code, len(err.splitlines())) == (2, 21)
    assert "and 29,980 more invalid lines" in err.replace("29980", "29,980")


def test_an_openmetrics_file_of_too_many_lines_is_refused(path: Path, tmp_path: Path) -> None:
    """Its rows are spread over the file, so that all of it is in memory."""
    name = family(INTERVALS, INTERVALS.columns[0])
    line = f'{name}{{target="db",server="s"}} 15 1700000000\n'
    source = bomb(tmp_path / "big.gz", line.encode() * 10_000, MAX_LINES // 10_000 + 1)
    code, _, err, _ = bounded("history", "import", "--file", path, source)
    assert code == 2
    assert "more than 1,000,000 lines; export it as CSV" in err


# --- a hostile database


def crafted(path: Path, *statements: str) -> Path:
    """A history with something else in it."""
    filled(path, 2)
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


ENDLESS = (
    "WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n)"
    " SELECT 1 AS target, k AS at, 15.0 AS seconds, 1.0 AS throughput FROM n"
)


@pytest.mark.parametrize(
    "statements",
    [
        ("DROP TABLE interval", f"CREATE VIEW interval AS {ENDLESS}"),
        ("CREATE TRIGGER t AFTER INSERT ON fit BEGIN DELETE FROM fit; END",),
        ("CREATE TABLE other (x)",),
    ],
    ids=["view", "trigger", "table"],
)
@pytest.mark.parametrize("action", [("show",), ("export",), ("export", "--kind", "classes")])
def test_a_file_with_other_tables_is_refused(
    path: Path, run: Run, statements: tuple[str, ...], action: tuple[str, ...]
) -> None:
    """Counting the rows of an endless view would never end."""
    started = time.monotonic()
    code, out, err = run(*action, file=crafted(path, *statements))
    assert (code, out) == (1, "")
    assert "not made by the agent" in err
    assert time.monotonic() - started < 20


def test_a_cycle_of_pages_times_out(path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page of a tree refers to the next one, many times: 100 to the 20th rows."""
    monkeypatch.setattr("agent.history.open_database.MAX_STATEMENT_SECONDS", 1.0)
    filled(path, 2)
    lead_in_circles(path)
    started = time.monotonic()
    code, out, err = run("show")
    assert code == 1
    assert out == ""
    assert err.count("\n") == 1
    assert time.monotonic() - started < 20


def lead_in_circles(path: Path) -> None:
    """Replace the root of the table of intervals by levels of pages that repeat the level below."""
    levels = 8
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        sql = "SELECT rootpage FROM sqlite_master WHERE name = 'interval'"
        (root,) = connection.execute(sql).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (count,) = connection.execute("PRAGMA page_count").fetchone()
    data = bytearray(path.read_bytes())
    leaf = bytes(data[(root - 1) * size : root * size])
    pages = [root, *range(count + 1, count + levels + 1)]
    data += bytes(levels * size)
    for level, page in enumerate(pages[:-1]):
        data[(page - 1) * size : page * size] = above(leaf, pages[level + 1])
    data[(pages[-1] - 1) * size : pages[-1] * size] = leaf
    data[28:32] = (count + levels).to_bytes(4, "big")
    path.write_bytes(bytes(data))


def above(leaf: bytes, child: int) -> bytes:
    """A page of the tree all of whose cells are the leaf's first one, and lead to one child.

    https://www.sqlite.org/fileformat.html#b_tree_pages
    """
    cells = 300
    at = int.from_bytes(leaf[8:10], "big")
    length = leaf[at] + 1 if leaf[at] < 128 else ((leaf[at] & 127) << 7 | leaf[at + 1]) + 2
    cell = child.to_bytes(4, "big") + leaf[at : at + length]
    start = len(leaf) - len(cell)
    head = b"\x02\0\0" + cells.to_bytes(2, "big") + start.to_bytes(2, "big") + b"\0"
    page = head + child.to_bytes(4, "big") + start.to_bytes(2, "big") * cells
    return page + bytes(start - len(page)) + cell


@pytest.mark.parametrize(
    "update",
    [
        "UPDATE interval SET resources = '{\"a\": 1' || printf('%.400c', '0') || '}'",
        "UPDATE interval SET resources = printf('%.100000c', '[')",
        "UPDATE interval SET resources = '{\"a\": ' || printf('%.100000c', '[')",
        "UPDATE interval SET resources = printf('%.20000000c', ' ')",
    ],
)
def test_an_oversized_cell_is_refused_in_one_line(path: Path, run: Run, update: str) -> None:
    """Numbers without an end, nesting without an end, and 20 MB of nothing."""
    code, _, err = run("export", file=crafted(path, update))
    assert code == 1
    assert err.startswith("mysql-headroom: ")
    assert err.count("\n") == 1


def test_a_packed_sample_is_unpacked_to_a_limited_size(path: Path) -> None:
    """A blob of a megabyte that unpacks to a gigabyte."""
    filled(path, 1)
    packer = zlib.compressobj(9)
    blob = b"".join(packer.compress(b"\0" * 2**20) for _ in range(256)) + packer.flush()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE layout SET names = ?", (json.dumps(["a"]),))
        connection.execute("UPDATE sample SET data = ?, count = ?", (blob, 2**24))
        connection.commit()
    code, _, err, _ = bounded("history", "export", "--kind", "samples", "--file", path)
    assert code == 1
    assert "cannot be unpacked" in err
