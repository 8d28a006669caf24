"""The history's file: private, versioned, bounded; what was written is read back as it was."""

import os
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from history_rows import (
    SERVER,
    SETTINGS,
    STEP,
    ZERO,
    batch,
    everything,
    filled,
    fit,
    interval,
    is_sound,
    rows,
)

from agent.config.history_settings import HistorySettings, RetentionSettings
from agent.history import prune
from agent.history.failures import StoreError, StoreFailure
from agent.history.history_file import history_path, size_on_disk
from agent.history.open_database import open_to_read, open_to_write
from agent.history.row_access import RowFilter, extents, insert_rows, select_rows
from agent.history.row_kinds import FITS, INTERVALS, KINDS, SAMPLES, Row
from agent.history.sample_compression import pack, unpack
from agent.history.schema import APPLICATION_ID, VERSION
from agent.history.store import Store
from agent.history.wall_clock_check import WallClockCheck
from agent.history.window_reader import WindowQuery, read_window


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a history is to be, in a folder that is not there yet."""
    return tmp_path / "state" / "history.db"


def test_rows_are_read_back_unchanged(path: Path) -> None:
    """Numbers to the last bit, words, names, and unknown values."""
    filled(path, 3)
    found = everything(path)
    assert found["intervals"] == [interval(k) for k in range(3)]
    assert found["fits"] == [fit(k) for k in range(3)]
    assert len(found["samples"]) == 45
    first = found["samples"][0]
    assert (first.labels, first.at) == (("db", SERVER, "status"), ZERO - 14_000)
    assert first.cells == ({"questions": 1e6 + ZERO - 14, "uptime": 70.0},)


def test_a_name_absent_from_a_sample_stays_absent() -> None:
    """Packed samples need not have the same names; an absent one is no zero."""
    readings = [(ZERO, {"a": 1.0}), (ZERO + 1, {"a": 2.0, "b": 1e300}), (ZERO + 2, {"b": -0.5})]
    assert list(unpack(pack("host", readings))) == readings


def test_inserting_the_same_rows_again_changes_nothing(path: Path) -> None:
    """An existing row is neither doubled nor changed."""
    filled(path, 5)
    before = everything(path)
    with closing(open_to_write(path)) as connection:
        assert (
            insert_rows(connection, INTERVALS, [interval(2)._replace(cells=(1.0,) * 8 + (None,))])
            == 0
        )
        assert insert_rows(connection, FITS, [fit(4)]) == 0
        assert insert_rows(connection, SAMPLES, before["samples"]) == 0
    assert everything(path) == before


def test_overlapping_samples_are_added_once(path: Path) -> None:
    """Chunks need not begin where others ended."""
    filled(path, 2)
    known = rows(path, SAMPLES)
    late = [row._replace(at=row.at + 5 * 1000) for row in known]
    with closing(open_to_write(path)) as connection:
        assert insert_rows(connection, SAMPLES, [*known, *late]) == 5
    assert len(rows(path, SAMPLES)) == 35


def test_rows_are_selected_by_target_and_time(path: Path) -> None:
    """Both ends are included; another target's rows are not."""
    filled(path, 10, "a", "b")
    choice = RowFilter("b", None, ZERO + 3 * STEP, ZERO + 5 * STEP)
    with closing(open_to_read(path)) as connection:
        found = list(select_rows(connection, INTERVALS, choice))
        samples = list(select_rows(connection, SAMPLES, choice))
    assert found == [interval(k, "b") for k in (3, 4, 5)]
    assert {row.labels[0] for row in samples} == {"b"}
    assert (samples[0].at, samples[-1].at, len(samples)) == (choice.since, choice.until, 31)


def test_more_rows_than_a_page_are_all_read(path: Path) -> None:
    """Rows come in pages, in order, each once."""
    store = Store(path, SETTINGS)
    with closing(open_to_write(path)) as connection:
        insert_rows(connection, INTERVALS, [interval(k) for k in range(2345)])
    store.close()
    assert [row.at for row in rows(path, INTERVALS)] == [ZERO + STEP * k for k in range(2345)]


def test_the_extent_of_each_kind_is_reported(path: Path) -> None:
    """Per target and kind: the number of rows, and the first and last time."""
    filled(path, 4, "a", "b")
    with closing(open_to_read(path)) as connection:
        found = [extent for kind in KINDS.values() for extent in extents(connection, kind)]
    assert [(e.target, e.kind, e.rows) for e in found] == [
        ("a", "intervals", 4),
        ("b", "intervals", 4),
        ("a", "fits", 4),
        ("b", "fits", 4),
        ("a", "samples", 60),
        ("b", "samples", 60),
        ("a", "classes", 12),
        ("b", "classes", 12),
        ("a", "business", 4),
        ("b", "business", 4),
    ]
    assert (found[0].first, found[0].last) == (ZERO, ZERO + 3 * STEP)


def wanted(count: int, width: float = 15.0, server: str = SERVER) -> WindowQuery:
    """The window of the first so many intervals."""
    return WindowQuery("db", server, width, ZERO, ZERO + STEP * (count - 1))


def test_a_window_is_read_back_for_the_same_server_and_width_only(path: Path) -> None:
    """Not for another server under the same name, or for intervals of another width."""
    filled(path, 6)
    with closing(open_to_write(path)) as connection:
        assert read_window(connection, wanted(4)) == [(interval(k), 1.0) for k in range(4)]
        assert read_window(connection, wanted(4, width=5.0)) == []
        assert read_window(connection, wanted(4, server="another")) == []


def test_a_long_window_is_thinned_like_one_in_memory(path: Path) -> None:
    """A month of intervals takes no more memory than a window; together they represent all."""
    count = 3000
    with closing(open_to_write(path)) as connection:
        connection.execute("BEGIN")
        insert_rows(connection, INTERVALS, [interval(k) for k in range(count)])
        connection.execute("COMMIT")
        found = read_window(connection, wanted(count))
    assert len(found) <= 500
    assert found[-1][0] == interval(count - 1)
    assert sum(stands_for for _, stands_for in found) == pytest.approx(count)
    assert [row.at for row, _ in found] == sorted(row.at for row, _ in found)


def test_a_saturation_is_read_back_among_hours_of_the_same_throughput(path: Path) -> None:
    """By its concurrency, from whichever source is known."""
    names = [column.name for column in INTERVALS.columns]
    concurrency, threads, throughput = (
        names.index(name) for name in ("statement_time", "threads_running", "throughput")
    )
    history = []
    for k in range(3000):
        cells = list(interval(k).cells)
        cells[throughput], cells[concurrency], cells[threads] = 1000.0, None, 3.0
        if 1000 <= k < 1010:
            cells[threads] = 80.0
        elif 2000 <= k < 2010:
            cells[concurrency] = 80.0
        history.append(interval(k)._replace(cells=tuple(cells)))
    with closing(open_to_write(path)) as connection:
        connection.execute("BEGIN")
        insert_rows(connection, INTERVALS, history)
        connection.execute("COMMIT")
        found = [row for row, _ in read_window(connection, wanted(3000))]
    assert sum(row.cells[threads] == 80.0 for row in found) == 10
    assert sum(row.cells[concurrency] == 80.0 for row in found) == 10


# --- private


def mode(path: Path) -> int:
    """The rights of a file or a folder."""
    return stat.S_IMODE(path.stat().st_mode)


def test_the_file_its_log_and_its_folder_are_private(path: Path) -> None:
    """Whatever the umask."""
    before = os.umask(0)
    try:
        store = Store(path, SETTINGS)
        store.put(batch(0))
        store.tick(0.0)
        modes = {file.name: mode(file) for file in path.parent.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert mode(path.parent) == 0o700
    expected = ("history.db", "history.db-shm", "history.db-wal", "history.db.lock")
    assert modes == dict.fromkeys(expected, 0o600)


def test_a_readable_file_is_made_private(path: Path) -> None:
    """A copy with other permissions, for instance."""
    filled(path, 1)
    path.chmod(0o644)
    open_to_write(path).close()
    assert mode(path) == 0o600


@pytest.mark.parametrize("rights", [0o777, 0o770, 0o1777])
def test_a_world_writable_folder_is_refused(path: Path, rights: int) -> None:
    """Who can write there can replace the file; the sticky bit does not protect a new one."""
    path.parent.mkdir()
    path.parent.chmod(rights)
    with pytest.raises(StoreError, match="give the history a folder of its own") as caught:
        open_to_write(path)
    assert caught.value.kind is StoreFailure.EXPOSED
    assert list(path.parent.iterdir()) == []


def test_the_path_is_the_configured_one_else_systemds(path: Path) -> None:
    """Without either there is no history."""
    state = {"STATE_DIRECTORY": "/var/lib/mysql-headroom:/var/lib/other"}
    assert history_path(path, state) == path
    assert history_path(None, state) == Path("/var/lib/mysql-headroom/history.db")
    assert history_path(None, {}) is None


# --- versions


def test_the_file_has_an_application_id(path: Path) -> None:
    """`file` and every SQLite tool can show it."""
    filled(path, 1)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)


def test_a_file_of_a_later_version_is_not_changed(path: Path) -> None:
    """It is refused with the remedy, byte for byte as it was."""
    filled(path, 2)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
        connection.execute("PRAGMA journal_mode = DELETE")
    before = path.read_bytes()
    for opened in (open_to_write, open_to_read):
        with pytest.raises(StoreError, match="made by a later version of the agent") as caught:
            opened(path)
        assert caught.value.kind is StoreFailure.NEWER
    assert path.read_bytes() == before


def test_another_programs_database_is_not_changed(path: Path) -> None:
    """A wrong path in the configuration costs nobody's data."""
    path.parent.mkdir(mode=0o700)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE customer (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="this database is not a history") as caught:
        open_to_write(path)
    assert caught.value.kind is StoreFailure.FOREIGN
    assert path.read_bytes() == before


# --- bounded


def test_each_kind_is_deleted_after_its_retention(path: Path) -> None:
    """Samples after an hour, intervals after a month, with a steady clock."""
    filled(path, 40)
    kept = RetentionSettings(samples=60, intervals=120, fits=300, classes=300, business=300)
    now = ZERO + 39 * STEP
    store = Store(path, HistorySettings(retention=kept), clock=lambda: now / 1000)
    store.tick(0.0)
    assert [len(found) for found in everything(path).values()] == [40, 40, 600, 120, 40]
    now += 700_000
    store.tick(700.0)
    store.close()
    assert everything(path) == {name: [] for name in KINDS}
    with closing(open_to_read(path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM query_class").fetchone() == (0,)


def test_rows_within_their_retention_stay(path: Path) -> None:
    """Only older rows are deleted."""
    filled(path, 40)
    with closing(open_to_write(path)) as connection:
        at = ZERO + 30 * STEP
        assert prune.delete_rows(connection, INTERVALS, at) == 30
        assert prune.delete_rows(connection, SAMPLES, at) == 15 * 30
    assert next(row.at for row in rows(path, INTERVALS)) == at
    assert len(rows(path, FITS)) == 40


def test_setting_the_clock_does_not_empty_the_history() -> None:
    """After ten minutes without a step it is believed; 30 s of drift are no step."""
    clock = WallClockCheck()
    assert not clock.is_steady(0.0, 1e9)
    assert not clock.is_steady(599.0, 1e9 + 599)
    assert clock.is_steady(601.0, 1e9 + 620)
    assert not clock.is_steady(602.0, 2e9)
    assert not clock.is_steady(1100.0, 2e9 + 498)
    assert clock.is_steady(1300.0, 2e9 + 698)


YEAR = 365 * 86400.0
LEAP = 660.0  # seconds for which the clock is wrong


@pytest.mark.parametrize(("leap", "is_restarted"), [(YEAR, False), (30 * YEAR, True)])
def test_a_clock_ahead_for_eleven_minutes_costs_minutes_of_rows(
    path: Path, leap: float, is_restarted: bool
) -> None:
    """Then NTP corrects it, and the month that was kept is there, restarted or not."""
    width = 600_000
    count = 31 * 24 * 6  # a month
    with closing(open_to_write(path)) as connection:
        connection.execute("BEGIN")
        for number in range(count):
            row = interval(number)._replace(at=ZERO + width * number)
            insert_rows(connection, INTERVALS, [row])
        connection.execute("COMMIT")
    begin = (ZERO + width * count) / 1000
    monotonic, ahead = 0.0, 0.0

    def begun() -> Store:
        return Store(path, SETTINGS, clock=lambda: begin + monotonic + ahead)

    store = begun()
    for second in range(0, 1800, 20):
        monotonic = float(second)
        ahead = leap if 600 <= second < 600 + LEAP else 0.0
        if second == 620 and is_restarted:
            store.close()
            store = begun()
        store.put(batch(0, server=f"of second {second}"))
        while store.tick(monotonic) <= monotonic:
            pass
    store.close()
    kept = [row for row in rows(path, INTERVALS) if row.labels[1] == SERVER]
    assert kept[0].at <= ZERO + 3600 * 1000
    assert len(kept) >= count - 6


def test_old_rows_are_deleted_after_a_long_pause(path: Path) -> None:
    """A day of rows in an hour, and a gap in them takes no time."""
    with closing(open_to_write(path)) as connection:
        connection.execute("BEGIN")
        insert_rows(connection, INTERVALS, [interval(k) for k in range(2 * 5760)])  # two days
        connection.execute("COMMIT")
    hours = 0.0
    begin = ZERO / 1000 + 400 * 86400
    store = Store(path, SETTINGS, clock=lambda: begin + 3600 * hours)
    left = []
    for step in range(30):
        hours = step / 12
        now = 3600 * hours
        while store.tick(now) <= now:
            pass
        left.append(store.state.rows["intervals"])
    store.close()
    assert left[0] == left[1] == 2 * 5760
    assert 4000 < left[15] < 7500
    assert left[-1] == 0


def test_the_file_does_not_grow_over_many_deletions(path: Path) -> None:
    """After five hours of writing and deleting it has the rows that it should, and its size."""
    kept = RetentionSettings(samples=300, intervals=600, fits=1200, classes=600, business=600)
    now = 0.0
    store = Store(path, HistorySettings(retention=kept), clock=lambda: ZERO / 1000 + now)
    sizes = []
    for number in range(1200):
        now = number * STEP / 1000
        store.put(batch(number))
        while store.tick(now) <= now:
            pass
        sizes.append(size_on_disk(path))
    found = everything(path)
    counts = {name: len(of_kind) for name, of_kind in found.items()}
    assert dict(store.state.rows) == counts
    assert 40 <= counts["intervals"] <= 45
    assert 80 <= counts["fits"] <= 85
    assert 20 * 15 <= counts["samples"] <= 25 * 15
    assert 3 * 40 <= counts["classes"] <= 3 * 45
    assert 40 <= counts["business"] <= 45
    assert max(sizes[800:]) <= 1.01 * max(sizes[400:800])
    store.close()
    assert path.stat().st_size < 2**18


def test_a_full_file_loses_its_oldest_rows(path: Path) -> None:
    """The size stays below the maximum, and the newest intervals are there."""
    most = 16 * 2**20
    settings = HistorySettings(max_size=most)
    store = Store(path, settings)
    now = 0.0
    per_round, rounds = 6000, 12
    for turn in range(rounds):
        with closing(open_to_write(path)) as connection:
            connection.execute("BEGIN")
            numbers = range(turn * per_round, (turn + 1) * per_round)
            insert_rows(connection, INTERVALS, [interval(k) for k in numbers])
            insert_rows(connection, FITS, [fit(k) for k in numbers])
            connection.execute("COMMIT")
        now += 100.0
        while (due := store.tick(now)) <= now:
            assert due == now
    assert size_on_disk(path) <= most
    store.close()
    found = rows(path, INTERVALS)
    assert found[-1] == interval(per_round * rounds - 1)
    assert found[0].at > ZERO
    assert len(found) > per_round
    assert is_sound(path)


def test_a_target_without_rows_is_deleted_too(path: Path) -> None:
    """Names do not accumulate; the others keep theirs."""
    filled(path, 3, "old")
    filled(path, 1, "new")
    with closing(open_to_write(path)) as connection:
        for kind in KINDS.values():
            prune.delete_rows(connection, kind, ZERO + 10 * STEP)
        insert_rows(connection, INTERVALS, [interval(9, "new")])
        prune.delete_unused_names(connection)
        assert connection.execute("SELECT name FROM target").fetchall() == [("new",)]


def test_unused_names_of_samples_are_deleted(path: Path) -> None:
    """Devices come and go; names that other samples have stay."""
    with closing(open_to_write(path)) as connection:
        for number in range(20):
            values = {f"disk:sd{number % 4}:reads": 1.0}
            row = Row(("db", SERVER, "host"), ZERO + number, (values,))
            insert_rows(connection, SAMPLES, [row])
        count = "SELECT COUNT(*) FROM layout"
        assert connection.execute(count).fetchone() == (4,)
        prune.delete_rows(connection, SAMPLES, ZERO + 10)
        assert connection.execute(count).fetchone() == (4,)
        prune.delete_rows(connection, SAMPLES, ZERO + 18)
        assert connection.execute(count).fetchone() == (2,)
        assert len(list(select_rows(connection, SAMPLES))) == 2
        prune.delete_rows(connection, SAMPLES, ZERO + 20)
        assert connection.execute(count).fetchone() == (0,)


def test_a_damaged_chunk_is_an_error() -> None:
    """Whichever byte changed, except for the unused bits before the checksum."""
    readings = [(ZERO + k, {"a": 1.5 * k, "b": 0.1}) for k in range(10)]
    chunk, noticed = pack("host", readings), 0
    for k in range(len(chunk.data)):
        flipped = bytes([chunk.data[k] ^ 0x10])
        data = chunk.data[:k] + flipped + chunk.data[k + 1 :]
        try:
            found = list(unpack(replace(chunk, data=data)))
        except StoreError:
            noticed += 1
        else:
            assert found == readings
    assert noticed >= len(chunk.data) - 1


@pytest.mark.parametrize("count", [0, 5, 9, 11, 20])
def test_a_chunk_with_a_wrong_count_is_an_error(count: int) -> None:
    """A smaller one would read the columns at wrong places."""
    chunk = pack("host", [(ZERO + k, {"a": 1.5 * k, "b": 0.1}) for k in range(10)])
    with pytest.raises(StoreError, match="samples of host cannot be unpacked"):
        list(unpack(replace(chunk, count=count)))
    with pytest.raises(StoreError, match="samples of host cannot be unpacked"):
        list(unpack(replace(chunk, data=chunk.data[:-1])))
