"""Statements that last for intervals: their work is found where they ran, nothing is lost."""

from dataclasses import replace

import numpy as np
import pytest
from simulated_classes import simulate

from agent.query_classes.resource_meter import RESOURCES
from models.arrays import Array
from models.attribution.class_interval_table import ClassIntervals
from models.attribution.long_statements import LongStatements, with_running_time
from models.attribution.result import HostUse
from models.attribution.sliding_model import SlidingModel

MINUTES, READINGS, SECONDS = 40, 4, 15
HOST = HostUse(busy=0.6, io_wait=0.0, running=0.8)


def one_class(time: Array, calls: Array, in_flight: Array | None = None) -> ClassIntervals:
    """One class in intervals of a second, which examines 10 rows a call."""
    return ClassIntervals(
        names=("report",),
        seconds=np.ones(len(time)),
        statement_time=time[:, None],
        count=calls[:, None],
        inflight_delta=None if in_flight is None else in_flight[:, None],
        sizes=(("rows_examined", 10 * calls[:, None]),),
    )


@pytest.mark.parametrize(
    ("seconds", "ran"),
    [
        (3.2, [0, 0.7, 1, 1, 0.5]),
        (1.0, [0, 0, 0, 0.5, 0.5]),
        (0.6, [0, 0, 0, 0.18, 0.42]),
        (0.4, [0, 0, 0, 0, 0.4]),
        (9.0, [1, 1, 1, 1, 0.5]),
    ],
)
def test_a_call_began_earlier_than_the_interval_in_which_it_ended(
    seconds: float, ran: list[float]
) -> None:
    """It ends in the middle of that one on average; what is before the first is left out."""
    time, calls = np.zeros(5), np.zeros(5)
    time[4], calls[4] = seconds, 1.0
    assert with_running_time(one_class(time, calls)).work_time[:, 0] == pytest.approx(ran)


def test_a_class_that_is_never_seen_running_is_moved_beside_one_that_is() -> None:
    """MariaDB does not show a first statement of a class, nor those whose words are ambiguous."""
    calls, running = np.array([0.0, 0.0, 0.0, 0.0, 1.0]), np.array([0.0, 0.0, 0.0, 1.0, -1.0])
    all_three = replace(
        one_class(calls, calls),
        names=("unseen", "seen", "shorter"),
        statement_time=np.outer(calls, [3.2, 4.5, 0.9]),
        count=np.outer(calls, [1.0, 1.0, 1.0]),
        inflight_delta=np.outer(running, [0.0, 1.0, 0.0]),
        sizes=(),
    )
    work = with_running_time(all_three).work_time
    assert work[:, 0] == pytest.approx([0, 0.7, 1, 1, 0.5])
    assert work[:, 1:] == pytest.approx(all_three.work_time[:, 1:])
    assert all_three.inflight_delta == pytest.approx(np.outer(running, [0.0, 1.0, 0.0]))


def test_a_wait_for_a_lock_is_no_work_of_earlier_intervals() -> None:
    """MariaDB's lock time is counted when the statement ends, too."""
    time, calls = np.array([0.0, 0.0, 0.0, 3.0]), np.array([0.0, 0.0, 0.0, 1.0])
    intervals = replace(one_class(time, calls), lock_time=time[:, None] - 0.1 * calls[:, None])
    assert with_running_time(intervals).work_time[:, 0] == pytest.approx([0, 0, 0, 0.1])


def test_short_statements_stay_where_they_are() -> None:
    """Where they end is where they ran."""
    intervals = one_class(np.array([0.2, 2.0, 1.0]), np.array([1.0, 20.0, 10.0]), np.zeros(3))
    assert with_running_time(intervals).work_time == pytest.approx(intervals.work_time)
    moved = LongStatements().moved(intervals)
    assert moved.count == pytest.approx(np.asarray(intervals.count))
    running = np.array([0.4, -0.4, 0.4, -0.4])
    intervals = one_class(np.ones(4), 4 * np.ones(4), running)
    assert LongStatements().moved(intervals).count == pytest.approx(np.asarray(intervals.count))


def test_rows_of_a_long_statement_are_where_it_runs() -> None:
    """Also while one runs whose rows are not counted yet: it reads as many a second."""
    running = np.array([0.0, 1.0, 1.0, 0.5, 0.0])
    ends = np.array([0.0, 0.0, 0.0, 1.0, 0.0])
    long_statements = LongStatements()
    first = long_statements.moved(one_class(2.5 * ends, ends, running - 2.5 * ends))
    assert dict(first.sizes)["rows_examined"][:, 0] == pytest.approx(4 * running)
    assert np.asarray(first.count)[:, 0] == pytest.approx(running)
    later = long_statements.moved(one_class(0 * ends, 0 * ends, running))
    assert dict(later.sizes)["rows_examined"][:, 0] == pytest.approx(4 * running)


@pytest.mark.parametrize(("keep", "rows_per_second"), [(1.0, 6.0), (0.5, 25 / 3.75), (0.0, 8.0)])
def test_earlier_tables_count_less(keep: float, rows_per_second: float) -> None:
    """A report that reads twice as many rows from one table to the next; and other sizes begin."""
    running = np.array([0.0, 1.0, 1.0, 0.5, 0.0])
    ends = np.array([0.0, 0.0, 0.0, 1.0, 0.0])
    table = one_class(2.5 * ends, ends, running - 2.5 * ends)
    twice = replace(table, sizes=tuple((name, 2 * size) for name, size in table.sizes))
    long_statements = LongStatements(keep)
    long_statements.moved(table)
    later = dict(long_statements.moved(twice).sizes)["rows_examined"]
    assert later[:, 0] == pytest.approx(rows_per_second * running)
    other = replace(table, sizes=(("rows_sent", table.sizes[0][1]),))
    sent = dict(long_statements.moved(other).sizes)["rows_sent"]
    assert sent[:, 0] == pytest.approx(4 * running)


@pytest.mark.parametrize("texts", [True, False])
@pytest.mark.parametrize(("cpu", "least", "most"), [(0.9, 0.4, 0.9), (0.0, 0.0, 0.01)])
def test_a_report_of_a_minute_and_a_half_is_found_while_it_runs(
    texts: bool, cpu: float, least: float, most: float
) -> None:
    """Minute by minute, as the agent reads: one that computes, and one that waits."""
    simulated = simulate(4, intervals=MINUTES * READINGS * SECONDS, busy=0.3)
    runs = np.zeros(len(simulated.intervals))
    for begin in range(1200, len(runs) - 90, 180):
        runs[begin : begin + 90] = 1.0
    ends = np.append(0.0, np.diff(runs) < 0)
    tables = _with_report(simulated.intervals, runs, ends)
    tables = tables if texts else replace(tables, texts=None)
    y = _by_reading(simulated.y + cpu * runs)
    model, found = SlidingModel(RESOURCES[0], 60), 0.0
    for begin in range(0, len(tables), READINGS):
        part = slice(begin, begin + READINGS)
        shares = model.add_block(tables.at(part), y[part], HOST)
        found += float(shares.uses[-1])
    assert least <= found / runs.sum() <= most


def _with_report(intervals: ClassIntervals, runs: Array, ends: Array) -> ClassIntervals:
    """Add a class to intervals of a second, and sum them up to readings."""

    def added(matrix: Array | None, column: Array) -> Array:
        assert matrix is not None
        return _by_reading(np.column_stack((matrix, column)))

    rows = {"rows_examined": 9e5 * ends, "rows_sent": ends}
    return ClassIntervals(
        names=(*intervals.names, "report"),
        seconds=_by_reading(intervals.seconds),
        statement_time=added(intervals.statement_time, 90 * ends),
        count=added(intervals.count, ends),
        lock_time=added(intervals.lock_time, 0 * ends),
        inflight_delta=added(intervals.inflight_delta, runs - 90 * ends),
        sizes=tuple((name, added(table, rows[name])) for name, table in intervals.sizes),
        texts=(*(intervals.texts or ()), "SELECT `report`"),
    )


def _by_reading(table: Array) -> Array:
    summed: Array = table.reshape(-1, SECONDS, *table.shape[1:]).sum(axis=1)
    return summed
