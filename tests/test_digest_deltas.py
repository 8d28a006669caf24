"""From sums to changes: what cannot be known is lost and counted, nothing is ever invented."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from agent.query_classes.class_intervals import ClassInterval, ClassIntervalMaker
from agent.query_classes.class_registry import NONE, TEXTS_KEPT, ClassRegistry, class_name_of
from agent.query_classes.digest_deltas import ClassDeltas, DigestDeltas, LossReason
from agent.query_classes.resource_meter import ResourceMeter
from agent.query_classes.tracked_classes import class_table
from collectors.base import Sample
from collectors.class_thread_states import ThreadStateCounts
from collectors.connection import statement_words
from collectors.digest_texts import matches_any_statement
from collectors.digests import DigestRows, DigestValues

NAMES = ("calls", "statement_time")
A, B, OVERFLOW = "aa|=shop", "bb|", "|"
OLD = 1e6  # seconds


def reading(
    rows: Mapping[str, tuple[float, float]],
    *,
    ages: Mapping[str, float] | None = None,
    running: Mapping[str, float] | None = None,
    since: float | None = 2.0,
    complete: bool = False,
    names: tuple[str, ...] = NAMES,
    everything: tuple[float, float] | None = None,
) -> DigestRows:
    """One reading; rows by `FIRST_SEEN|class`, old unless told otherwise."""
    return DigestRows(
        names=names,
        keys=list(rows),
        counters=np.array(list(rows.values()), dtype=float).reshape(-1, len(names)),
        age=np.array([(ages or {}).get(key, OLD) for key in rows]),
        complete=complete,
        since=since,
        running=running or {},
        texts={},
        own_digests=frozenset(),
        all_statements=None if everything is None else np.array(everything, dtype=float),
    )


class Followed:
    """Deltas with the names of the classes."""

    def __init__(self) -> None:
        self.registry = ClassRegistry()
        self.deltas = DigestDeltas(self.registry)

    def take(self, rows: DigestRows, *, restarted: bool = False) -> dict[str, list[float]] | None:
        """Each class's changes, and of the time in flight."""
        changes: ClassDeltas | None = self.deltas.take(rows, restarted=restarted)
        if changes is None:
            return None
        lines = zip(changes.classes, changes.values, changes.in_flight, strict=True)
        return {self.registry.keys[n]: [*v, f] for n, v, f in lines}

    def lost(self) -> dict[LossReason, int]:
        """What was lost, by kind."""
        return {kind: count for kind, count in self.deltas.lost.items() if count}


@pytest.fixture
def followed() -> Followed:
    """Two old classes were read once."""
    made = Followed()
    assert made.take(reading({f"1|{A}": (10, 1.0), f"1|{B}": (5, 0.5)}, since=None)) is None
    return made


def test_changes_are_the_increases_between_two_readings(followed: Followed) -> None:
    """Classes without an increase are absent; the first reading gives none."""
    assert followed.take(reading({f"1|{A}": (13, 1.5)})) == {A: [3, 0.5, 0]}
    assert followed.take(reading({f"1|{A}": (13, 1.5), f"1|{B}": (6, 0.5)})) == {B: [1, 0, 0]}
    assert followed.lost() == {}


def test_statements_without_a_digest_are_one_class() -> None:
    """A statement that ends between the two reads is in the digests first, and counts once."""
    followed, row = Followed(), f"1|{A}"
    assert followed.take(reading({row: (10, 1.0)}, everything=(30, 3.0), since=None)) is None
    assert followed.take(reading({row: (12, 1.5)}, everything=(32, 3.5))) == {A: [2, 0.5, 0]}
    found = followed.take(reading({row: (14, 2.0)}, everything=(37, 5.0)))
    assert found == {A: [2, 0.5, 0], NONE: [3, 1.0, 0]}
    ahead = followed.take(reading({row: (19, 9.0)}, everything=(38, 5.5)))
    assert ahead == {A: [5, 7.0, 0]}
    assert followed.take(reading({row: (19, 9.0)}, everything=(42, 12.0))) == {}
    assert followed.take(reading({row: (19, 9.0)}, everything=(44, 12.5))) == {NONE: [2, 0.5, 0]}


@pytest.mark.parametrize(
    ("names", "everything", "found"),
    [
        (NAMES, (32, 3.5), {NONE: [2, 0.5, 0]}),
        (NAMES, (32, 3.0), None),
        (NAMES, (30, 3.0), {}),
        (NAMES, (31, 3.0), None),
        (("calls", "cpu_time"), (32, 3.0), None),
        (("calls", "rows_sent"), (32, 3.0), {NONE: [2, 0, 0]}),
    ],
)
def test_statements_without_a_measured_time_are_lost(
    names: tuple[str, ...],
    everything: tuple[float, float],
    found: dict[str, list[float]] | None,
) -> None:
    """Their instrument was switched off: calls rise, and their time or their CPU does not."""
    followed, row = Followed(), f"1|{A}"
    followed.take(reading({row: (10, 1.0)}, everything=(30, 3.0), since=None, names=names))
    later = reading({row: (10, 1.0)}, everything=everything, names=names)
    assert followed.take(later) == found
    assert followed.lost() == ({LossReason.COLUMNS: 1} if found is None else {})


def test_totals_that_fall_or_vanish_give_no_undigested_class() -> None:
    """The table was emptied, or may not be read any more."""
    followed, row = Followed(), f"1|{A}"
    followed.take(reading({row: (10, 1.0)}, everything=(30, 3.0), since=None))
    assert followed.take(reading({row: (11, 1.5)}, everything=(2, 0.2))) == {A: [1, 0.5, 0]}
    assert followed.take(reading({row: (11, 1.5)}, everything=(3, 0.3))) == {
        NONE: [1, pytest.approx(0.1), 0]
    }
    assert followed.take(reading({row: (11, 1.5)})) == {}
    assert followed.take(reading({row: (11, 1.5)}, everything=(90, 9.0))) == {}
    assert class_name_of(NONE).digest == "none"


def test_a_new_row_counts_from_zero_only_if_it_was_created_since(followed: Followed) -> None:
    """An old row that was not read before gives nothing at first, and that is counted."""
    new, old = "2|cc|", "0|dd|"
    first = followed.take(reading({new: (4, 0.4), old: (9e9, 1e6)}, ages={new: 1.5}))
    assert first == {"cc|": [4, 0.4, 0]}
    assert followed.lost() == {LossReason.UNSEEN: 1}
    assert followed.take(reading({old: (9e9 + 2, 1e6 + 1)})) == {"dd|": [2, 1, 0]}


def test_an_unseen_rows_sums_are_not_counted_as_undigested() -> None:
    """How much of them was in the interval is not known: the rest is lost, and nothing else."""
    followed, row, old = Followed(), f"1|{A}", "0|dd|"
    followed.take(reading({row: (10, 1.0)}, everything=(30, 3.0), since=None))
    later = reading({row: (11, 1.1), old: (900, 9.0)}, everything=(36, 3.6))
    assert followed.take(later) == {A: [1, pytest.approx(0.1), 0]}
    assert followed.lost() == {LossReason.UNSEEN: 1}
    last = reading({row: (12, 1.2), old: (901, 9.1)}, everything=(39, 3.9))
    assert (followed.take(last) or {}).keys() == {A, "dd|", NONE}


@pytest.mark.parametrize("age", [-1.0, 3.5, OLD])
def test_an_invalid_age_does_not_make_a_row_new(followed: Followed, age: float) -> None:
    """Unknown, before the previous reading, or after a clock step: no sum counts as an increase."""
    assert followed.take(reading({"9|cc|": (7e8, 7e5)}, ages={"9|cc|": age})) == {}


def test_thread_states_are_columns_of_their_classes(followed: Followed) -> None:
    """Also for a class without a finished statement; without samples there are no columns."""
    rows = reading({f"1|{A}": (13, 1.5)})
    seen = replace(rows, thread_states=ThreadStateCounts(Counter({B: 2, A: 1}), Counter({A: 3})))
    assert followed.take(seen) == {A: [3, 0.5, 1, 3, 0], B: [0, 0, 2, 0, 0]}
    none = replace(reading({f"1|{A}": (14, 1.6)}), thread_states=ThreadStateCounts())
    assert followed.take(none) == {A: [1, pytest.approx(0.1), 0, 0, 0]}
    assert followed.take(reading({f"1|{A}": (15, 1.6)})) == {A: [1, 0, 0]}


def test_the_overflow_row_and_rows_without_a_schema_are_classes(followed: Followed) -> None:
    """NULL is a name like any other."""
    row = f"2|{OVERFLOW}"
    assert followed.take(reading({row: (4, 0.4)}, ages={row: 1})) == {OVERFLOW: [4, 0.4, 0]}
    assert class_name_of(OVERFLOW).digest == "overflow"
    assert (class_name_of(A).schema, class_name_of(A).digest, class_name_of(B).schema) == (
        "shop",
        "aa",
        "",
    )


def test_rows_of_one_class_are_added_up(followed: Followed) -> None:
    """Whether they can be distinguished or not."""
    twice = reading({f"1|{A}": (11, 1.1), f"2|{A}": (3, 0.3)}, ages={f"2|{A}": 1.0})
    found = followed.take(twice)
    assert found is not None
    assert found[A] == pytest.approx([4, 0.4, 0])
    assert followed.lost() == {}


def test_indistinguishable_rows_are_one(followed: Followed) -> None:
    """The same class and FIRST_SEEN twice: the first time one interval is lost, and no more."""
    rows = reading({f"1|{A}": (11, 1.1), "x": (500, 50.0)})
    twin = DigestRows(**{**{k: getattr(rows, k) for k in rows.__slots__}, "keys": [f"1|{A}"] * 2})
    assert followed.take(twin) is None
    assert followed.lost() == {LossReason.RESET: 1}
    assert followed.take(twin) == {}


def test_indistinguishable_rows_do_not_make_another_row_new() -> None:
    """The overflow row, of unknown age, is as old with them as without."""
    followed, row = Followed(), f"1|{A}"
    twins = reading({row: (10, 1.0), "x": (20, 2.0)}, since=None)
    followed.take(replace(twins, keys=[row, row]))
    later = reading({row: (11, 1.1), "x": (20, 2.0), "0||": (5e6, 9.0)}, ages={"0||": -1.0})
    found = followed.take(replace(later, keys=[row, row, "0||"]))
    assert found is not None
    assert found.keys() == {A}
    assert found[A] == pytest.approx([1, 0.1, 0])
    assert followed.lost() == {LossReason.UNSEEN: 1}


@pytest.mark.parametrize(
    ("rows", "ages"),
    [
        ({f"1|{A}": (2.0, 0.1)}, {}),
        ({f"1|{A}": (10.0, 0.9)}, {}),
        ({f"7|{A}": (2.0, 0.1)}, {f"7|{A}": 0.5}),
    ],
    ids=["a count fell", "a time fell", "made again"],
)
def test_truncating_the_table_loses_one_interval(
    followed: Followed, rows: dict[str, tuple[float, float]], ages: dict[str, float]
) -> None:
    """No change is negative or from zero, and the next interval is whole."""
    assert followed.take(reading(rows, ages=ages)) is None
    assert followed.lost() == {LossReason.RESET: 1}
    [(key, (calls, seconds))] = rows.items()
    found = followed.take(reading({key: (calls + 1, seconds + 1)}))
    assert found is not None
    assert found[A] == pytest.approx([1, 1, 0])
    assert followed.lost() == {LossReason.RESET: 1}


def test_a_restart_loses_one_interval_even_if_all_sums_are_higher(followed: Followed) -> None:
    """A busy server may have passed its old sums when it is read again, of some classes later."""
    assert followed.take(reading({f"1|{A}": (999, 99.0)}), restarted=True) is None
    assert followed.lost() == {LossReason.RESTART: 1}
    assert followed.take(reading({f"1|{A}": (1000, 99.0)})) == {A: [1, 0, 0]}
    assert followed.take(reading({f"1|{B}": (99, 9.0)})) == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("status digests status digests", {LossReason.RESTART: 1}),
        ("digests status digests", {LossReason.RESET: 1}),
    ],
    ids=["told before it is read", "told after it is read"],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_a_restart_loses_one_interval_whenever_it_is_detected(
    before: str, after: dict[LossReason, int], at_once: bool
) -> None:
    """Also where the last reading before it still waits for the host's samples."""
    maker = ClassIntervalMaker(ClassRegistry())
    calls = iter([10, 20, 1, 2, 3])
    samples = [("status", 0.0, 500.0), ("digests", 0.5, None), ("digests", 2.5, None)]
    samples += [(name, 4.0 + k / 2, 0.5 + k / 2) for k, name in enumerate(before.split())]
    for name, at, uptime in samples:
        rows = reading({f"1|{A}": (next(calls), 0.0)}) if name == "digests" else None
        values = DigestValues(rows, {}) if rows else {"uptime": float(uptime or 0.0)}
        maker.append(Sample(name, at, values))
        if not at_once:
            maker.intervals(at)
    maker.intervals(60.0)
    assert {kind: n for kind, n in maker.deltas.lost.items() if n} == after


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
def test_setting_the_servers_clock_loses_nothing(ahead: float) -> None:
    """Its uptime jumps by as much; its sums rise on."""
    maker = ClassIntervalMaker(ClassRegistry())
    for k in range(4):
        uptime = 90_000.0 + 2 * k + (ahead if k > 1 else 0.0)
        maker.append(Sample("status", 2.0 * k, {"uptime": uptime}))
        rows = reading({f"1|{A}": (10 + k, 0.0)})
        maker.append(Sample("digests", 2.0 * k + 0.1, DigestValues(rows, {})))
    found = [interval.changes for interval in maker.intervals(60.0)]
    assert [changes.values[0, 0] for changes in found if changes is not None] == [1, 1, 1]


def test_the_time_in_which_this_machine_was_suspended_is_of_no_interval() -> None:
    """A server elsewhere went on for an hour, of which the times of the samples show nothing."""
    maker = ClassIntervalMaker(ClassRegistry())
    for k in range(4):
        asleep = 3600.0 if k > 1 else 0.0
        status = {"uptime": 9e4 + 2 * k + asleep, "bytes_received": 9 * k + asleep}
        maker.append(Sample("status", 2.0 * k, {**status, "bytes_sent": 0.0}))
        rows = reading({f"1|{A}": (10 + k + asleep, 0.0)}, since=2.0 + asleep * (k == 2))
        maker.append(Sample("digests", 2.0 * k, DigestValues(rows, {})))
    found = maker.intervals(60.0)
    assert [interval.is_known for interval in found] == [True, False, True]
    assert [interval.used.get("network") for interval in found] == [9.0, None, 9.0]
    assert {kind: n for kind, n in maker.deltas.lost.items() if n} == {LossReason.GAP: 1}
    calls = [each.changes.values[0, 0] for each in found if each.changes is not None]
    assert calls == [1, 1]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"since": 500.0}, LossReason.GAP),
        ({"names": ("calls", "cpu_time")}, LossReason.COLUMNS),
    ],
)
def test_a_gap_or_other_columns_lose_one_interval(
    followed: Followed, how: dict[str, float], why: LossReason
) -> None:
    """Changes over a gap are of no interval; a new column has no earlier sum."""
    assert followed.take(reading({f"1|{A}": (99, 9.0)}, **how)) is None  # type: ignore[arg-type]
    assert followed.lost() == {why: 1}


@pytest.mark.parametrize("complete", [False, True])
def test_a_class_not_used_during_a_gap_is_known_after_it(
    followed: Followed, complete: bool
) -> None:
    """Only classes in use are read; one that has left the table is not known."""
    assert followed.take(reading({f"1|{A}": (99, 9.0)}, since=500.0, complete=complete)) is None
    found = followed.take(reading({f"1|{A}": (100, 9.0), f"1|{B}": (7, 0.5)}))
    assert found == {A: [1, 0, 0]} | ({} if complete else {B: [2, 0, 0]})
    assert followed.lost() == {LossReason.GAP: 1} | ({LossReason.UNSEEN: 1} if complete else {})


def test_what_ended_during_a_gap_is_not_taken_back_after_it(followed: Followed) -> None:
    """Its time is in what is lost with the gap; what began in it counts from there."""
    assert followed.take(reading({}, running={A: 9.0})) == {A: [0, 0, 9]}
    rows = {f"1|{A}": (11, 21.0)}
    assert followed.take(reading(rows, running={B: 3.0}, since=500.0)) is None
    rows = {f"1|{A}": (12, 21.5)}
    found = followed.take(reading(rows, running={B: 5.0}))
    assert found == {A: [1, 0.5, 0], B: [0, 0, 2]}


def test_truncating_the_table_during_a_gap_is_detected(followed: Followed) -> None:
    """Sums from before the gap are no start for those after it."""
    assert followed.take(reading({f"1|{A}": (9, 0.9)}, since=500.0)) is None
    assert followed.take(reading({f"1|{B}": (700, 70.0)})) == {}


def test_a_running_statement_counts_while_it_runs_and_once(followed: Followed) -> None:
    """A report of ten seconds: its time counts as it passes, and not again at its end."""
    spent = []
    for elapsed in (2.0, 4.0):
        found = followed.take(reading({}, running={A: elapsed}))
        assert found is not None
        spent.append(found[A])
    found = followed.take(reading({f"1|{A}": (11, 7.0)}))
    assert found is not None
    assert [*spent, found[A]] == [[0, 0, 2], [0, 0, 2], [1, 6, -4]]


def test_a_statement_that_ends_between_two_reads_is_not_counted_twice(
    followed: Followed,
) -> None:
    """It is in neither: no time is taken back before the table has it, also in its last reading."""
    assert followed.take(reading({}, running={A: 100.0, B: 5.0})) == {A: [0, 0, 100], B: [0, 0, 5]}
    assert followed.take(reading({}, running={B: 7.0})) == {A: [0, 0, 0], B: [0, 0, 2]}
    both = {f"1|{A}": (11, 102.0), f"1|{B}": (5, 0.5)}
    assert followed.take(reading(both, running={B: 9.0}, complete=True)) == {
        A: [1, 101, -100],
        B: [0, 0, 2],
    }
    assert followed.take(reading({f"1|{B}": (6, 10.5)})) == {B: [1, 10, -9]}


def test_running_time_that_never_reaches_the_table_is_taken_back(followed: Followed) -> None:
    """A class that is new to a full table; at the next reading of all rows."""
    rows = {f"1|{A}": (10.0, 1.0)}
    assert followed.take(reading({}, running={"new|": 30.0})) == {"new|": [0, 0, 30]}
    assert followed.take(reading({})) == {"new|": [0, 0, 0]}
    assert followed.take(reading(rows, complete=True)) == {"new|": [0, 0, -30]}
    assert followed.take(reading({})) == {}


def locked_for_two_seconds(*lock_waits: float | None) -> list[ClassInterval]:
    """Two classes of which statements wait for locks, over so many readings but one."""
    names = ("calls", "statement_time", "lock_time")
    first = replace(reading({}, names=names, running={A: 1.0}), keys=[f"1|{A}", f"1|{B}"])
    first = replace(first, counters=np.zeros((2, 3)), age=np.full(2, OLD))
    counters = np.array([[1, 3.0, 0.5], [9, 1.0, 0.25]])
    deltas, found = DigestDeltas(ClassRegistry()), []
    for count, total in enumerate(lock_waits):
        running = {A: 1.0 + count}
        rows = replace(
            first,
            counters=count * counters,
            running=running,
            waiting_for_locks={A: 1.0, B: 3.0},
            lock_waits=total,
        )
        changes = deltas.take(rows)
        if count:
            assert changes is not None
            found.append(ClassInterval(2.0 * count, 2.0, changes, {}))
    return found


def lock_times(intervals: list[ClassInterval]) -> list[list[float]]:
    """The lock time of both classes in each interval, s."""
    table = class_table(intervals, np.arange(2), (A, B), None)
    assert table.lock_time is not None
    found: list[list[float]] = table.lock_time.tolist()
    return found


def test_statements_seen_waiting_count_as_waiting_for_the_interval() -> None:
    """Of two of a class that run for 2 s one waits: 2 s. One that ran for 1 s waits no longer."""
    assert lock_times(locked_for_two_seconds(None, None)) == [[2.5, 1.0]]


def test_the_servers_total_of_waits_is_divided_over_classes_seen_waiting() -> None:
    """2.6 s over two classes: of 3.5 s, 2 were seen to wait, of 0.75 s all.

    Where one of two sums is not known what was seen counts; one that fell says no wait.
    """
    assert lock_times(locked_for_two_seconds(7.0, 9.6))[0] == pytest.approx(
        [0.5 + 1.89, 0.25 + 0.71], abs=0.01
    )
    found = lock_times(locked_for_two_seconds(None, 5.0, 4.0, 6.6))
    assert found[0] == [2.5, 1.0]
    assert sum(found[1]) + sum(found[2]) == pytest.approx(2 * 0.75 + 2.6, abs=0.1)


def test_rows_that_left_the_table_are_forgotten(followed: Followed) -> None:
    """After a reading of all rows, memory holds those and no more; their sums rise on."""
    assert followed.take(reading({f"1|{B}": (6, 0.5)}, complete=True)) == {B: [1, 0, 0]}
    assert followed.take(reading({f"1|{B}": (8, 0.5)})) == {B: [2, 0, 0]}
    assert followed.take(reading({f"1|{A}": (500, 5.0)})) == {}  # gone and back: not known
    assert followed.lost() == {LossReason.UNSEEN: 1}


def test_the_agents_statements_are_recognised_by_their_digest_text() -> None:
    """As servers normalise it: quoted names, placeholders for literals, shortened lists."""
    statement = "SELECT a.b, 'x y', 5 FROM t WHERE c IN ('p', 'q') AND d > 1.5"
    text = "SELECT `a` . `b` , ? , ? FROM `t` WHERE `c` IN (...) AND `d` > ?"
    assert statement_words(statement) == statement_words(text)
    assert statement_words(statement) != statement_words("SELECT `a` . `b` FROM `t`")


def test_memory_for_rows_grows_in_steps() -> None:
    """Ten thousand rows come in one after the other, and each keeps its sums."""
    followed = Followed()
    followed.take(reading({}, since=None))
    for start in range(0, 10_000, 2_500):
        rows = {f"1|{k:x}|": (1.0, 0.1) for k in range(start, start + 2_500)}
        found = followed.take(reading(rows, ages=dict.fromkeys(rows, 1.0)))
        assert found is not None
        assert len(found) == 2_500
    again = followed.take(reading({f"1|{k:x}|": (2.0, 0.2) for k in range(10_000)}))
    assert again is not None
    assert {tuple(np.round(v, 6)) for v in again.values()} == {(1.0, 0.1, 0.0)}


def test_a_text_is_kept_when_classes_are_renumbered() -> None:
    """It is fetched once; the oldest is dropped when the collector may fetch it again."""
    registry = ClassRegistry()
    registry.add_texts({"aa": "SELECT 1", "bb": "SELECT 2"}, {"aa", "bb"})
    registry.number(A)
    registry.keep([B])
    assert (registry.keys, registry.text(A)) == ([B], "SELECT 1")
    registry.add_texts({f"new{n}": "SELECT 3" for n in range(TEXTS_KEPT - 1)}, ())
    assert (registry.text(A), registry.text(B), registry.text("new0")) == (
        None,
        "SELECT 2",
        "SELECT 3",
    )
    assert (registry.is_own(A), registry.is_own(B)) == (False, True)


@pytest.mark.parametrize("every", [1, 2])
def test_a_full_table_is_detected_in_each_interval_that_lost_a_class(every: int) -> None:
    """Whenever the status is read within an interval; before the first count nothing is known."""
    meter = ResourceMeter()
    for t in range(60):
        meter.append(Sample("status", t + 0.001, {"digests_lost": float(t // every)}))
    intervals = [(t + 0.002, t + every + 0.002) for t in range(0, 58, every)]
    assert all(meter.lost_digests(*interval) for interval in intervals)
    assert not meter.lost_digests(59.5, 61.0)
    assert not meter.lost_digests(-2.0, 0.002)


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("SELECT ...", False),
        ("...", False),
        ("SELECT `a` , `b` FROM ...", False),
        ("SELECT `a` , `b` FROM `t` WHERE ...", True),
        ("SELECT `a` , `b` FROM `t` WHERE `c` = ?", True),
        ("SELECT `a` , `b` FROM `t` ORDER BY ...", False),
    ],
)
def test_a_short_truncated_text_is_not_taken_for_the_agents_own(text: str, own: bool) -> None:
    """A few words may be any client's: only several of them identify a statement."""
    assert matches_any_statement(text, {statement_words("SELECT a, b FROM t WHERE c = 1")}) is own
