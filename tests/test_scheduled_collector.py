"""A collector's turns: on a grid, never queued, longer apart for one that is cut off."""

import gc
import logging
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from types import SimpleNamespace

import pytest

from agent.sampling import scheduled_collector
from agent.sampling.scheduled_collector import MAX_PAUSE, MAX_PENALTY, ScheduledCollector
from agent.support.backoff import Backoff, with_jitter
from collectors import CollectorSpec
from collectors.base import CollectorError, FailureKind, Feature, Prepared, Values
from collectors.connection import Connection, Login
from collectors.endpoint import Endpoint

CONNECTION = Connection(Endpoint(), lambda: Login("nobody"), timeout=1, limit=1)
ON = Feature("x", enabled=True)


def job(
    read: Callable[[], Values] | None, *features: Feature, interval: float = 1.0
) -> ScheduledCollector:
    """A prepared job with that interval, s."""
    spec = CollectorSpec("x", lambda _: Prepared(read, features or (ON,)), interval, on_server=True)
    made = ScheduledCollector("db", spec, interval)
    made.prepare(CONNECTION)
    return made


def failing(kind: FailureKind) -> Callable[[], Values]:
    """A source that always fails in that way."""

    def read() -> Values:
        raise CollectorError(kind, f"it is {kind}")

    return read


def test_a_late_run_does_not_shift_later_ones() -> None:
    """Runs stay on the collector's grid of due times."""
    made = job(lambda: {"a": 1.0})
    for now in (100.0, 101.3, 102.01, 103.0):
        sample = made.run(now)
        assert sample is not None
        assert sample.values == {"a": 1.0}
    assert (made.due, made.health.skipped) == (104.0, 0)


def test_runs_are_at_the_phase_whenever_the_first_one_was() -> None:
    """Collectors of a target that start at different times read at the same instants."""
    spec = CollectorSpec("x", lambda _: Prepared(dict, (ON,)), 5.0, on_server=True)
    made = ScheduledCollector("db", spec, 5.0, phase=2.0)
    made.prepare(CONNECTION)
    dues = []
    for now in (103.3, 107.0, 112.4, 116.97, 122.0):  # the fourth goes with another's turn
        made.run(now)
        dues.append(made.due)
    assert dues == [107.0, 112.0, 117.0, 122.0, 127.0]
    assert made.health.skipped == 0


def test_the_first_run_of_what_counts_from_one_to_the_next_awaits_its_schedule() -> None:
    """So a session begins with fewer readings; a later preparation does not postpone it."""
    spec = CollectorSpec("x", lambda _: Prepared(dict, (ON,)), 15.0, True, awaits_schedule=True)
    made = ScheduledCollector("db", spec, 15.0, phase=4.0)
    for _ in range(2):
        began = time.monotonic()
        made.prepare(CONNECTION)
        assert began < made.due <= began + 15.001
        assert (made.due - 4.0) % 15.0 == pytest.approx(0.0, abs=1e-6)
        due = made.due
        made.prepare(CONNECTION)
        assert made.due == due
        made.forget_source()


def test_forgetting_the_source_during_a_run_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server's worker forgets the host's source at a connect, during a read of the host."""
    made = job(lambda: {"a": 1.0})

    def monotonic() -> float:
        made.forget_source()
        return 100.0

    monkeypatch.setattr(
        scheduled_collector, "time", SimpleNamespace(monotonic=monotonic, time=time.time)
    )
    assert made.run(100.0) is not None
    assert made.run(100.0) is None
    assert made.health.failures == {}


def test_the_only_source_of_a_quantity_is_read_more_often() -> None:
    """A count at instants needs many samples, unless another source measures the same."""
    spec = CollectorSpec("x", lambda _: Prepared(dict, (ON,)), 5.0, on_server=True)
    made = ScheduledCollector("db", spec, 5.0, interval_alone=1.0)
    made.prepare(CONNECTION)
    for alone, due in ((True, 101.0), (False, 105.0)):
        made.set_only_source(alone)
        made.due = 0.0
        made.run(100.0)
        assert made.due == due


def test_missed_runs_are_counted_and_not_repeated() -> None:
    """After a pause there is one reading, not one for each missed run."""
    made = job(dict)
    made.run(100.0)
    made.run(104.5)
    assert (made.due, made.health.skipped) == (105.0, 3)


def test_an_aborted_preparation_skips_no_runs() -> None:
    """Whatever the monotonic clock shows."""

    def cut_off(_: Connection) -> Prepared:
        raise CollectorError(FailureKind.SLOW, "cut off")

    made = ScheduledCollector("db", CollectorSpec("x", cut_off, 1.0, on_server=True), 1.0)
    made.prepare(CONNECTION)
    made.run(1e6)
    assert made.health.skipped == 0
    assert made.due == 1e6 + 1


def test_a_reading_beyond_its_share_of_time_is_followed_by_a_pause() -> None:
    """With a share of 0.001, a reading of 5 ms leaves out four runs or more, uncounted."""

    def read() -> Values:
        time.sleep(0.005)
        return {}

    spec = CollectorSpec("x", lambda _: Prepared(read, (ON,)), 1.0, True, max_share=1e-3)
    made = ScheduledCollector("db", spec, 1.0)
    made.prepare(CONNECTION)
    made.run(100.0)
    assert made.health.duration is not None
    assert min(made.health.duration / 1e-3, MAX_PAUSE) <= made.due - 100.0 <= MAX_PAUSE
    assert made.due == int(made.due)
    assert made.health.skipped == 0


def test_a_failure_is_timed_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """The same failure again is counted, but not logged again."""
    made = job(failing(FailureKind.UNREADABLE))
    with caplog.at_level(logging.WARNING):
        for now in (1.0, 2.0, 3.0):
            assert made.run(now) is None
    assert made.health.success is False
    assert made.health.failures == {FailureKind.UNREADABLE: 3}
    assert made.health.duration is not None
    assert len(caplog.records) == 1
    assert "it is unreadable" in caplog.text


def test_a_failure_whose_message_has_changing_numbers_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As a query for a time does, whose value cannot be used; another failure is logged again."""
    values = iter(["'2026-11-28 11:04:02'", "'2026-11-28 11:05:02'", "NULL"])

    def read() -> Values:
        raise CollectorError(FailureKind.UNREADABLE, f"not a usable number: {next(values)}")

    collector = job(read)
    with caplog.at_level(logging.WARNING):
        for at in (0.0, 1.0, 2.0):
            collector.run(at)
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [
        "'2026-11-28 11:04:02'",
        "NULL",
    ]
    assert "NULL" in collector.health.last_error


@pytest.mark.parametrize("interval", [1.0, 5.0])
def test_an_aborted_collector_waits_longer_each_time_and_recovers(interval: float) -> None:
    """The penalty grows up to a limit, and ends with the first reading that succeeds."""
    made = job(failing(FailureKind.SLOW), interval=interval)
    waits = []
    for _ in range(9):
        now = max(made.due, interval)
        made.run(now)
        waits.append((made.due - now) / interval)
    assert waits == [2, 4, 8, 16, 32, MAX_PENALTY, MAX_PENALTY, 64, 64]
    made._read = dict
    now = made.due
    made.run(now)
    assert made.due - now == interval


def test_an_aborted_vital_collector_keeps_its_interval() -> None:
    """Else a slow server would look as if it were down."""
    spec = CollectorSpec("status", lambda _: Prepared(None, ()), 1.0, on_server=True, is_vital=True)
    made = ScheduledCollector("db", spec, 1.0)
    made._read = failing(FailureKind.SLOW)
    for now in (1.0, 2.0, 3.0):
        assert made.run(now) is None
        assert made.due == now + 1.0
    assert made.failure is FailureKind.SLOW


def test_a_failure_that_ends_the_session_is_raised() -> None:
    """The owner of the connection must know; other failures stay with the collector."""
    made = job(failing(FailureKind.TIMEOUT))
    with pytest.raises(CollectorError):
        made.run(1.0)
    assert made.health.failures == {FailureKind.TIMEOUT: 1}


def test_a_source_without_a_reader_is_not_read_and_has_not_failed() -> None:
    """An absent feature is no failure; the runs pass without a reading."""
    made = job(None, Feature("x", False, "it is off", "switch it on"))
    assert made.run(1.0) is None
    assert (made.due, made.health.success, made.is_complete) == (2.0, None, False)


def test_an_absent_feature_is_logged_only_when_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    """Once when it is found absent, once when it is back."""
    offers = [Feature("x", False, "it is off", "switch it on")] * 3 + [ON]
    spec = CollectorSpec("x", lambda _: Prepared(dict, (offers.pop(0),)), 1.0, on_server=True)
    made = ScheduledCollector("db", spec, 1.0)
    with caplog.at_level(logging.INFO):
        for _ in range(4):
            made.prepare(CONNECTION)
    assert [record.getMessage() for record in caplog.records] == [
        "not available: it is off",
        "available now",
    ]
    assert made.is_complete


def test_what_only_readings_show_to_be_absent_is_logged_once_for_all_sessions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each new session knows nothing of it before its first reading."""
    there = [False, False, True, True]

    def prepare(_: Connection) -> Prepared:
        read: list[Feature] = []

        def reading() -> Values:
            read[:] = [Feature("y", True) if there.pop(0) else Feature("y", False, "it is away")]
            return {}

        return Prepared(reading, (ON,), lambda: tuple(read))

    made = ScheduledCollector("db", CollectorSpec("x", prepare, 1.0, on_server=True), 1.0)
    with caplog.at_level(logging.INFO):
        while there:
            made.forget_source()
            made.prepare(CONNECTION)
            made.run(made.due)
    assert [record.getMessage() for record in caplog.records] == [
        "not available: it is away",
        "available now",
    ]


def test_a_source_with_the_same_features_keeps_its_reader() -> None:
    """Features are checked each minute; sums that the reader keeps do not start again."""

    def prepare(_: Connection) -> Prepared:
        total = count(1.0)
        offered = (ON, Feature("y", missing[0], "it is off", "switch it on"))
        return Prepared(lambda: {"sum": next(total)}, offered)

    missing = [False]
    made = ScheduledCollector("db", CollectorSpec("x", prepare, 1.0, on_server=True), 1.0)
    found = []
    for change in ("first", "same", "session", "offered", "same"):
        if change == "session":
            made.forget_source()
        missing[0] |= change == "offered"
        made.prepare(CONNECTION)
        sample = made.run(made.due)
        found.append(sample.values["sum"] if sample else None)
    assert found == [1, 2, 1, 1, 2]


def test_a_revoked_privilege_is_checked_again() -> None:
    """The feature is absent without the privilege, and back with it."""
    granted = [True]

    def read() -> Values:
        if not granted[0]:
            raise CollectorError(FailureKind.PRIVILEGE, "it is not granted")
        return {"a": 1.0}

    def prepare(_: Connection) -> Prepared:
        there = granted[0]
        return Prepared(read if there else None, (Feature("x", there, "not granted", "GRANT"),))

    made = ScheduledCollector("db", CollectorSpec("x", prepare, 1.0, on_server=True), 1.0)
    found = []
    for grant in (True, False, True):
        granted[0] = grant
        for _ in range(2):
            if not made.is_complete:
                made.prepare(CONNECTION)
            made.run(made.due)
        found.append((made.is_complete, made.features[0].enabled, made.health.success))
    assert found == [(True, True, True), (False, False, False), (True, True, True)]


def test_a_source_that_cannot_be_prepared_is_absent_with_the_reason() -> None:
    """A failure of `prepare` that leaves the session alive becomes an absent feature."""

    def prepare(_: Connection) -> Prepared:
        raise CollectorError(FailureKind.UNREADABLE, "strange answer")

    made = ScheduledCollector("db", CollectorSpec("x", prepare, 1.0, on_server=True), 1.0)
    made.prepare(CONNECTION)
    assert made.features == (Feature("x", False, "strange answer"),)
    assert made.health.failures == {FailureKind.UNREADABLE: 1}


def test_an_exception_in_a_collector_is_its_own_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An unexpected answer costs this collector a run, with the place in the log; no other one."""

    def odd() -> Values:
        return {"a": float("x")}

    made = job(odd)
    with caplog.at_level(logging.WARNING):
        for now in (1.0, 2.0):
            assert made.run(now) is None
    assert made.health.failures == {FailureKind.UNREADABLE: 2}
    (line,) = [found.getMessage() for found in caplog.records]
    assert line.startswith("cannot read: unexpected answer: ValueError: could not convert")
    assert "(test_scheduled_collector.py:" in line


def test_an_exception_in_prepare_makes_an_absent_feature() -> None:
    """The other collectors of the session are prepared all the same."""

    def prepare(_: Connection) -> Prepared:
        raise IndexError("no row")

    made = ScheduledCollector("db", CollectorSpec("x", prepare, 1.0, on_server=True), 1.0)
    made.prepare(CONNECTION)
    (feature,) = made.features
    assert not feature.enabled
    assert feature.reason.startswith(
        "unexpected answer: IndexError: no row (test_scheduled_collector.py:"
    )


@pytest.mark.parametrize("kind", [FailureKind.UNREADABLE, FailureKind.LOST])
def test_a_recorded_failure_holds_no_references(kind: FailureKind, without_collector: None) -> None:
    """An error refers to itself by its traceback; it is freed with all that it held."""
    failures: list[weakref.ref[CollectorError]] = []

    def read() -> Values:
        raise remembered(CollectorError(kind, "it fails"), failures)

    made = job(read)
    with suppress(CollectorError):
        made.run(1.0)
    assert made.failure is kind
    assert [failure() for failure in failures] == [None]


def remembered(
    error: CollectorError, failures: list[weakref.ref[CollectorError]]
) -> CollectorError:
    """The error, of which we know for how long it is there."""
    failures.append(weakref.ref(error))
    return error


@pytest.fixture
def without_collector() -> Iterator[None]:
    """What refers to itself stays."""
    gc.disable()
    yield
    gc.enable()


def test_backoff_grows_to_a_limit_with_jitter() -> None:
    """Many agents do not retry in step, and none waits longer than the limit."""
    backoff = Backoff(1.0, 30.0)
    waits = [backoff.failed() for _ in range(40)]
    for wait, full in zip(waits, [1, 2, 4, 8, 16, *[30] * 35], strict=True):
        assert 0.75 * full <= wait <= full
    assert len(set(waits)) == len(waits)
    backoff.succeeded()
    assert backoff.failed() <= 1.0


def test_jitter_shortens_a_wait_by_at_most_a_quarter() -> None:
    """No wait is longer than requested."""
    waits = [with_jitter(60.0) for _ in range(50)]
    assert all(45.0 <= wait <= 60.0 for wait in waits)
    assert max(waits) - min(waits) > 5.0
