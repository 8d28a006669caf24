"""Killed, or without power, in the middle of a write: nothing that was committed is lost."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
from history_rows import SETTINGS, STEP, ZERO, batch, filled, interval, is_sound, rows

from agent.history.open_database import open_to_read
from agent.history.row_access import extents
from agent.history.row_kinds import FITS, INTERVALS, SAMPLES
from agent.history.schema import version_of
from agent.history.store import Store
from testbed.real.daemon import wait_until

WRITER = Path(__file__).with_name("history_writer.py")
ROOT = WRITER.parent.parent
KILLS, MANY_KILLS = 12, 200
LONGEST = 0.06  # seconds that a writer writes before it is killed
MAX_START = 0.8  # seconds until one that is just starting is killed
PER_INTERVAL = 15  # samples
CUTS = 30
MAX_READ = 2**20  # bytes


@contextmanager
def writing(path: Path, first: int) -> Iterator["subprocess.Popen[str]"]:
    """A process that writes; it is killed at the end."""
    command = [sys.executable, str(WRITER), str(path), str(first)]
    environment = {"PYTHONPATH": f"{ROOT}:{WRITER.parent}", "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def acknowledged(text: str) -> list[int]:
    """The intervals that the process said were committed; the last line may be cut off."""
    return [int(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def assert_whole(path: Path) -> int:
    """Each interval is there with its fit and its samples, none is missing; how many there are."""
    assert is_sound(path)
    intervals, fits = rows(path, INTERVALS), rows(path, FITS)
    total = len(intervals)
    expected = [ZERO + STEP * k for k in range(total)]
    assert [row.at for row in intervals] == expected
    assert [row.at for row in fits] == expected
    with closing(open_to_read(path)) as connection:
        assert sum(extent.rows for extent in extents(connection, SAMPLES)) == PER_INTERVAL * total
    if total:
        assert intervals[-1] == interval(total - 1)
    return total


def has_tables(path: Path) -> bool:
    """The first writer lived long enough to make the tables, in one transaction."""
    if not path.exists():
        return False
    with closing(sqlite3.connect(path)) as connection:
        return bool(version_of(connection))


def test_committed_rows_survive_any_number_of_kills(tmp_path: Path, *, is_long: bool) -> None:
    """At random moments: no interval is lost, and none is incomplete."""
    path = tmp_path / "state" / "history.db"
    chance = random.Random(20_260)
    written = 0
    kills = MANY_KILLS if is_long else KILLS
    for number in range(kills):
        with writing(path, written) as process:
            assert process.stdout
            first = process.stdout.readline() if number % 4 else ""  # else it may not be open yet
            time.sleep(chance.random() * (LONGEST if first else MAX_START))
            process.kill()
            reported = acknowledged(first + process.stdout.read())
        there = assert_whole(path) if has_tables(path) else 0
        last_reported = reported[-1] if reported else written - 1
        assert there - 1 in (last_reported, last_reported + 1)  # the last may be missing
        written = there
    assert written > kills


def power_cut(path: Path, to: Path) -> Path:
    """What is on the disk now, without the memory that the processes shared."""
    to.mkdir(mode=0o700)
    for ending in ("", "-wal"):
        source = path.with_name(path.name + ending)
        if source.exists():
            shutil.copy(source, to / source.name)
    return to / path.name


def test_a_power_cut_loses_no_committed_row(tmp_path: Path) -> None:
    """File and log at any instant, also in the middle of a write, are a whole history."""
    path = tmp_path / "state" / "history.db"
    chance = random.Random(1_905)
    there = 0
    with writing(path, 0) as process:
        assert process.stdout
        output = process.stdout.readline()
        os.set_blocking(process.stdout.fileno(), False)
        for number in range(CUTS):
            time.sleep(LONGEST * chance.random())
            with frozen(process):
                with suppress(BlockingIOError):  # it has said nothing since
                    output += os.read(process.stdout.fileno(), MAX_READ).decode()
                copy = power_cut(path, tmp_path / f"cut-{number}")
            total = assert_whole(copy)
            assert total - 1 >= max(acknowledged(output))
            assert total >= there
            there = total
    assert there > CUTS


@contextmanager
def frozen(process: "subprocess.Popen[str]") -> Iterator[None]:
    """The process stands still, whatever it was at."""
    process.send_signal(signal.SIGSTOP)
    wait_until("it is stopped", lambda: psutil.Process(process.pid).status() == "stopped")
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """A reader keeps what is written in the log."""
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM interval").fetchall()
        yield


def test_a_truncated_log_is_a_history_up_to_that_point(tmp_path: Path) -> None:
    """The log's end did not reach the disk: the rows before it are there, and writing goes on."""
    path = tmp_path / "state" / "history.db"
    filled(path, 3)
    store = Store(path, SETTINGS)
    with held(path):
        for number in range(3, 60):
            store.put(batch(number))
            store.tick(float(number))
        cut_anywhere(path, tmp_path)
    store.close()


def cut_anywhere(path: Path, folder: Path) -> None:
    """Copies of it with a shorter log."""
    chance = random.Random(4711)
    log = path.with_name("history.db-wal")
    lengths = [*(chance.randrange(log.stat().st_size) for _ in range(40)), 0, 31, 32, 56]
    totals = set()
    for number, length in enumerate(lengths):
        copy = power_cut(path, folder / f"cut-{number}")
        with copy.with_name("history.db-wal").open("r+b") as cut:
            cut.truncate(length)
        after = Store(copy, SETTINGS)
        after.tick(0.0)
        assert after.state.corrupt_files == 0
        total = len(rows(copy, INTERVALS))
        after.put(batch(total))
        after.close()
        assert assert_whole(copy) == total + 1
        totals.add(total)
    assert min(totals) == 3
    assert len(totals) > 10


def test_garbage_at_the_end_of_the_log_is_no_row(tmp_path: Path) -> None:
    """A half-written sector is no commit: the log has checksums."""
    path = tmp_path / "state" / "history.db"
    store = Store(path, SETTINGS)
    store.put(batch(0))
    store.tick(0.0)
    with held(path):
        for number in range(1, 20):
            store.put(batch(number))
            store.tick(float(number))
        chance = random.Random(815)
        size = path.with_name("history.db-wal").stat().st_size
        for number in range(20):
            copy = power_cut(path, tmp_path / f"cut-{number}")
            with copy.with_name("history.db-wal").open("r+b") as torn:
                torn.seek(chance.randrange(size - 600, size - 512))
                torn.write(chance.randbytes(512))
            assert assert_whole(copy) in (19, 20)
    store.close()
