"""When the history cannot be written: nobody waits for it, all is said once, it heals by itself."""

import logging
import os
import shutil
import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from disks import fill, remount, small_disk
from history_rows import (
    SERVER,
    SETTINGS,
    STEP,
    ZERO,
    batch,
    filled,
    interval,
    is_sound,
    rows,
)

from agent.history.failures import StoreFailure
from agent.history.open_database import open_to_read, open_to_write
from agent.history.row_access import insert_rows
from agent.history.row_kinds import INTERVALS
from agent.history.schema import VERSION
from agent.history.store import Store
from agent.history.window_reader import WindowQuery
from agent.history.write_buffer import WriteBuffer

ALL = WindowQuery("db", SERVER, 15.0, ZERO, ZERO + 10_000 * STEP)


class Clock:
    """The worker's time, in steps of a minute: longer than any wait after a failure."""

    def __init__(self) -> None:
        self.now = 0.0

    def tick(self, store: Store) -> None:
        """One turn of the worker."""
        self.now += 60.0
        store.tick(self.now)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a history is to be."""
    return tmp_path / "state" / "history.db"


@pytest.fixture
def clock() -> Clock:
    """A new one."""
    return Clock()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the history has said at the level of an error."""
    return [r.message for r in caplog.records if r.levelno >= logging.ERROR]


def put_aside(path: Path) -> list[Path]:
    """The broken files, without their logs."""
    return sorted(p for p in path.parent.glob("*.corrupt-*") if not p.name.endswith("-wal"))


# --- corrupt


def overwrite(path: Path, offset: int, data: bytes) -> None:
    """Damage the file in one place."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def garbage_header(path: Path) -> None:
    """The beginning is something else."""
    overwrite(path, 0, b"\xff" * 100)


def garbage_page(path: Path) -> None:
    """A page in the middle is noise."""
    overwrite(path, 5 * 4096, b"\xa5" * 4096)


def truncated(path: Path) -> None:
    """The end is gone, in the middle of a page."""
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size * 2 // 3 - 1000)


def text(path: Path) -> None:
    """Not a database at all."""
    path.write_text("not a history\n" * 1000)


@pytest.mark.parametrize("harm", [garbage_header, garbage_page, truncated, text])
def test_a_corrupt_file_is_renamed_with_its_date(
    path: Path, harm: object, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """It is kept, logged once and counted, and an empty one takes its place."""
    filled(path, 60)
    assert callable(harm)
    harm(path)
    broken = path.read_bytes()
    store = Store(path, SETTINGS, clock=lambda: 1_700_000_000.0)
    store.put(batch(100))
    clock.tick(store)
    assert rows(path, INTERVALS) == [interval(100)]
    store.put(batch(101))
    clock.tick(store)
    [aside] = put_aside(path)
    assert aside.name == "history.db.corrupt-20231114T221320Z"
    assert aside.read_bytes() == broken
    assert store.state.corrupt_files == 1
    assert store.state.success
    store.close()
    assert len([line for line in said(caplog) if "was corrupt and was renamed" in line]) == 1
    assert is_sound(path)


def test_damage_found_while_writing_renames_the_file(path: Path, clock: Clock) -> None:
    """The pending rows are written into the new file."""
    filled(path, 200)
    store = Store(path, SETTINGS)
    clock.tick(store)
    with closing(open_to_write(path)) as another:  # what the store remembers of the file is old now
        insert_rows(another, INTERVALS, [interval(500)])
        another.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for page in range(1, 40):
        overwrite(path, page * 4096, b"\xa5" * 4096)
    for number in range(200, 220):
        store.put(batch(number))
        clock.tick(store)
    assert store.state.corrupt_files == 1
    assert store.state.failures == {StoreFailure.CORRUPT: 1}
    store.close()
    assert rows(path, INTERVALS)[-1] == interval(219)
    assert is_sound(path)


def scribbled(path: Path) -> None:
    """Noise all over the file."""
    with path.open("r+b") as file:
        for offset in range(0, path.stat().st_size, 97):
            file.seek(offset)
            file.write(b"\xa5" * 40)


def emptied(path: Path) -> None:
    """Nothing is left in it, as after `> history.db`."""
    os.truncate(path, 0)


def halved(path: Path) -> None:
    """Its end is gone."""
    os.truncate(path, path.stat().st_size // 2)


def test_the_log_and_the_file_may_be_scribbled_on_and_emptied(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Under the running agent: each is detected at once, and the next interval is written."""
    store = Store(path, SETTINGS)
    log = path.with_name("history.db-wal")
    harms = [(log, scribbled, 0), (path, scribbled, 1), (path, emptied, 2), (path, halved, 3)]
    number = 0
    kept: list[int] = []
    for file, harm, broken in harms:
        for _ in range(30):
            kept.append(number)
            store.put(batch(number))
            clock.tick(store)
            number += 1
        if file == log:
            file.write_bytes(b"x" * 40_000)
        harm(file)
        clock.tick(store)
        assert store.state.corrupt_files == broken
        assert store.state.failures.get(StoreFailure.CORRUPT, 0) == broken
        assert store.state.success is (not broken or (harm is scribbled and file == log))
        store.put(batch(number))
        clock.tick(store)
        assert is_well(store)
        kept = [*([] if broken else kept), number]
        assert rows(path, INTERVALS) == [interval(k) for k in kept]
        number += 1
    store.close()
    assert rows(path, INTERVALS) == [interval(number - 1)]
    assert is_sound(path)
    assert len(put_aside(path)) == 3
    assert "another program has emptied the file" in "".join(said(caplog))


def test_damage_to_a_log_that_a_reader_holds_open_is_found(path: Path, clock: Clock) -> None:
    """Its frames are not in the file yet; the damage is found before the next write."""
    filled(path, 30)
    store = Store(path, SETTINGS)
    clock.tick(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM interval").fetchall()
        for number in range(30, 60):
            store.put(batch(number))
            clock.tick(store)
        log = path.with_name("history.db-wal")
        assert log.stat().st_size > 0
        scribbled(log)
        store.put(batch(60))
        clock.tick(store)
        assert store.state.failures == {StoreFailure.CORRUPT: 1}
    clock.tick(store)
    assert is_well(store)
    store.close()
    assert rows(path, INTERVALS) == [interval(60)]


def test_a_write_by_another_program_is_no_damage(path: Path, clock: Clock) -> None:
    """The file is checked after an import beside the agent, and both go on."""
    filled(path, 3)
    store = Store(path, SETTINGS)
    clock.tick(store)
    with closing(open_to_write(path)) as another:
        insert_rows(another, INTERVALS, [interval(7)])
        another.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.put(batch(9))
    clock.tick(store)
    assert (store.state.failures, store.state.rows["intervals"]) == ({}, 5)
    store.close()
    assert rows(path, INTERVALS) == [interval(k) for k in (0, 1, 2, 7, 9)]


@pytest.mark.parametrize("cell", ["resources = '{'", "throughput = 'much'"])
def test_damage_that_only_reading_finds_renames_the_file(
    path: Path, clock: Clock, cell: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Pages may be valid and their contents not: the window is then empty."""
    filled(path, 5)
    with closing(open_to_write(path)) as damaging:
        damaging.execute(f"UPDATE interval SET {cell} WHERE at = {ZERO + STEP}")
    store = Store(path, SETTINGS)
    answer = store.read_window(ALL)
    clock.tick(store)
    assert store.state.corrupt_files == 1
    clock.tick(store)
    assert len(answer.result(0)) == 0
    store.close()
    assert len(put_aside(path)) == 1


def test_a_removed_file_is_created_again(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is written into a file that has no name any more."""
    store = Store(path, SETTINGS)
    store.put(batch(0))
    clock.tick(store)
    for file in path.parent.glob("history.db*"):
        if file.suffix != ".lock":
            file.unlink()
    for number in (1, 2):
        store.put(batch(number))
        clock.tick(store)
    assert rows(path, INTERVALS) == [interval(1), interval(2)]
    assert "was moved or deleted" in said(caplog)[0]
    store.close()


@pytest.mark.parametrize("read_meanwhile", [False, True])
@pytest.mark.parametrize("endings", [["-wal"], ["-shm"], ["-wal", "-shm"]], ids="".join)
def test_a_removed_log_loses_no_row(
    path: Path,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    endings: list[str],
    read_meanwhile: bool,
) -> None:
    """SQLite would write on into the file without a name, which a kill of the agent deletes."""
    store = Store(path, SETTINGS)
    store.put(batch(0))
    clock.tick(store)
    for ending in endings:
        path.with_name(f"history.db{ending}").unlink()
    if read_meanwhile:
        with suppress(sqlite3.Error), closing(open_to_read(path)) as reader:
            reader.execute("SELECT COUNT(*) FROM interval").fetchall()
    store.put(batch(1))
    clock.tick(store)
    (line,) = said(caplog)
    assert f"history.db{endings[0]}: the file was moved or deleted; all rows are kept" in line
    clock.tick(store)
    assert is_well(store)
    as_killed = path.parent / "killed"
    as_killed.mkdir(mode=0o700)
    for file in path.parent.glob("history.db*"):
        shutil.copy(file, as_killed)
    expected = [interval(0), interval(1)]
    for place in (path, as_killed / path.name):
        assert rows(place, INTERVALS) == expected
    store.close()
    assert rows(path, INTERVALS) == expected
    assert is_sound(path)


def test_a_removed_folder_is_locked_again(path: Path, clock: Clock) -> None:
    """The lock was removed with it; a second agent must not write into the new file."""
    first, second = Store(path, SETTINGS), Store(path, SETTINGS)
    first.put(batch(0))
    clock.tick(first)
    shutil.rmtree(path.parent)
    for number in (1, 2):
        first.put(batch(number))
        clock.tick(first)
    open_files = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    assert not [name for name in open_files if name.endswith(".lock (deleted)")]
    second.put(batch(3))
    clock.tick(second)
    assert second.state.failures == {StoreFailure.TAKEN: 1}
    first.close()
    second.close()
    assert rows(path, INTERVALS) == [interval(k) for k in (1, 2, 3)]


def test_only_the_latest_corrupt_files_are_kept(path: Path, clock: Clock) -> None:
    """A disk that breaks every file does not fill with them."""
    for number in range(6):
        filled(path, 2)
        text(path)
        store = Store(path, SETTINGS, clock=lambda: 1_700_000_000.0)
        store.put(batch(number))
        clock.tick(store)
        store.close()
    assert len(put_aside(path)) == 3


# --- whose it is


def test_the_second_of_two_agents_runs_without_a_history(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """It logs that once, disturbs nothing, and takes over when the first one has ended."""
    first, second = Store(path, SETTINGS), Store(path, SETTINGS)
    first.put(batch(0))
    clock.tick(first)
    second.put(batch(1))
    clock.tick(second)
    clock.tick(second)
    assert second.state.failures == {StoreFailure.TAKEN: 2}
    assert len(said(caplog)) == 1
    assert "another agent writes this history" in said(caplog)[0]
    first.put(batch(2))
    first.close()
    assert rows(path, INTERVALS) == [interval(0), interval(2)]
    clock.tick(second)
    assert second.state.success
    second.close()
    assert rows(path, INTERVALS) == [interval(0), interval(1), interval(2)]


def test_a_file_of_a_later_version_is_left_unchanged(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent runs without a history; after a downgrade nothing is lost."""
    filled(path, 2)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    store = Store(path, SETTINGS)
    store.put(batch(5))
    clock.tick(store)
    clock.tick(store)
    store.close()
    assert store.state.failures[StoreFailure.NEWER] >= 2
    assert len(said(caplog)) == 1
    assert put_aside(path) == []
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT COUNT(*) FROM interval").fetchone() == (2,)
    connection.close()


# --- no room, no right


def test_after_a_full_disk_all_waiting_rows_are_written(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once and counted; once there is space all that waited is written, in order."""
    caplog.set_level(logging.INFO)
    with small_disk(tmp_path / "disk", "2m") as disk:
        path = disk / "history.db"
        store = Store(path, SETTINGS)
        clock.tick(store)
        ballast = disk / "ballast"
        number = 0
        while is_well(store):
            store.put(batch(number))
            clock.tick(store)
            number += 1
            if number == 20:
                fill(ballast)
        assert store.state.failures == {StoreFailure.FULL: 1}
        for more in range(number, number + 30):
            store.put(batch(more))
            clock.tick(store)
        assert len(said(caplog)) == 1
        assert "full" in said(caplog)[0]
        assert [row.at for row in rows(path, INTERVALS)][:20] == [interval(k).at for k in range(20)]
        ballast.unlink()
        clock.tick(store)
        assert is_well(store)
        assert store.state.dropped == 0
        assert "the history can be written again" in [r.message for r in caplog.records]
        store.close()
        assert rows(path, INTERVALS) == [interval(k) for k in range(number + 30)]
        assert is_sound(path)


def is_well(store: Store) -> bool:
    """Whether its latest attempt succeeded."""
    return bool(store.state.success)


def test_a_start_on_a_full_disk_reads_the_stored_rows(tmp_path: Path, clock: Clock) -> None:
    """After a crash, with the log still there, and after an orderly end."""
    for ended in (True, False):
        with small_disk(tmp_path / f"disk-{ended}", "2m") as disk:
            path = disk / "history.db"
            store = Store(path, SETTINGS)
            for number in range(10):
                store.put(batch(number))
            clock.tick(store)
            if ended:
                store.close()
            else:
                store._lock.release()  # as the end of the process does
            fill(disk / "ballast")
            next_one = Store(path, SETTINGS)
            answer = next_one.read_window(ALL)
            clock.tick(next_one)
            assert answer.result(0)["throughput"].tolist() == [100.0 + k for k in range(10)]
            next_one.close()
            store.close()


def test_the_agent_runs_on_with_a_read_only_file_system(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once; stored rows are read; once writable, new ones are written."""
    with small_disk(tmp_path / "disk", "4m") as disk:
        path = filled(disk / "history.db", 10)
        remount(disk, "ro")
        store = Store(path, SETTINGS)
        answer = store.read_window(ALL)
        for number in range(10, 15):
            store.put(batch(number))
            clock.tick(store)
        assert answer.result(0)["throughput"].tolist() == [100.0 + k for k in range(10)]
        assert store.state.failures == {StoreFailure.READ_ONLY: 5}
        assert len(said(caplog)) == 1
        remount(disk, "rw")
        clock.tick(store)
        assert store.state.success
        store.close()
        assert rows(path, INTERVALS) == [interval(k) for k in range(15)]


# --- too much


def test_rows_beyond_the_buffer_are_dropped_and_counted(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The oldest first; memory stays bounded whatever the disk does."""
    first = Store(path, SETTINGS)
    clock.tick(first)
    second = Store(path, SETTINGS, most_waiting=10 * batch(0).bytes)
    for number in range(25):
        second.put(batch(number))
        clock.tick(second)
    dropped = second.state.dropped
    assert 13 <= dropped <= 17
    assert len([line for line in said(caplog) if "will have a gap" in line]) == 1
    first.close()
    clock.tick(second)
    second.close()
    assert rows(path, INTERVALS) == [interval(k) for k in range(dropped, 25)]


def test_batches_dropped_during_a_write_count_only_if_it_fails() -> None:
    """The counter never falls, though whether they are stored is known later only."""
    counted, buffer = [], WriteBuffer(max_bytes=3 * batch(0).bytes + 100)
    for number in range(3):
        buffer.put(batch(number))
    being_written = buffer.oldest(2)
    for number in range(3, 5):
        buffer.put(batch(number))
        counted.append(buffer.dropped)
    buffer.remove_written(being_written)
    counted.append(buffer.dropped)
    assert counted == [0, 0, 0]
    buffer.oldest(1)  # a write that fails
    buffer.put(batch(5))
    assert buffer.dropped == 0
    buffer.oldest(1)
    buffer.put(batch(6))
    assert buffer.dropped == 1


def test_a_hanging_store_blocks_no_caller(path: Path) -> None:
    """`put` returns while the worker is stuck; that does not make the agent count as hanging."""
    stuck, go_on = threading.Event(), threading.Event()

    def clock() -> float:
        stuck.set()
        go_on.wait()
        return 1_700_000_000.0

    store = Store(path, SETTINGS, clock=clock)
    store.worker.start()
    assert stuck.wait(20)
    for number in range(100):
        store.put(batch(number))
    assert not store.worker.is_hanging(time.monotonic() + 1e6)
    go_on.set()
    store.worker.stop()
    store.worker.join(20)
    assert rows(path, INTERVALS) == [interval(k) for k in range(100)]
