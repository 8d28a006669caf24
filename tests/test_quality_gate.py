"""Bytes go to classes only where the model has shown that it knows whose they are."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from class_samples import samples
from simulated_classes import Simulated, simulate

from agent.commands.profile_report import as_json, as_text
from agent.demo.private_server import PrivateServer
from agent.export.profile_rows import profile_of
from agent.query_classes.class_intervals import ClassInterval, ClassIntervalMaker
from agent.query_classes.class_registry import ClassRegistry
from agent.query_classes.period_attribution import ObservedClasses, observed_classes
from agent.query_classes.resource_meter import RESOURCES
from models.arrays import Array
from models.attribution.class_interval_table import AGENT, ClassIntervals
from models.attribution.division_methods import DividedUse
from models.attribution.quality_gate import is_predicted_well, may_have_used, withhold_failing
from models.attribution.resource_division import attribute
from models.attribution.result import HostUse, PredictionError
from models.attribution.sliding_model import SlidingModel
from testbed.real.clients import run_as_root

INTERVALS, BLOCK = 240, 60
READ = next(resource for resource in RESOURCES if resource.name == "read")
BYTES_OF_A_ROW = 100.0

Bytes = Callable[[ClassIntervals], Array]


def of_rows(intervals: ClassIntervals) -> Array:
    """Bytes that follow the rows which the classes examined, shape (T,)."""
    return BYTES_OF_A_ROW * np.asarray(dict(intervals.sizes)["rows_examined"].sum(axis=1))


def of_nobody(intervals: ClassIntervals) -> Array:
    """Bytes that follow nothing that the classes do, shape (T,)."""
    return np.random.default_rng(5).lognormal(12.0, 1.0, len(intervals))


def made_up() -> Simulated:
    """A server whose statements name tables."""
    simulated = simulate(3, intervals=INTERVALS)
    texts = tuple(f"{text} FROM `t`" for text in simulated.intervals.texts or ())
    return replace(simulated, intervals=replace(simulated.intervals, texts=texts))


def look(y: Bytes) -> ObservedClasses:
    """A simulated server that read so many bytes a second, looked at for four minutes."""
    simulated = made_up()
    registry, made = ClassRegistry(), list[ClassInterval]()
    maker = ClassIntervalMaker(registry)
    for sample in samples(simulated):
        maker.append(sample)
        made += maker.intervals(sample.at)
    read = y(simulated.intervals)[-len(made) :]
    intervals = [replace(t, used={**t.used, "read": b}) for t, b in zip(made, read, strict=True)]
    return observed_classes(registry, intervals)


@pytest.mark.parametrize(
    ("error", "moved", "proven"),
    [
        (0.1, 0.98, True),
        (0.6, 0.98, False),
        (0.1, 0.4, False),
        (0.03, None, True),
        (None, None, False),
    ],
)
def test_both_error_and_correlation_count(
    error: float | None, moved: float | None, proven: bool
) -> None:
    """Nothing passes before anything was predicted."""
    assert is_predicted_well(PredictionError(error, moved, None)) is proven


def test_bytes_that_follow_rows_are_attributed() -> None:
    """The profile ranks by them, and reports the prediction error."""
    profile = profile_of(look(of_rows), "io", with_text=False)
    assert profile.sort == "io"
    assert profile.io["read"].unattributed < 0.2 * profile.io["read"].total
    first = profile.rows[0]
    examined = max(row.rows_examined or 0.0 for row in profile.rows)
    assert first.rows_examined == examined
    assert first.io == pytest.approx(BYTES_OF_A_ROW * examined, rel=0.2)
    text = as_text(profile, 5)
    assert "greatest share of the IO" in text
    assert "calls and rows do not tell" not in text


def test_bytes_that_follow_nothing_are_unattributed() -> None:
    """No class has any, none is ranked by them, and the report says why."""
    profile = profile_of(look(of_nobody), "io", with_text=False)
    assert profile.sort == "time"
    assert all(row.io is None for row in profile.rows)
    text = as_text(profile, 5)
    assert "bytes, of which 100 % is unattributed; held out within" in text
    assert "calls and rows do not show which class caused them" in text
    found = json.loads(as_json(profile, 5))["io"]
    assert found["read"]["total"] > 0
    assert found["read"]["unattributed"] == pytest.approx(found["read"]["total"], rel=1e-12)
    assert "cost_varies" in found["read"]["reasons"]
    assert "written" not in found


@pytest.mark.parametrize("seed", range(4))
def test_what_the_gate_keeps_leaves_no_rounding_unattributed(seed: int) -> None:
    """Of bytes that the classes explain to the last one 0 are left, not −1.5e-08 and −0.0 %."""
    rng = np.random.default_rng(seed)
    count = np.round(rng.uniform(100, 1000, (60, 4))) * np.exp(rng.normal(0, 0.5, (60, 1)))
    intervals = ClassIntervals(tuple("abcd"), np.full(60, 15.0), 0.001 * count, count)
    found = attribute(intervals, DividedUse(count @ rng.uniform(10, 1000, 4), time_like=False))
    gated = withhold_failing("network", intervals, found)
    assert gated.totals == pytest.approx(found.totals)
    assert gated.unattributed == found.unattributed >= 0


@pytest.mark.parametrize("y", [of_rows, of_nobody])
def test_the_agent_judges_by_earlier_minutes(y: Bytes) -> None:
    """Its first minute is unattributed; then it depends on the predictions."""
    intervals = made_up().intervals
    bytes_read, model = y(intervals), SlidingModel(READ, blocks=10)
    given = []
    for start in range(0, INTERVALS, BLOCK):
        part = slice(start, start + BLOCK)
        division = model.add_block(intervals.at(part), bytes_read[part], HostUse())
        given.append(division.uses.sum() / bytes_read[part].sum())
        assert np.isnan(division.error[division.uses == 0]).all()
    assert given[0] == 0
    if y is of_rows:
        assert min(given[1:]) > 0.8
    else:
        assert given == [0, 0, 0, 0]
        assert model.unattributed_share == 1


def test_waiting_classes_and_those_without_rows_get_no_bytes() -> None:
    """Sleepers, the agent, classes without rows; what a COMMIT writes may be another's rows."""
    names = ("sleeper", AGENT, "scan", "commit", "compute", "cut")
    rows = np.array([[1.0, 5.0, 9.0, 0.0, 1.0, 1.0]])
    intervals = ClassIntervals(
        names=names,
        seconds=np.ones(1),
        statement_time=np.ones((1, 6)),
        sizes=(("rows_examined", rows), ("rows_affected", np.zeros((1, 6)))),
        texts=(
            "SELECT SLEEP (?)",
            None,
            "SELECT `a` FROM `t`",
            "COMMIT",
            "SELECT ? + ?",
            "SELECT `b` ...",
        ),
    )
    assert may_have_used("read", intervals).tolist() == [False, False, True, False, False, True]
    assert may_have_used("written", intervals).tolist() == [False, False, True, True, False, True]
    assert may_have_used("network", intervals).all()


FEW, MANY, NONE = 10.0, 30.0, 0.0
READS_OR_WRITES = [  # text, rows examined and affected in ten calls, whether it may
    ("SELECT `total_of` (?)", MANY, NONE, True),
    ("SELECT `shop` . `total_of` (?)", MANY, NONE, True),
    ("SELECT shop.total_of (?)", MANY, NONE, True),
    ("SELECT `book_in` (?) + ?", FEW, FEW, True),
    ("SELECT `SHA2` (...)", FEW, NONE, False),
    ("SELECT `SHA2` (...)", NONE, NONE, False),
    ("SELECT SHA2 (...)", MANY, NONE, False),
    ("SELECT ? + ?", MANY, FEW, False),
]


@pytest.mark.parametrize(("text", "examined", "affected", "may"), READS_OR_WRITES)
def test_a_stored_function_may_read_and_write(
    text: str, examined: float, affected: float, may: bool
) -> None:
    """Its statement names no table, but more rows are touched than the one of no table."""
    intervals = of_one(text, 10.0, examined, affected)
    assert may_have_used("read", intervals).tolist() == [may]
    assert may_have_used("written", intervals).tolist() == [may]


def of_one(text: str, calls: float, examined: float, affected: float) -> ClassIntervals:
    """One class's interval."""
    return ClassIntervals(
        names=("one",),
        seconds=np.ones(1),
        statement_time=np.ones((1, 1)),
        count=np.full((1, 1), calls),
        sizes=(
            ("rows_examined", np.full((1, 1), examined)),
            ("rows_affected", np.full((1, 1), affected)),
        ),
        texts=(text,),
    )


def test_real_digests_show_which_functions_read(mysql_server: PrivateServer) -> None:
    """By texts and counts: one that sums a table up, one that computes, built-in ones."""
    calls = ("total_of(1)", "functions.total_of(1)", "next_of(1)", "SHA2('a', 256)", "1 + 1")
    returns = "RETURNS INT READS SQL DATA RETURN"
    found = run_as_root(
        mysql_server,
        "CREATE DATABASE functions",
        "USE functions",
        "CREATE TABLE t (a INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1), (2), (3)",
        f"CREATE FUNCTION total_of(x INT) {returns} (SELECT SUM(a) FROM t WHERE a >= x)",
        f"CREATE FUNCTION next_of(x INT) {returns} x + 1",
        *(f"SELECT {call}" for call in 3 * calls),
        "SELECT DIGEST_TEXT, COUNT_STAR, SUM_ROWS_EXAMINED, SUM_ROWS_AFFECTED"
        " FROM performance_schema.events_statements_summary_by_digest"
        " WHERE SCHEMA_NAME = 'functions' AND DIGEST_TEXT LIKE 'SELECT%' AND COUNT_STAR = 3",
    )
    run_as_root(mysql_server, "DROP DATABASE functions")
    assert len(found) == len(calls)
    who = {
        row[0] for row in found if may_have_used("read", of_one(row[0], *map(float, row[1:])))[0]
    }
    assert who == {"SELECT `total_of` (?)", "SELECT `functions` . `total_of` (?)"}
