"""Dividing a resource over classes: the sources, their choice, and what is said of doubt."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from simulated_classes import COSTS, RATES, Simulated, simulate

from agent.csv_input.class_file import ClassFile, read_classes
from agent.csv_input.host_file import join_host_file, read_host
from models.attribution.block_model import fit_intervals
from models.attribution.call_and_row_costs import USUAL_CPU
from models.attribution.class_interval_table import ClassIntervals
from models.attribution.division_methods import DividedUse, limit_parts
from models.attribution.resource_division import attribute, choose_method
from models.attribution.result import (
    Attribution,
    AttributionReason,
    DivisionMethod,
    HostUse,
    PredictionError,
    disagreement,
)
from models.attribution.wait_functions import waits_by_text
from models.attribution.waiting_classes import cap_waiting_work
from testbed.data_file_paths import data


def cpu(s: Simulated) -> DividedUse:
    """The simulated server's CPU."""
    return DividedUse(s.y, is_cpu_seconds=True)


def shares(found: Attribution) -> dict[str, float]:
    """Each class's share."""
    return {use.name: use.share for use in found.classes}


def truth_error(found: Attribution, s: Simulated) -> float:
    """Σ|share − true share|."""
    error = disagreement(found.totals, s.truth.sum(axis=0))
    assert error is not None
    return error


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("SELECT `SLEEP` (?)", True),
        ("SELECT SLEEP ( ? )", True),
        ("DO sleep(5)", True),
        ("SELECT `GET_LOCK` (...)", True),
        ("SELECT `WAIT_FOR_EXECUTED_GTID_SET` (...)", True),
        ("SELECT MASTER_POS_WAIT ( ... )", True),
        ("SELECT `BENCHMARK` ( ? , `SHA2` (...) )", False),
        ("SELECT `RELEASE_LOCK` (?)", False),
        ("SELECT `sleep` FROM `beds`", False),
        ("SELECT `hours_of_sleep` (?)", False),
        ("SELECT `app` . `sleep` FROM `t`", False),
        ("SELECT 'please SLEEP(1)'", False),
        ("", False),
        (None, False),
    ],
)
def test_wait_functions_are_recognised_in_the_digest_text(text: str | None, waits: bool) -> None:
    """Calls of wait functions, not columns or strings that look like them."""
    assert waits_by_text([text], 1).tolist() == [waits]


def test_the_work_time_of_a_waiting_call_is_capped() -> None:
    """Its time is cut to 50 µs a call; less stays less; without counts it is 0."""
    work, count = np.array([[0.3, 0.3, 1e-6]]), np.array([[10.0, 10.0, 1.0]])
    waiting = np.array([True, False, True])
    assert cap_waiting_work(work, count, waiting).tolist() == [[10 * USUAL_CPU["calls"], 0.3, 1e-6]]
    assert cap_waiting_work(work, None, waiting).tolist() == [[0, 0.3, 0]]


def test_work_time_excludes_locks_and_includes_statements_in_flight() -> None:
    """Statement − lock + change of elapsed time, never below 0."""
    one = np.array([[2.0, 1.0]])
    intervals = ClassIntervals(
        ("a", "b"),
        np.ones(1),
        one,
        lock_time=np.array([[0.5, 0.0]]),
        inflight_delta=np.array([[1.0, -3.0]]),
    )
    assert intervals.work_time.tolist() == [[2.5, 0]]


@pytest.mark.parametrize(
    ("options", "with_texts", "without"),
    [
        ({}, 0.1, 0.08),
        ({"busy": 0.75}, 0.12, 0.09),
        ({"busy": 0.2}, 0.12, 0.09),
        ({"common": 0.75}, 0.12, 0.1),
        ({"base": 0.8}, 0.1, 0.1),
        ({"cost_drift": 0.3}, 0.18, 0.25),
    ],
    ids=["moderate", "high", "light", "common load", "much of nobody", "costs vary"],
)
def test_simulated_shares_are_estimated(
    options: dict[str, Any], with_texts: float, without: float
) -> None:
    """On average over six servers, with digest texts and without; sleepers below 1 %."""
    errors = {True: [], False: []}  # type: dict[bool, list[float]]
    for seed in range(6):
        s = simulate(seed, **options)
        for known, intervals in ((True, s.intervals), (False, s.without_texts)):
            found = attribute(intervals, cpu(s))
            errors[known].append(truth_error(found, s))
            assert shares(found)["sleep"] < (0.01 if "cost_drift" not in options else 0.03)
    assert np.mean(errors[True]) <= with_texts
    assert np.mean(errors[False]) <= without


@pytest.mark.parametrize("noise", [0.02, 0.15])
def test_computing_without_rows_is_not_classified_as_waiting(noise: float) -> None:
    """20 ms of hashing a call and one row, a hundred times what rows explain, beside SLEEP."""
    costs = {**COSTS, "hash": 20e-3}
    for seed in range(4):
        s = simulate(seed, costs=costs, rates=(*RATES[:-3], 8, *RATES[-2:]), noise=noise)
        found = attribute(s.without_texts, cpu(s))
        assert truth_error(found, s) < (0.1 if noise < 0.1 else 0.25)
        assert shares(found)["sleep"] < 0.02


@pytest.mark.parametrize("intervals", [20, 60])
def test_a_long_computation_without_rows_keeps_its_cpu_in_few_intervals(intervals: int) -> None:
    """0.3 s of hashing a call and one row: more than half of its CPU is found in each case."""
    costs, hashing = {**COSTS, "hash": 0.3}, list(COSTS).index("hash")
    for seed in range(12):
        rates = (*RATES[:hashing], 0.8, *RATES[hashing + 1 :])
        s = simulate(seed, intervals=intervals, costs=costs, rates=rates)
        used = s.truth[:, hashing].sum()
        for seen in (s.intervals, s.without_texts):
            assert attribute(seen, cpu(s)).totals[hashing] > 0.5 * used


@pytest.mark.parametrize(("intervals", "most"), [(60, 0.3), (300, 0.12)])
def test_noise_does_not_move_the_classes_use_to_the_base(intervals: int, most: float) -> None:
    """With little information in the intervals, the priors count."""
    errors = []
    for seed in range(8):
        s = simulate(seed, intervals=intervals, noise=0.15)
        found = attribute(s.without_texts, cpu(s))
        errors.append(truth_error(found, s))
        assert found.unattributed < 0.4 * found.total
    assert np.mean(errors) < most


@pytest.mark.parametrize("running", [0.1, 0.9])
@pytest.mark.parametrize("intervals", [60, 300])
def test_little_cpu_use_is_no_upper_bound(running: float, intervals: int) -> None:
    """Threads that wake up often wait for a CPU as often, and it is not their work that waits."""
    for seed in range(4):
        s = simulate(seed, intervals=intervals, noise=0.1)
        found = attribute(
            s.without_texts, cpu(s), host=HostUse(busy=0.9, io_wait=0.0, running=running)
        )
        assert truth_error(found, s) < 0.2
        assert shares(found)["sleep"] < 0.02


@pytest.mark.parametrize("name", ["A_moderate", "D_light"])
def test_waiting_classes_are_found_within_a_minute(name: str) -> None:
    """Without texts, on any minute of a recording; twenty seconds are seldom enough."""
    recorded = recording(name)
    assert recorded.y is not None
    assert recorded.truth is not None
    for length, mean, most in ((60, 0.1, 0.15), (20, 0.2, 0.6)):
        errors = []
        for begin in range(0, len(recorded.y) - length + 1, length):
            part = slice(begin, begin + length)
            intervals = replace(recorded.intervals.at(part), texts=None)
            found = attribute(intervals, DividedUse(recorded.y[part], is_cpu_seconds=True))
            error = disagreement(found.totals, recorded.truth[part].sum(axis=0))
            assert error is not None
            errors.append(error)
        assert np.mean(errors) < mean
        assert np.max(errors) < most


@pytest.mark.parametrize(
    ("name", "with_texts", "without"), [("A_moderate", 0.055, 0.055), ("D_light", 0.07, 0.07)]
)
def test_recorded_shares_are_estimated(name: str, with_texts: float, without: float) -> None:
    """Against SUM_CPU_TIME of MySQL 9.7, with digest texts and without."""
    recorded = recording(name)
    assert recorded.y is not None
    assert recorded.truth is not None
    for texts, most in ((recorded.intervals.texts, with_texts), (None, without)):
        target = DividedUse(recorded.y, is_cpu_seconds=True)
        found = attribute(replace(recorded.intervals, texts=texts), target)
        error = disagreement(found.totals, recorded.truth.sum(axis=0))
        assert error is not None
        assert error <= most
        assert shares(found)["sleep"] < 0.01
        assert shares(found)["getlock"] < 0.01
        assert 0.05 < found.unattributed / found.total < 0.13
        assert not found.reasons


@pytest.mark.parametrize(("name", "quarters"), [("A_moderate", 4), ("D_light", 2)])
def test_parts_of_a_recording_are_enough(name: str, quarters: int) -> None:
    """Two minutes of A, one and a half of D, without texts: no waiting class gets 1 %."""
    recorded = recording(name)
    assert recorded.y is not None
    intervals = replace(recorded.intervals, texts=None)
    for part in np.array_split(np.arange(len(intervals)), quarters):
        found = attribute(intervals.at(part), DividedUse(recorded.y[part], is_cpu_seconds=True))
        assert shares(found)["sleep"] < 0.01
        assert shares(found)["getlock"] < 0.01


def recording(name: str) -> ClassFile:
    """A recording with its resource."""
    classes = read_classes(str(data(f"mysql97/{name}.csv.gz")))
    return join_host_file(classes, read_host(str(data(f"mysql97/{name}_host.csv.gz"))))


def test_the_best_method_is_chosen() -> None:
    """Measured, then work time with known waits, then the learned model."""
    s = simulate(intervals=30)
    measured = replace(s.intervals, cpu=s.truth)
    assert choose_method(measured, cpu(s)) is DivisionMethod.MEASURED
    assert choose_method(s.intervals, cpu(s)) is DivisionMethod.WORK_TIME
    assert choose_method(s.without_texts, cpu(s)) is DivisionMethod.LEARNED
    assert choose_method(measured, DividedUse(s.y, time_like=False)) is DivisionMethod.LEARNED


def test_measured_cpu_is_used_as_it_is_and_the_estimate_compared() -> None:
    """The rest is unattributed; totals are the server's own."""
    s = simulate()
    found = attribute(replace(s.intervals, cpu=s.truth), cpu(s))
    assert found.method is DivisionMethod.MEASURED
    assert found.totals == pytest.approx(s.truth.sum(axis=0))
    assert found.unattributed == pytest.approx(s.y.sum() - s.truth.sum())
    assert {use.stderr for use in found.classes} == {None}
    assert found.compared_with is DivisionMethod.WORK_TIME
    assert found.disagreement is not None
    assert 0 < found.disagreement < 0.15


def test_an_estimate_is_compared_with_measured_cpu() -> None:
    """A requested method reports how far it is from the measured CPU."""
    s = simulate()
    measured = replace(s.intervals, cpu=s.truth)
    found = attribute(measured, cpu(s), DivisionMethod.WLR)
    assert (found.method, found.compared_with) == (DivisionMethod.WLR, DivisionMethod.MEASURED)
    assert found.disagreement == pytest.approx(truth_error(found, s))


@pytest.mark.parametrize(
    "method",
    [DivisionMethod.AUTO, DivisionMethod.WORK_TIME, DivisionMethod.LEARNED, DivisionMethod.WLR],
)
@pytest.mark.parametrize("known", [True, False], ids=["texts", "no texts"])
@pytest.mark.parametrize("counted", [True, False], ids=["calls", "no calls"])
def test_no_method_is_compared_with_itself(
    method: DivisionMethod, known: bool, counted: bool
) -> None:
    """Whatever is requested and known, the comparison is with another method."""
    s = simulate(intervals=100)
    intervals = s.intervals if known else s.without_texts
    intervals = intervals if counted else replace(intervals, count=None, sizes=())
    found = attribute(intervals, cpu(s), method)
    assert found.disagreement is not None
    assert found.disagreement > 0


def test_auto_is_compared_with_work_time_alone() -> None:
    """What the corrections of work time have changed."""
    s = simulate()
    found = attribute(s.intervals, cpu(s))
    assert (found.method, found.compared_with) == (
        DivisionMethod.WORK_TIME,
        DivisionMethod.WORK_TIME,
    )
    alone = attribute(s.intervals, cpu(s), DivisionMethod.WORK_TIME)
    assert found.disagreement == pytest.approx(disagreement(found.totals, alone.totals))


def test_measured_without_measurements_is_a_value_error() -> None:
    """A ValueError."""
    s = simulate(intervals=10)
    with pytest.raises(ValueError, match="measured"):
        attribute(s.intervals, cpu(s), DivisionMethod.MEASURED)


@pytest.mark.parametrize(
    "method",
    [DivisionMethod.AUTO, DivisionMethod.WLR, DivisionMethod.WORK_TIME, DivisionMethod.LEARNED],
)
@pytest.mark.parametrize("options", [{}, {"base": 3.0}, {"cost_drift": 0.5}])
def test_totals_and_unattributed_add_up(method: DivisionMethod, options: dict[str, Any]) -> None:
    """To the resource; shares to 1; nothing below 0, whatever the method and the load."""
    s = simulate(4, intervals=100, **options)
    found = attribute(s.intervals, cpu(s), method)
    assert found.totals.sum() + found.unattributed == pytest.approx(s.y.sum())
    assert sum(shares(found).values()) == pytest.approx(1)
    assert (found.totals >= 0).all()
    assert found.unattributed >= 0


def test_no_class_gets_more_cpu_than_its_time() -> None:
    """A server that uses 5 CPUs while statements ran for less: the rest is unattributed."""
    s = simulate(intervals=100)
    target = DividedUse(s.y + 5, is_cpu_seconds=True)
    for method in (
        DivisionMethod.AUTO,
        DivisionMethod.WORK_TIME,
        DivisionMethod.WLR,
        DivisionMethod.LEARNED,
    ):
        found = attribute(s.intervals, target, method)
        time = s.intervals.statement_time.sum(axis=0)
        assert (found.totals <= time * (1 + 1e-9)).all()
        if method is not DivisionMethod.WLR:  # which takes sleeping for computing
            assert found.unattributed > 0.5 * found.total


def test_no_class_is_farther_off_than_its_time_and_the_total() -> None:
    """An error that grows with the part of another division is more than is possible."""
    s = simulate(intervals=20)
    parts = fit_intervals(s.intervals, cpu(s)).divide(s.intervals, cpu(s))
    found = limit_parts(replace(parts, error=0 * parts.error + 1e9), s.intervals, cpu(s))
    assert found.error == pytest.approx(
        np.minimum(s.intervals.statement_time.sum(axis=0), s.y.sum())
    )


def test_cpu_of_idle_intervals_is_unattributed() -> None:
    """By every method."""
    s = simulate(intervals=80)
    idle = np.arange(80) % 2 == 0
    intervals = replace(
        s.intervals, statement_time=np.where(idle[:, None], 0, s.intervals.statement_time)
    )
    found = attribute(intervals, cpu(s), DivisionMethod.WLR)
    assert found.unattributed >= s.y[idle].sum() * (1 - 1e-9)


def test_weighted_regression_charges_sleepers_and_has_the_reason() -> None:
    """The published method is offered for comparison, with its weakness as a reason."""
    s = simulate()
    found = attribute(s.intervals, cpu(s), DivisionMethod.WLR)
    assert shares(found)["sleep"] > 0.2
    assert AttributionReason.WAITS_UNSEEN in found.reasons
    assert (
        AttributionReason.WAITS_UNSEEN
        not in attribute(s.intervals, cpu(s), DivisionMethod.WORK_TIME).reasons
    )
    assert (
        AttributionReason.WAITS_UNSEEN
        in attribute(s.without_texts, cpu(s), DivisionMethod.WORK_TIME).reasons
    )


def test_a_wait_that_no_text_shows_is_found() -> None:
    """A stored function that sleeps has no known name; the model finds it."""
    s = simulate()
    texts = tuple(f"SELECT `f_{name}` ( )" for name in s.intervals.names)
    found = attribute(replace(s.intervals, texts=texts), cpu(s))
    assert found.method is DivisionMethod.WORK_TIME
    assert shares(found)["sleep"] < 0.01
    assert [use.name for use in found.classes if use.waits] == ["sleep"]


def test_two_standard_errors_cover_the_truth() -> None:
    """For nine classes in ten, by the chosen method, with texts and without."""
    for known in (True, False):
        inside = []
        for seed in range(8):
            s = simulate(seed)
            found = attribute(s.intervals if known else s.without_texts, cpu(s))
            errors = np.array([use.stderr for use in found.classes], dtype=float)
            inside += list(np.abs(found.totals - s.truth.sum(axis=0)) < 2 * errors)
        assert np.mean(inside) >= 0.88


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (HostUse(busy=0.97), AttributionReason.SATURATED),
        (HostUse(io_wait=0.3), AttributionReason.IO_BOUND),
    ],
)
def test_a_saturated_or_io_bound_host_is_a_reason(host: HostUse, reason: AttributionReason) -> None:
    """Where the host's own time is known."""
    s = simulate(intervals=100)
    assert attribute(s.intervals, cpu(s), host=host).reasons == (reason,)
    assert attribute(s.intervals, cpu(s), host=HostUse(0.5, 0.01)).reasons == ()


@pytest.mark.parametrize("seed", range(4))
def test_varying_costs_are_a_reason_without_the_host(seed: int) -> None:
    """IO-bound: CPU per call is not constant, and quarters do not predict each other."""
    s = simulate(seed, cost_drift=0.5)
    assert AttributionReason.COST_VARIES in attribute(s.intervals, cpu(s)).reasons


def test_mostly_waiting_time_is_a_reason() -> None:
    """CPU is a tenth of the work time: IO, or queues."""
    s = simulate()
    intervals = replace(s.intervals, statement_time=8 * s.intervals.statement_time)
    assert AttributionReason.MOSTLY_WAITING in attribute(intervals, cpu(s)).reasons


def test_few_intervals_are_a_reason() -> None:
    """Below a minute of seconds."""
    s = simulate(intervals=20)
    assert AttributionReason.FEW_INTERVALS in attribute(s.intervals, cpu(s)).reasons


def test_every_reason_has_a_sentence() -> None:
    """For people; the value is for programs."""
    assert all(reason.sentence for reason in AttributionReason)


@pytest.mark.parametrize(
    "method",
    [DivisionMethod.AUTO, DivisionMethod.WLR, DivisionMethod.WORK_TIME, DivisionMethod.LEARNED],
)
def test_intervals_with_little_information_are_divided_all_the_same(method: DivisionMethod) -> None:
    """One interval, one class, nothing active, no resource: finite, and adding up."""
    s = simulate(intervals=12)
    cases: list[tuple[ClassIntervals, Any]] = [
        (s.intervals.at(slice(1)), s.y[:1]),
        (s.intervals.arranged(["sleep"]), s.y),
        (s.intervals.arranged(["nobody", "none"]), s.y),
        (s.intervals, np.zeros(12)),
    ]
    for intervals, y in cases:
        found = attribute(intervals, DividedUse(y, is_cpu_seconds=True), method)
        assert np.isfinite(found.totals).all()
        assert found.totals.sum() + found.unattributed == pytest.approx(y.sum())


@pytest.mark.parametrize("y", [np.ones(3), np.full(30, np.nan), np.full(30, -1.0)])
def test_a_resource_that_does_not_fit_the_intervals_is_refused(y: Any) -> None:
    """A ValueError: length, NaN, negative."""
    with pytest.raises(ValueError, match="resource"):
        attribute(simulate(intervals=30).intervals, DividedUse(y))


def test_inconsistent_intervals_are_refused() -> None:
    """Shapes, signs, texts."""
    zeros = np.zeros((2, 2))
    with pytest.raises(ValueError, match="shape"):
        ClassIntervals(("a", "b"), np.ones(2), zeros, count=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="negative"):
        ClassIntervals(("a", "b"), np.ones(2), zeros - 1)
    with pytest.raises(ValueError, match="finite"):
        ClassIntervals(("a", "b"), np.ones(2), zeros * np.nan)
    with pytest.raises(ValueError, match="text"):
        ClassIntervals(("a", "b"), np.ones(2), zeros, texts=("x",))


def test_prediction_errors_are_none_where_undefined() -> None:
    """No busy interval, one interval, a constant: None instead of NaN."""
    assert PredictionError.of(np.zeros(3), np.ones(3)) == PredictionError(None, None, None)
    assert PredictionError.of(np.array([2.0]), np.array([1.0])) == PredictionError(0.5, None, None)
    assert PredictionError.of(np.full(3, 2.0), np.arange(3.0)).r_squared is None
    flat = PredictionError.of(np.array([1.0, 3.0]), np.full(2, 2.0))
    assert (flat.r_squared, flat.slope) == (None, 0)
    assert disagreement(np.zeros(2), np.ones(2)) is None
