"""From the window to the file and back: what an agent knew is what the next one begins with."""

import math
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from history_rows import SERVER, SETTINGS, rows

from agent.assessment.deploy_markers import Marker
from agent.assessment.snapshot import AssessmentState, Health
from agent.config.history_settings import HistorySettings, RetentionSettings
from agent.config.settings import FitSettings
from agent.history.business_values import ReadValue
from agent.history.history_recorder import HistoryRecorder
from agent.history.marker_table import insert_markers, read_markers
from agent.history.open_database import open_to_read, open_to_write
from agent.history.row_access import Extent, extents
from agent.history.row_kinds import BUSINESS, CLASSES, FITS, INTERVALS, KINDS, SAMPLES
from agent.history.row_mapping import ClassUses
from agent.history.server_identity import server_identity
from agent.history.store import Store
from agent.pipeline import assess
from agent.query_classes.attribution_snapshot import IntervalUsage
from agent.support.clock_pair import ClockPair
from agent.window.interval_buffer import IntervalBuffer
from collectors.base import Sample

WIDTH = 10.0
MYSQL = {"server_uuid": SERVER, "hostname": "h", "port": "3306", "datadir": "/d/"}
FIT = FitSettings(interval=WIDTH, window=3600.0)
UNIX = 1_700_000_000.0


class Life:
    """One life of an agent, without its threads: a window, a recorder, and two clocks.

    `born` is the monotonic clock at its beginning, `ahead` by how much the wall clock is wrong.
    """

    def __init__(
        self, path: Path, unix: float, born: float = 0.0, settings: HistorySettings = SETTINGS
    ) -> None:
        self.store = Store(path, settings)
        self.buffer = IntervalBuffer(WIDTH, FIT.window, sampling=1.0)
        self.recorder = HistoryRecorder(self.store, "db")
        self.fitted = AssessmentState()
        self.at = born
        self.ahead = unix - born

    @property
    def now(self) -> ClockPair:
        """The present moment on both clocks."""
        return ClockPair(self.at, self.at + self.ahead)

    def begin(self, variables: dict[str, str] = MYSQL) -> None:
        """The server answers, and what was read back is taken in."""
        self.answer(variables)
        self.recorder.follow_server(self.buffer, self.now)
        self.store.tick(self.at)
        self.recorder.follow_server(self.buffer, self.now)

    def answer(self, variables: dict[str, str]) -> None:
        """A server answers at the address."""
        self.buffer.switch_server(server_identity(variables))

    def live(self, seconds: float, load: float = 100.0) -> None:
        """Sample once a second, and look for a complete interval each time."""
        for _ in range(round(seconds)):
            self.at += 1.0
            values = {
                "questions": load * self.at,
                "own_statements": 0.0,
                "threads_running": 5.0 + self.at % 3,
                "uptime": np.floor(self.at + 1e5),
                "threads_connected": 20.0,
                "max_connections": 100.0,
            }
            sample = Sample("status", self.at, values)
            self.buffer.append(sample)
            self.recorder.keep_sample(sample)
            self.look()

    def look(self) -> None:
        """As the worker that fits does."""
        self.recorder.follow_server(self.buffer, self.now)
        window = self.buffer.window(self.at)
        known = assess("db", window, Health(True), self.fitted, FIT, self.now)
        self.fitted = known.assessed
        self.recorder.record(self.buffer, self.fitted, self.now)
        self.store.tick(self.at)

    def end(self) -> None:
        """In good order."""
        self.recorder.record(self.buffer, self.fitted, self.now, last=True)
        self.store.close()

    @property
    def ends(self) -> list[float]:
        """The window's ends in Unix seconds."""
        return [self.now.to_unix(end) for end in self.buffer.window(self.at)["end"]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the history is to be."""
    return tmp_path / "state" / "history.db"


@pytest.fixture
def first(path: Path) -> Life:
    """A life of five minutes that has ended."""
    life = Life(path, UNIX)
    life.begin()
    life.live(300)
    life.end()
    return life


def test_a_restarted_agent_begins_with_the_stored_window(first: Life, path: Path) -> None:
    """Every interval with all its numbers, at its own time, also after a reboot."""
    life = Life(path, UNIX + 400.0, born=5.0)
    life.begin()
    before, after = first.buffer.window(first.at), life.buffer.window(life.at)
    assert len(after) == len(before) == 28
    assert life.ends == pytest.approx(first.ends, abs=0.002)
    for name in ("seconds", "throughput", "threads_running", "thread_samples", "statement_time"):
        assert after[name].tolist() == pytest.approx(before[name].tolist(), nan_ok=True), name
    assert after.utilisations["connections"] == pytest.approx(before.utilisations["connections"])
    life.end()


def test_new_intervals_follow_those_that_were_read_back(first: Life, path: Path) -> None:
    """In the order of time, none twice; all of them are stored for the next start."""
    life = Life(path, UNIX + 310.0, born=310.0)
    life.begin()
    life.live(60)
    life.end()
    ends = life.ends
    assert len(ends) == 28 + 4
    assert ends == sorted(ends)
    assert len(rows(path, INTERVALS)) == 28 + 4
    third = Life(path, UNIX + 400.0)
    third.begin()
    assert third.ends == pytest.approx(ends, abs=0.002)
    third.end()


def test_assessments_are_stored_with_trust_and_reasons(first: Life, path: Path) -> None:
    """Each once, with the values that the page had."""
    found = rows(path, FITS)
    assert found
    assert len({row.at for row in found}) == len(found)
    last = dict(zip((column.name for column in FITS.columns), found[-1].cells, strict=True))
    capacity = first.fitted.capacity
    assert capacity is not None
    assert last["trust"] == capacity.trust.value
    assert last["reasons"] == ",".join(capacity.reasons)
    assert last["capacity"] == capacity.value
    assert last["source"] == "threads_running"
    assert found[-1].at == round(1000 * (first.fitted.at or 0))


def test_all_samples_are_stored_also_of_incomplete_intervals(first: Life, path: Path) -> None:
    """An orderly shutdown writes those read since the last interval."""
    found = rows(path, SAMPLES)
    assert [row.at for row in found] == [round(1000 * (UNIX + k)) for k in range(1, 301)]
    assert found[0].cells[0] == {
        "questions": 100.0,
        "own_statements": 0.0,
        "threads_running": 6.0,
        "uptime": 100_001.0,
        "threads_connected": 20.0,
        "max_connections": 100.0,
    }


def test_no_samples_are_stored_with_a_retention_of_zero(path: Path) -> None:
    """`retention.samples: 0`: intervals and fits only."""
    settings = HistorySettings(retention=RetentionSettings(samples=0))
    life = Life(path, UNIX, settings=settings)
    life.begin()
    life.live(60)
    life.end()
    assert rows(path, SAMPLES) == []
    assert len(rows(path, INTERVALS)) == 4


def test_samples_of_digests_are_not_stored(path: Path) -> None:
    """What could hold the text of a statement does not get into the file."""
    life = Life(path, UNIX)
    life.begin()
    life.recorder.keep_sample(Sample("digests", 1.0, {"select secret": 1.0}))
    life.live(30)
    life.end()
    assert {row.labels[2] for row in rows(path, SAMPLES)} == {"status"}
    assert b"secret" not in path.read_bytes()


def test_samples_are_stored_during_a_long_interval(path: Path) -> None:
    """With intervals of ten minutes a crash loses no ten minutes of samples."""
    life = Life(path, UNIX)
    life.buffer = IntervalBuffer(600.0, 3600.0, sampling=1.0)
    life.begin()
    life.live(250)
    life.store.tick(life.at)
    assert len(rows(path, SAMPLES)) == 200
    life.end()
    assert len(rows(path, SAMPLES)) == 250


def test_a_window_that_was_taken_over_is_not_read_back_again(path: Path) -> None:
    """After a reload the monitor is another, its window the same; new intervals are stored."""
    life = Life(path, UNIX)
    life.begin()
    life.live(100)
    after = HistoryRecorder(life.store, "db")
    after.continue_from(life.recorder)
    buffer = IntervalBuffer(WIDTH, FIT.window, sampling=1.0)
    buffer.copy_window_from(life.buffer)
    life.recorder, life.buffer = after, buffer
    life.begin()
    assert len(life.ends) == 8
    life.live(60)
    assert life.ends == sorted(set(life.ends))
    life.end()
    assert len(rows(path, INTERVALS)) == len(life.ends)


OTHER = {**MYSQL, "server_uuid": "11111111-71ca-11e1-9e33-c80aa9429562"}


def test_another_server_under_the_same_name_has_its_own_history(first: Life, path: Path) -> None:
    """A target that was pointed elsewhere starts again; pointed back, it has its own again."""
    life = Life(path, UNIX + 310.0, born=310.0)
    life.begin(OTHER)
    assert life.ends == []
    life.live(40, load=7.0)
    life.end()
    back = Life(path, UNIX + 400.0)
    back.begin()
    assert back.ends == pytest.approx(first.ends, abs=0.002)
    back.end()


def renamed(path: Path, *watched: str, after: float = 400.0) -> Life:
    """A later life in which the target is called `primary`."""
    life = Life(path, UNIX + after)
    life.store.target_names = set(watched)
    life.recorder = HistoryRecorder(life.store, "primary")
    life.begin()
    return life


def test_a_renamed_target_keeps_its_window(first: Life, path: Path) -> None:
    """All kinds of rows, and markers, have the new name; none is left under the old one."""
    now = time.time()  # older ones would be deleted
    with closing(open_to_write(path)) as connection:
        insert_markers(connection, [Marker(now - 2, "4.2", "db"), Marker(now - 1, "all")])
    before = {kind.name: len(rows(path, kind)) for kind in KINDS.values()}
    life = renamed(path, "primary")
    assert life.ends == pytest.approx(first.ends, abs=0.002)
    life.end()
    with closing(open_to_read(path)) as connection:
        assert [marker.target for marker in read_markers(connection)] == ["primary", ""]
    assert {kind.name: len(rows(path, kind)) for kind in KINDS.values()} == before
    assert {row.labels[0] for kind in KINDS.values() for row in rows(path, kind)} == {"primary"}


def test_a_name_in_use_keeps_its_rows(first: Life, path: Path) -> None:
    """A second target of the same server starts again."""
    life = renamed(path, "primary", "db")
    assert life.ends == []
    life.end()
    assert {row.labels[0] for row in rows(path, INTERVALS)} == {"db"}


def test_a_name_with_rows_adopts_no_others(first: Life, path: Path) -> None:
    """Not even when the other target is gone."""
    life = renamed(path, "primary", "db")
    life.live(60)
    life.end()
    again = renamed(path, "primary", after=500.0)
    assert again.ends == pytest.approx(life.ends, abs=0.002)
    again.end()
    assert {row.labels[0] for row in rows(path, INTERVALS)} == {"db", "primary"}


def test_a_server_that_replaces_another_starts_a_new_window(path: Path) -> None:
    """After a failover behind one address the window has only the new server's intervals.

    What was read of the former one and not yet written is not written as the new one's.
    """
    life = Life(path, UNIX)
    life.begin()
    life.live(100)
    usage = IntervalUsage(UNIX + 100.0, 60.0, {"a1|": {"calls": 1.0}}, None, {}, frozenset())
    life.recorder.keep_class_uses(ClassUses(usage, {}))
    life.recorder.keep_value(ReadValue("orders", 100.0, 1.0))
    life.answer(OTHER)
    life.live(60, load=9.0)
    throughput = life.buffer.window(life.at)["throughput"]
    assert throughput == pytest.approx([9.0] * len(throughput))
    assert 4 <= len(throughput) <= 5
    life.answer(MYSQL)
    life.look()
    life.look()
    throughput = life.buffer.window(life.at)["throughput"]
    assert throughput == pytest.approx([100.0] * 8)
    life.end()
    assert len({row.labels for row in rows(path, INTERVALS)}) == 2
    for kind in (SAMPLES, CLASSES, BUSINESS):
        of_other = [r.at for r in rows(path, kind) if r.labels[1] == server_identity(OTHER)]
        assert min(of_other, default=math.inf) > 1000 * (UNIX + 100.0), kind.name
    assert {row.labels[1] for row in rows(path, SAMPLES)} == {SERVER, server_identity(OTHER)}


def test_future_intervals_are_not_read_back(first: Life, path: Path) -> None:
    """The clock was set back by two minutes: intervals that are not over yet are left out."""
    life = Life(path, UNIX + 190.0)
    life.begin()
    assert life.ends
    assert max(life.ends) <= UNIX + 190.0
    life.live(60)
    ends = life.ends
    assert ends == sorted(ends)
    life.end()


def test_a_clock_set_forward_makes_the_window_older(first: Life, path: Path) -> None:
    """Half an hour ahead, intervals are half an hour old; two hours ahead, too old."""
    ahead = Life(path, UNIX + 300.0 + 1800.0)
    ahead.begin()
    assert ahead.ends == pytest.approx(first.ends, abs=0.002)
    ahead.end()
    far_ahead = Life(path, UNIX + 300.0 + 7200.0)
    far_ahead.begin()
    assert far_ahead.ends == []
    far_ahead.end()


@pytest.mark.parametrize("wrong", [-1e9, 1e9])
def test_a_window_is_found_once_a_wrong_clock_is_corrected(
    first: Life, path: Path, wrong: float
) -> None:
    """As that of a machine that has just booted; no interval of the time before is there twice.

    The configuration may be reloaded before that.
    """
    life = Life(path, UNIX + 400.0 + wrong, born=5.0)
    life.begin()
    life.live(60)
    assert len(life.ends) == 5
    assert life.recorder.take_load() == []
    before, life.recorder = life.recorder, HistoryRecorder(life.store, "db")
    life.recorder.continue_from(before)
    life.ahead -= wrong
    life.live(20)
    assert life.ends == sorted(life.ends)
    assert life.ends[:28] == pytest.approx(first.ends, abs=0.002)
    assert len(life.ends) == 28 + 5 + 2
    load = life.recorder.take_load()
    assert load is not None
    assert sum(one.queries for one in load) == pytest.approx(28 * WIDTH * 100.0)
    life.end()


@pytest.mark.parametrize("ahead", [60.0, -60.0])
def test_a_clock_that_is_set_on_a_new_history_adds_nothing(path: Path, ahead: float) -> None:
    """Rows of a minute ago are not read back as those of an earlier run."""
    life = Life(path, UNIX)
    life.begin()
    life.live(120)
    before = life.ends
    assert life.recorder.take_load() == []
    life.ahead += ahead
    life.live(20)
    assert life.recorder.take_load() == []
    assert len(life.ends) == len(before) + 2
    life.end()


def test_a_file_that_becomes_readable_later_is_read_back_then(first: Life, path: Path) -> None:
    """While another agent has it, the window grows; then the earlier intervals are added."""
    holder = Store(path, SETTINGS)
    holder.tick(0.0)
    life = Life(path, UNIX + 310.0, born=310.0)
    life.begin()
    assert life.ends == []
    life.live(60)
    assert len(life.ends) == 4
    holder.close()
    life.at += 120.0
    life.look()
    life.look()
    assert len(life.ends) == 28 + 4
    assert life.ends == sorted(life.ends)
    life.end()
    assert len(rows(path, INTERVALS)) == 28 + 4


def test_a_server_is_identified_by_its_uuid() -> None:
    """Not by its address, which a proxy or another server may have tomorrow."""
    assert server_identity(MYSQL) == SERVER
    mariadb = {"server_uid": "Sb0cIAkcSJUbC45qm1vKFlE5dbk=", "hostname": "h", "port": "3307"}
    assert server_identity({**mariadb, "datadir": "/var/lib/mysql/"}) == "h:3307:/var/lib/mysql/"


def test_a_server_without_a_valid_uuid_is_identified_by_its_place() -> None:
    """A value that is no UUID is not used, and every identity is short."""
    for lie in ("x" * 1_600_000, "a\x1b[2Jb", "", "\ud800", "two words"):
        assert server_identity({**MYSQL, "server_uuid": lie}) == "h:3306:/d/"
    long = {"hostname": "h" * 1_600_000, "port": "3306", "datadir": "\ud800"}
    assert len(server_identity(long)) == 64
    assert server_identity(MYSQL) == SERVER


def test_the_number_of_new_server_identities_per_day_is_limited(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A server with a new identity at each connect displaces no known one."""
    life = Life(path, UNIX)
    life.begin()
    life.live(60)
    written = life.store.state.rows[INTERVALS.name]
    assert written > 0
    stored = []
    for number in range(60):
        life.begin({**MYSQL, "server_uuid": f"liar-{number}"})
        life.live(30)
        if number in (19, 59):
            stored.append(sum(extent.rows for extent in extents_of(life, path)))
    assert stored[0] == stored[1]
    found = sorted({extent.server for extent in extents_of(life, path)})
    assert len(found) <= 20
    assert SERVER in found
    said = [r for r in caplog.records if "too many servers" in r.message]
    assert len(said) == 41
    life.begin()
    life.live(60)
    assert life.recorder.server == SERVER
    life.end()


def extents_of(life: Life, path: Path) -> list[Extent]:
    """The extents of the intervals in the file by now."""
    life.store.tick(life.at)
    with closing(open_to_read(path)) as reading:
        return list(extents(reading, INTERVALS))


def test_a_refused_server_stays_refused_after_a_reload(path: Path) -> None:
    """It is logged once, and its samples do not become those of the next server."""
    before = Life(path, UNIX)
    before.begin()
    for number in range(21):
        before.begin({**MYSQL, "server_uuid": f"liar-{number}"})
    assert before.recorder.refused_server is not None
    after = HistoryRecorder(before.store, "db")
    after.continue_from(before.recorder)
    assert after.refused_server == before.recorder.refused_server
    before.end()
