"""`mysql-headroom history`: what it shows; text goes out and in unchanged; what it deletes."""

import os
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from disks import fill, small_disk
from history_command import FORMATS, Run
from history_command import path as path
from history_command import run as run
from history_rows import (
    SERVER,
    SETTINGS,
    STEP,
    ZERO,
    batch,
    everything,
    filled,
    interval,
    is_sound,
    rows,
)

from agent.cli import main
from agent.history.open_database import open_to_write
from agent.history.row_kinds import INTERVALS, KINDS
from agent.history.schema import VERSION
from agent.history.store import Store
from agent.history.text.csv_format import header


def test_show_prints_the_contents(path: Path, run: Run) -> None:
    """Each target and kind with its rows and times; the size and version of the file."""
    filled(path, 40, "primary", "replica")
    code, out, err = run("show")
    assert (code, err) == (0, "")
    first, head, *lines = out.splitlines()
    assert first.startswith(f"{path}: ")
    assert first.endswith(f" KiB, schema {VERSION}")
    assert head.split() == ["target", "server", "kind", "rows", "from", "to"]
    assert [line.split() for line in lines][:5] == [
        ["primary", SERVER, "intervals", "40", "2023-11-14T22:13:20Z", "2023-11-14T22:23:05Z"],
        ["primary", SERVER, "fits", "40", "2023-11-14T22:13:20Z", "2023-11-14T22:23:05Z"],
        ["primary", SERVER, "samples", "600", "2023-11-14T22:13:06Z", "2023-11-14T22:23:05Z"],
        ["primary", SERVER, "classes", "120", "2023-11-14T22:13:20Z", "2023-11-14T22:23:05Z"],
        ["primary", SERVER, "business", "40", "2023-11-14T22:13:20Z", "2023-11-14T22:23:05Z"],
    ]
    assert len(lines) == 10


def test_show_reads_the_path_from_the_configuration(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By `--config.file`; a configuration without a history is reported."""
    filled(path, 1)
    config = tmp_path / "config.yaml"
    target = "targets: [{name: db, user: u}]\n"
    config.write_text(f"history: {{path: {path}}}\n{target}")
    assert main(["history", "show", "--config.file", str(config)]) == 0
    config.write_text(target)
    assert main(["history", "show", "--config.file", str(config)]) == 2
    assert "has no history.path; give --file DB" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("style", FORMATS)
def test_an_export_imports_unchanged(
    path: Path, tmp_path: Path, run: Run, style: str, kind: str
) -> None:
    """Into an empty history: every row is the same to its last bit."""
    filled(path, 20, "a", "b")
    text = tmp_path / "rows.txt"
    assert run("export", "--kind", kind, "--format", style, "-o", text)[0] == 0
    assert text.stat().st_mode & 0o777 == 0o600
    other = tmp_path / "other" / "history.db"
    code, out, err = run("import", text, file=other)
    count = {"samples": 600, "classes": 120}.get(kind, 40)
    assert (code, out, err) == (0, f"{kind}: {count} added, 0 existed already\n", "")
    assert rows(other, KINDS[kind]) == rows(path, KINDS[kind])
    before = everything(other)
    assert run("import", text, file=other)[1] == f"{kind}: 0 added, {count} existed already\n"
    assert everything(other) == before
    assert run("export", "--kind", kind, "--format", style, file=other)[1] == text.read_text()


def test_openmetrics_may_hold_all_kinds(path: Path, tmp_path: Path, run: Run) -> None:
    """One file for everything; prometheus can read it."""
    filled(path, 5)
    text = tmp_path / "all.om"
    assert run("export", "--kind", "all", "--format", "openmetrics", "-o", text)[0] == 0
    other = tmp_path / "other" / "history.db"
    assert run("import", text, file=other)[0] == 0
    assert everything(other) == everything(path)
    code, _, err = run("export", "--kind", "all")
    assert (code, "only; --format openmetrics takes all" in err) == (2, True)


def test_prometheus_takes_the_openmetrics(
    path: Path, tmp_path: Path, run: Run, promtool: str
) -> None:
    """`promtool tsdb create-blocks-from openmetrics` makes blocks of all of it."""
    filled(path, 50, "a", "b")
    text = tmp_path / "all.om"
    run("export", "--kind", "all", "--format", "openmetrics", "-o", text)
    command = [
        promtool,
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        str(text),
        str(tmp_path / "p"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((tmp_path / "p").iterdir())


def test_a_part_of_the_history_can_be_exported(path: Path, run: Run) -> None:
    """Of one target, between two times, both included."""
    filled(path, 10, "a", "b")
    since, until = (f"{(ZERO + k * STEP) / 1000:.0f}" for k in (3, 6))
    _, out, _ = run("export", "--target", "b", "--since", since, "--until", until)
    lines = out.splitlines()
    assert lines[0] == ",".join(header(INTERVALS))
    assert [line.split(",")[:3] for line in lines[1:]] == [
        ["b", SERVER, f"{(ZERO + k * STEP) / 1000:.3f}"] for k in (3, 4, 5, 6)
    ]
    assert run("export", "--since", "2030-01-01")[1].count("\n") == 1
    code, out, err = run("export", "--target", "b", "--since", until, "--until", since)
    assert (code, out) == (2, "")
    assert "--since is later than --until" in err


@pytest.mark.parametrize("action", [("export",), ("prune", "--before", "2026-01-01")])
def test_an_unknown_target_is_reported_with_the_known_ones(
    path: Path, run: Run, action: tuple[str, ...]
) -> None:
    """Nothing is written or deleted in its name."""
    filled(path, 5, "primary", "replica")
    code, out, err = run(*action, "--target", "primry")
    assert (code, out) == (2, "")
    assert err == "mysql-headroom: no target 'primry'; the history has primary, replica\n"
    assert "5" in run("show")[1].split()
    empty = path.with_name("empty.db")
    open_to_write(empty).close()
    code, _, err = run(*action, "--target", "db", file=empty)
    assert (code, err) == (2, "mysql-headroom: no target 'db'; the history has none yet\n")


def test_prune_deletes_only_older_rows(path: Path, run: Run) -> None:
    """Of one target or all, of one kind or all; free pages are released."""
    filled(path, 400, "a", "b")
    before = path.stat().st_size
    at = f"{(ZERO + 390 * STEP) / 1000:.0f}"
    code, out, _ = run("prune", "--before", at, "--target", "a", "--kind", "samples")
    assert (code, out) == (0, f"samples: {390 * 15:,} deleted\n")
    assert len(rows(path, INTERVALS)) == 800
    code, out, _ = run("prune", "--before", at)
    samples, classes = f"{390 * 15:,}", f"{2 * 3 * 390:,}"
    assert out == (
        f"intervals: 780 deleted\nfits: 780 deleted\nsamples: {samples} deleted\n"
        f"classes: {classes} deleted\nbusiness: 780 deleted\n"
    )
    assert rows(path, INTERVALS) == [interval(k, t) for t in ("a", "b") for k in range(390, 400)]
    assert path.stat().st_size < before / 3
    assert is_sound(path)


def test_prune_needs_a_megabyte_of_a_full_disk(tmp_path: Path, run: Run) -> None:
    """Its log never holds more than a step; without any room the message names that megabyte."""
    with small_disk(tmp_path / "disk", "4m") as disk:
        path = disk / "history.db"
        filled(path, 3000)
        fill(disk / "ballast")
        at = f"{(ZERO + 2500 * STEP) / 1000:.0f}"
        code, _, err = run("prune", "--before", at, file=path)
        assert (code, len(err.splitlines())) == (1, 1)
        assert "with 1 MiB `history prune` can free more" in err
        size = path.stat().st_size
        os.truncate(disk / "ballast", (disk / "ballast").stat().st_size - 2**20)
        code, out, _ = run("prune", "--before", at, file=path)
        assert (code, out.splitlines()[0]) == (0, "intervals: 2,500 deleted")
        assert path.stat().st_size < size / 2
        assert rows(path, INTERVALS) == [interval(k) for k in range(2500, 3000)]


def test_an_export_to_a_full_disk_needs_another_disk(path: Path, tmp_path: Path, run: Run) -> None:
    """The message does not ask for another folder of the same disk."""
    filled(path)
    with small_disk(tmp_path / "disk", "1m") as disk:
        fill(disk / "ballast")
        code, _, err = run("export", "-o", disk / "rows.csv")
    assert code == 2
    assert "(No space left on device); name a file on a disk that has room" in err


def test_a_missing_history_is_reported_and_not_created(path: Path, run: Run) -> None:
    """A typo in the path leaves no file behind."""
    for action in (["show"], ["export"], ["prune", "--before", "1d"]):
        code, _, err = run(*action)
        assert code == 1
        assert "there is no history at this path" in err
    assert not path.parent.exists()


def test_a_file_that_is_no_history_is_reported(path: Path, run: Run) -> None:
    """Another file, or a corrupt one."""
    path.parent.mkdir(mode=0o700)
    path.write_text("something else " * 1000)
    for action in (["show"], ["export"], ["import", "/dev/null"]):
        code, _, err = run(*action)
        assert code in (1, 2)
        assert err.count("\n") == 1
    assert path.read_text().startswith("something else")


def test_a_damaged_row_is_reported(path: Path, run: Run) -> None:
    """In one line, without a trace."""
    filled(path, 3)
    with closing(open_to_write(path)) as damaging:
        damaging.execute("UPDATE sample SET data = x'00'")
        damaging.execute("UPDATE interval SET resources = '[]'")
    for kind, told in (("samples", "cannot be unpacked"), ("intervals", "a cell of resources")):
        code, _, err = run("export", "--kind", kind)
        assert (code, err.count("\n")) == (1, 1)
        assert told in err


def test_an_invalid_time_is_reported(run: Run) -> None:
    """With the valid forms."""
    for text in ("yesterday", "5", "9e99", "nan", "2026-13-01", "-1h"):
        code, _, err = run("prune", f"--before={text}")
        assert code == 2
        assert "write 2026-11-21T13:00 (local)" in err


def test_prune_refuses_a_time_in_the_future(path: Path, run: Run) -> None:
    """A mistyped year would delete everything."""
    filled(path, 5, "a")
    shown = run("show")[1]
    code, out, err = run("prune", "--before", "2096-11-28")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("mysql-headroom: --before: the time is in the future")
    assert run("show")[1] == shown


def test_reading_does_not_disturb_the_writer(path: Path, run: Run) -> None:
    """`show` and `export` while a store has it open and writes before, between and after."""
    store = Store(path, SETTINGS)
    for number in range(30):
        store.put(batch(number))
        store.tick(100.0 * number)
        code, out, _ = run("export")
        assert (code, out.count("\n")) == (0, number + 2)
    assert run("show")[0] == 0
    assert store.state.failures == {}
    store.close()


def test_import_and_prune_take_turns_with_the_agent(path: Path, tmp_path: Path, run: Run) -> None:
    """Both work beside a running store, and nothing is lost."""
    other = filled(tmp_path / "other" / "history.db", 10, "imported")
    text = tmp_path / "rows.csv"
    run("export", "-o", text, file=other)
    store = Store(path, SETTINGS)
    for number in range(10):
        store.put(batch(number))
        store.tick(100.0 * number)
    assert run("import", text)[0] == 0
    assert run("prune", "--before", f"{(ZERO + 5 * STEP) / 1000:.0f}", "--target", "db")[0] == 0
    store.put(batch(10))
    store.tick(10_000.0)
    store.close()
    assert rows(path, INTERVALS) == [
        *(interval(k) for k in range(5, 11)),
        *(interval(k, "imported") for k in range(10)),
    ]


@pytest.mark.parametrize("rights", [0o666, 0o644])
def test_an_export_is_private_whatever_file_it_replaces(path: Path, run: Run, rights: int) -> None:
    """A user who could read the former file, or has it open, does not see the new export."""
    filled(path, 3)
    output = path.parent / "rows.csv"
    output.write_text("before")
    output.chmod(rights)
    with output.open() as held:
        assert run("export", "-o", output)[0] == 0
        assert held.read() == "before"
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert output.read_text().startswith("target,server,time")
    assert [p.name for p in path.parent.iterdir() if "rows.csv" in p.name] == ["rows.csv"]


def test_a_failed_export_leaves_the_former_file(path: Path, run: Run) -> None:
    """No incomplete file replaces a complete one, and nothing is left behind."""
    filled(path, 3)
    output = path.parent / "rows.csv"
    output.write_text("before")
    with closing(open_to_write(path)) as damaging:
        damaging.execute("UPDATE interval SET resources = '{'")
    assert run("export", "-o", output)[0] == 1
    assert output.read_text() == "before"
    assert [p.name for p in path.parent.iterdir() if "rows.csv" in p.name] == ["rows.csv"]


def test_an_export_writes_into_a_pipe_or_through_a_link(path: Path, run: Run) -> None:
    """A pipe or a device is not replaced, and a link is followed."""
    filled(path, 3)
    pipe = path.parent / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        text = reader.submit(pipe.read_text)
        assert run("export", "-o", pipe)[0] == 0
        assert text.result(20).startswith("target,server,time")
    assert pipe.is_fifo()
    link, place = path.parent / "link.csv", path.parent / "place.csv"
    link.symlink_to(place)
    assert run("export", "-o", link)[0] == 0
    assert link.is_symlink()
    assert place.read_text() == text.result()
