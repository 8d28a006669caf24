"""What query classes used, interval by interval: out of the models, into the file and back."""

from contextlib import closing
from pathlib import Path

import pytest
from class_samples import START
from history_rows import SERVER, SETTINGS, STEP, ZERO, class_uses, rows
from known_classes import known_classes
from simulated_classes import simulate
from test_history_recorder import UNIX, Life
from test_query_classes import SECONDS, followed
from test_query_classes import SETTINGS as A_MINUTE

from agent.compare.period_class_costs import class_costs
from agent.compare.periods import Period
from agent.config.query_class_settings import ClassSettings
from agent.history import class_uses as uses
from agent.history.open_database import open_to_read, open_to_write
from agent.history.row_access import insert_rows
from agent.history.row_kinds import CLASSES, Row
from agent.history.row_mapping import ClassUses
from agent.history.store import Store
from agent.history.write_buffer import Batch
from agent.query_classes.capacity_gain import CapacityGain, capacity_gains
from agent.query_classes.class_registry import UNATTRIBUTED, ClassName
from models.attribution.class_interval_table import AGENT, OTHER


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the history is to be."""
    return tmp_path / "state" / "history.db"


@pytest.mark.parametrize("top", [2, 20])
def test_intervals_add_up_to_the_total_use(top: int) -> None:
    """Nothing is lost in between, whichever classes become or cease to be large."""
    settings = ClassSettings(top=top, interval=A_MINUTE.interval, window=A_MINUTE.window)
    simulated = simulate(7, intervals=SECONDS)
    classes, states = followed(simulated, settings)
    spent = classes.take_new_usage()
    assert [one.at for one in spent] == [state.at for state in states]
    assert simulated.intervals.count is not None
    last = round(states[-1].at - 1e9 - START)
    assert sum(one.seconds for one in spent) == pytest.approx(last)
    calls = float(simulated.intervals.count[1 : last + 1].sum())
    for quantity, whole in (("calls", calls), ("cpu", float(simulated.y[1 : last + 1].sum()))):
        found = sum(used[quantity] for one in spent for used in one.uses.values())
        assert found == pytest.approx(whole, rel=1e-9)
    assert all(len(one.uses) <= top + len((OTHER, AGENT, UNATTRIBUTED)) for one in spent)
    assert classes.take_new_usage() == []


def test_an_interval_is_stored_with_the_use_of_each_class(path: Path) -> None:
    """Use, error and gains; unknown values are NULL, as is the digest of the others."""
    classes, _ = followed(simulate(7, intervals=SECONDS))
    last = classes.take_new_usage()[-1]
    life = Life(path, UNIX)
    life.begin()
    life.recorder.keep_class_uses(
        ClassUses(last, {ClassName("shop", "scan"): CapacityGain(0.5, 0.2)})
    )
    life.look()
    life.end()
    found = {
        row.labels[-1]: dict(zip(uses.NAMES, row.cells, strict=True)) for row in rows(path, CLASSES)
    }
    assert set(found) == set(last.uses)
    scan = found["scan|=shop"]
    assert scan["cpu"] == last.uses["scan|=shop"]["cpu"]
    assert scan["cpu_error"] == last.cpu_error["scan|=shop"]
    assert (scan["removed_gain"], scan["halved_gain"]) == (0.5, 0.2)
    assert scan["cpu_source"] == "work-time"
    assert found["sleep|=shop"]["waits"] == 1.0
    assert found["sleep|=shop"]["removed_gain"] is None
    assert scan["network"] is None
    assert found[UNATTRIBUTED]["cpu"] == last.uses[UNATTRIBUTED]["cpu"]


def test_a_span_is_summed_by_class(path: Path) -> None:
    """Of the server that was stored last, with its ends and its length."""
    store = Store(path, SETTINGS)
    for number in range(10):
        store.put(Batch("db", SERVER, classes=class_uses(number)))
        store.put(Batch("db", "before", classes=class_uses(number - 10, server="before")))
    store.close()
    with closing(open_to_read(path)) as connection:
        since = ZERO + 3 * STEP
        span = uses.latest_span(connection, "db", since, ZERO + 99 * STEP)
        assert span is not None
        assert span.seconds == 90.0
        assert (span.first, span.last) == (ZERO + 4 * STEP, ZERO + 9 * STEP)
        found = {use.name: use for use in uses.uses(connection, span)}
        assert found["a1b2|=shop"].calls == sum(30.0 + k for k in range(4, 10))
        assert found["a1b2|=shop"].cpu == 6 * 1.25
        assert uses.cpu_methods(connection, span) == {"work-time"}
        assert found["unattributed"].calls is None
        gains = uses.latest_gains(connection, span)
        assert gains == {name: CapacityGain(0.75, 0.25) for name in ("a1b2|=shop", "c3d4|")}
        assert uses.latest_span(connection, "nobody", 0, since) is None


def test_calls_without_known_cpu_do_not_lower_the_cost(path: Path) -> None:
    """Calls of a minute without a CPU sample do not count as free."""
    store = Store(path, SETTINGS)
    for number in range(120):
        (labels, at, cells), *_ = class_uses(number)
        used = dict(zip(uses.NAMES, cells, strict=True))
        known = number % 3 > 0
        used |= {"calls": 100.0, "cpu": 2.0 if known else None, "cpu_error": 0.1 if known else None}
        store.put(Batch("db", SERVER, classes=[Row(labels, at, tuple(used.values()))]))
    store.close()
    with closing(open_to_read(path)) as connection:
        period = Period((ZERO - STEP) / 1000, (ZERO + 119 * STEP) / 1000)
        cost = class_costs(connection, "db", SERVER, period).cost("a1b2|=shop", "cpu")
    assert cost.value == pytest.approx(0.02)
    assert cost.high == pytest.approx(0.02 + 1.8 * 0.001, rel=1e-6)


def test_rows_of_one_time_are_never_split(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the pages end, every row is read once."""
    written = [row for number in range(9) for row in class_uses(number)]
    store = Store(path, SETTINGS)
    store.put(Batch("db", SERVER, classes=written))
    store.close()
    for page in (1, 2, 4, 5, 26, 27, 100):
        monkeypatch.setattr(uses, "PAGE_ROWS", page)
        assert rows(path, CLASSES) == written


def test_a_class_name_is_kept_as_long_as_it_has_rows(path: Path) -> None:
    """An import of old rows does not make it look unused."""
    store = Store(path, SETTINGS)
    store.put(Batch("db", SERVER, classes=class_uses(5)))
    store.close()
    with closing(open_to_write(path)) as connection:
        assert insert_rows(connection, CLASSES, class_uses(1)) == 3
        assert insert_rows(connection, CLASSES, class_uses(1)) == 0
        uses.delete_unused_names(connection, ZERO + 5 * STEP)
    assert rows(path, CLASSES) == [*class_uses(1), *class_uses(5)]


def test_gains_are_known_only_with_a_capacity() -> None:
    """Without one no class has any."""
    assert capacity_gains(known_classes(1.0), None) == {}
    assert capacity_gains(None, None) == {}
