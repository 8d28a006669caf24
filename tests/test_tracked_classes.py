"""Which classes have a column of their own, and what is in the others'."""

import numpy as np
import pytest

from agent.query_classes.class_intervals import ClassInterval
from agent.query_classes.class_registry import ClassRegistry
from agent.query_classes.digest_deltas import ClassDeltas
from agent.query_classes.resource_meter import ROW_LOCKS
from agent.query_classes.tracked_classes import TrackedClasses, class_table
from models.attribution.class_interval_table import AGENT, OTHER

NAMES = ("calls", "statement_time")


def interval(
    registry: ClassRegistry, used: dict[str, tuple[float, float]], running: str = ""
) -> ClassInterval:
    """A second of these calls and times; a statement of the class `running` runs all the time."""
    keys = [*used, *([running] if running else [])]
    values = np.array([used.get(key, (0.0, 0.0)) for key in keys])
    flights = np.array([float(key == running) for key in keys])
    classes = np.array([registry.number(key) for key in keys], dtype=np.intp)
    return ClassInterval(1.0, 1.0, ClassDeltas(NAMES, classes, values, flights), {})


def test_a_class_with_a_running_statement_has_a_column() -> None:
    """Its running time counts for its size, though no statement has ended."""
    registry = ClassRegistry()
    tracked = TrackedClasses(registry, most=1)
    seconds = [interval(registry, {"a|": (5.0, 0.1)}, running="report|") for _ in range(5)]
    tracked.update(seconds)
    assert tracked.keys == ["a|"]
    tracked = TrackedClasses(registry, most=2)
    tracked.update(seconds)
    assert set(tracked.keys) == {"a|", "report|"}
    table = tracked.table(seconds)
    assert table.inflight_delta is not None
    assert table.inflight_delta.sum(axis=0)[table.names.index("report|")] == pytest.approx(5.0)


def test_other_classes_and_the_agents_own_have_a_column_each() -> None:
    """Nothing is missing from the table."""
    registry = ClassRegistry()
    registry.add_texts({"own": "SELECT VERSION ( )"}, own=["own"])
    tracked = TrackedClasses(registry, most=2)
    use = {
        "a|": (9.0, 2.0),
        "b|": (8.0, 1.0),
        "c|": (1.0, 0.1),
        "d|": (1.0, 0.2),
        "own|": (9.0, 3.0),
    }
    tracked.update([interval(registry, use)])
    table = tracked.table([interval(registry, use)])
    assert table.names == ("a|", "b|", OTHER, AGENT)
    assert table.count is not None
    assert table.count.tolist() == [[9.0, 8.0, 2.0, 9.0]]
    assert table.statement_time[0] == pytest.approx([2.0, 1.0, 0.3, 3.0])


@pytest.mark.parametrize("names", [("calls", "statement_time", "cpu_time"), NAMES[::-1]])
def test_all_calls_are_counted_when_the_counters_change(names: tuple[str, ...]) -> None:
    """A restart switches SUM_CPU_TIME off again: calls after it are counted too."""
    registry = ClassRegistry()
    after = interval(registry, {"a|": (5.0, 0.1)})
    values = np.array([[{"calls": 7.0, "statement_time": 0.2}.get(name, 0.15) for name in names]])
    classes = np.array([registry.number("a|")], dtype=np.intp)
    before = ClassInterval(1.0, 1.0, ClassDeltas(names, classes, values, np.zeros(1)), {})
    tracked = TrackedClasses(registry, most=1)
    tracked.update([before, after])
    table = tracked.table([before, after])
    assert table.count is not None
    assert table.count[:, 0].tolist() == [7.0, 5.0]
    assert table.statement_time[:, 0] == pytest.approx([0.2, 0.1])
    assert table.cpu is None


def test_the_size_of_a_class_is_its_share_of_calls_and_of_time() -> None:
    """Each counts as much as the other, whatever their units."""
    registry = ClassRegistry()
    tracked = TrackedClasses(registry, most=1)
    tracked.update([interval(registry, {"a|": (600.0, 0.1), "b|": (400.0, 0.9)})])
    assert tracked.keys == ["b|"]


def test_row_locks_are_waited_for_by_the_classes_that_lock_rows() -> None:
    """The server counts them in milliseconds for all classes, and some as a class's lock time."""
    registry = ClassRegistry()
    names = ("calls", "statement_time", "lock_time", "rows_affected")
    values = np.array([[5.0, 2.0, 0.1, 5.0], [5.0, 2.0, 0.0, 0.0]])
    classes = np.array([registry.number(key) for key in ("update|", "select|")], dtype=np.intp)
    changes = ClassDeltas(names, classes, values, np.zeros(2))
    for waited, expected in ((600.0, [0.6, 0.0]), (50.0, [0.1, 0.0]), (None, [0.1, 0.0])):
        one = ClassInterval(1.0, 1.0, changes, {} if waited is None else {ROW_LOCKS: waited})
        table = class_table([one], np.arange(2), ("update|", "select|"), None)
        assert table.lock_time is not None
        assert table.lock_time[0] == pytest.approx(expected)


def test_a_lock_time_with_the_opening_of_tables_is_no_wait_as_far_as_a_call_costs() -> None:
    """Where the server says so; a class that opens tables keeps some lock time."""
    names, classes = ("calls", "statement_time", "lock_time"), np.arange(2, dtype=np.intp)
    values = np.array([[100.0, 0.01, 0.003], [10.0, 2.0, 1.5]])
    for opens, expected in ((True, [0.01, 0.5005]), (False, [0.007, 0.5])):
        changes = ClassDeltas(names, classes, values, np.zeros(2), lock_time_includes_opening=opens)
        table = class_table([ClassInterval(1.0, 1.0, changes, {})], classes, ("a|", "b|"), None)
        assert table.work_time[0] == pytest.approx(expected)
        assert table.lock_time is not None
        assert (table.lock_time > 0).all()


def test_a_class_keeps_its_column_until_another_is_clearly_larger() -> None:
    """By half; so two of about the same size do not change places each minute."""
    registry = ClassRegistry()
    tracked = TrackedClasses(registry, most=1, keep=0.0)
    for used, first in ((1.0, "a|"), (1.4, "a|"), (1.6, "b|")):
        tracked.update([interval(registry, {"a|": (1.0, 1.0), "b|": (used, used)})])
        assert tracked.keys == [first]
