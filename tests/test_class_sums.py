"""Sums of minutes say what their intervals do; who cannot have computed is known without a text."""

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_classes import pooled, simulate

from collectors.process_lookup import process_io
from collectors.thread_times import ThreadTimes, is_in_sample
from models.arrays import Array
from models.attribution.block_model import fit_intervals
from models.attribution.call_and_row_costs import (
    CpuBounds,
    UnitCosts,
    fit_unit_costs,
    interval_weights,
)
from models.attribution.class_interval_table import ClassIntervals
from models.attribution.cost_model import fit_block
from models.attribution.division_methods import DividedUse, capped_work_time
from models.attribution.result import disagreement
from models.attribution.rolling_block_sums import Block, TimeSums, unit_costs_of_blocks
from models.attribution.sufficient_statistics import RegressionSums
from models.attribution.waiting_classes import (
    MIN_COMPUTING_LEVEL,
    cannot_compute_all,
    min_computing_level,
)
from models.attribution.weighted_linear_regression import fit_line

PROCESS = "process_run_delay_seconds"
SIMULATED = simulate(2, intervals=240)
INTERVALS, Y = SIMULATED.intervals, SIMULATED.y
UNIT_COSTS = UnitCosts(60e-6, (("rows_examined", 3e-7), ("rows_sent", 1e-6)), 0.01)


def block(intervals: ClassIntervals, y: Array, unit_costs: UnitCosts = UNIT_COSTS) -> Block:
    """All of these intervals as sums."""
    return Block.of(intervals, y, capped_work_time(intervals), unit_costs, interval_weights(Y))


def times(block: Block) -> TimeSums:
    """Those of a block that has some."""
    assert block.times is not None
    return block.times


def parts(*edges: int) -> list[Block]:
    """The same intervals as several blocks, all with one set of weights."""
    weights = interval_weights(Y)
    return [
        Block.of(
            INTERVALS.at(slice(a, b)),
            Y[a:b],
            capped_work_time(INTERVALS)[a:b],
            UNIT_COSTS,
            weights[a:b],
        )
        for a, b in pairwise(edges)
    ]


def test_sums_of_blocks_are_those_of_their_intervals() -> None:
    """However the window is cut."""
    one, two, three = blocks = parts(0, 60, 61, 240)
    together, whole = one + two + three, block(INTERVALS, Y)
    assert np.allclose(together.moments.gram, whole.moments.gram)
    assert np.allclose(together.pooled.projection, whole.pooled.projection)
    assert np.allclose(together.uses, whole.uses)
    assert np.allclose(times(together).work, times(whole).work)
    assert np.allclose(
        times(together).elasticity.sums, sum(times(b).elasticity.sums for b in blocks)
    )
    with pytest.raises(ValueError, match="arrange them first"):
        one + two.with_classes(("sleep", "other"))


def test_a_class_without_a_column_is_part_of_other() -> None:
    """Exactly as if its intervals had been those of `other` from the start."""
    names = (*INTERVALS.names[:4], "other")
    folded = pooled(INTERVALS, names, "other")
    expected = Block.of(
        folded, Y, capped_work_time(INTERVALS) @ _to(names), UNIT_COSTS, interval_weights(Y)
    )
    found = block(INTERVALS, Y).with_classes(names)
    assert np.allclose(found.moments.gram, expected.moments.gram)
    assert np.allclose(found.moments.totals, expected.moments.totals)
    assert np.allclose(times(found).work, times(expected).work)


def _to(names: tuple[str, ...]) -> Array:
    to = np.zeros((len(INTERVALS.names), len(names)))
    for i, name in enumerate(INTERVALS.names):
        to[i, names.index(name) if name in names else len(names) - 1] = 1.0
    return to


def test_other_unit_costs_are_exact_where_calls_and_rows_keep_their_proportion() -> None:
    """As they do in the simulation; the totals are exact in any case."""
    dear = UnitCosts(90e-6, (("rows_examined", 1e-6), ("rows_sent", 2e-7)), 0.0)
    found, expected = block(INTERVALS, Y).with_unit_costs(dear), block(INTERVALS, Y, dear)
    assert np.allclose(found.moments.totals, expected.moments.totals)
    assert np.allclose(found.moments.gram, expected.moments.gram)


def test_a_fit_to_sums_is_close_to_one_to_samples() -> None:
    """And as close to the truth."""
    blocks = parts(0, 60, 120, 180, 240)
    unit_costs = unit_costs_of_blocks(blocks, time_like=True)
    assert unit_costs.per_call == pytest.approx(fit_unit_costs(INTERVALS, Y).per_call, rel=0.5)
    total = blocks[0].with_unit_costs(unit_costs)
    for other in blocks[1:]:
        total = total + other.with_unit_costs(unit_costs)
    model, waiting = fit_block(total, unit_costs)
    assert not waiting.any()
    found = dict(zip(model.names, model.mixture.totals, strict=True))
    true = SIMULATED.truth.sum(axis=0)
    score = disagreement(np.array([found[name] for name in INTERVALS.names]), true)
    assert score is not None
    assert score < 0.25


@given(st.integers(0, 2**32 - 1), st.integers(3, 60))
def test_lines_from_sums_equal_lines_from_samples(seed: int, intervals: int) -> None:
    """Slope, intercept, R² and both standard errors; intervals without the class do not count."""
    rng = np.random.default_rng(seed)
    x = rng.gamma(2.0, 1.0, (intervals, 3)) * (rng.random((intervals, 3)) < 0.8)
    z = 0.7 * x + 0.1 + rng.normal(0, 0.05, x.shape)
    half = intervals // 2
    sums = RegressionSums.of(x[:half], z[:half]) + RegressionSums.of(x[half:], z[half:])
    for k in range(3):
        expected, found = fit_line(x[:, k], z[:, k]), sums.line(k)
        assert found.samples == expected.samples
        if expected.samples >= 3:
            assert expected.slope is not None
            assert expected.slope_stderr is not None
            assert found.slope == pytest.approx(expected.slope, rel=1e-6, abs=1e-9)
            assert found.intercept == pytest.approx(expected.intercept, rel=1e-5, abs=1e-7)
            assert found.slope_stderr == pytest.approx(expected.slope_stderr, rel=1e-4, abs=1e-7)


def test_a_class_with_more_time_than_the_cpu_allows_waits() -> None:
    """The largest is taken out until the rest is possible; small ones are not suspected."""
    work = np.array([1.0, 30.0, 2.0, 9.0])
    assert cannot_compute_all(work, 5.0, 0.3).tolist() == [False, True, False, False]
    assert cannot_compute_all(work, 3.0, 0.3).tolist() == [False, True, False, True]
    assert not cannot_compute_all(work, 30.0, 0.3).any()
    assert not cannot_compute_all(work, 0.1, 0.0).any()


def test_the_minimum_level_follows_the_run_delay() -> None:
    """It is 0 where that is unknown, or on a host that waits for IO."""
    assert min_computing_level(None, 0.0) == 0.0
    assert min_computing_level(0.8, 0.3) == 0.0
    assert min_computing_level(0.75, None) == 0.75 * MIN_COMPUTING_LEVEL


def test_a_hidden_wait_is_found_once_the_level_is_known() -> None:
    """A row lock in no lock time and no text: minutes of waiting, milliseconds of CPU."""
    few, locked = slice(0, 30), INTERVALS.names.index("locked")
    hidden = INTERVALS.statement_time[few].copy()
    hidden[:, locked] += 2.0 * np.random.default_rng(1).random(30)
    intervals = replace(INTERVALS.at(few), statement_time=hidden, lock_time=np.zeros_like(hidden))
    true = SIMULATED.truth[few].sum(axis=0)
    scores, shares = {}, {}
    for level in (0.0, 0.3):
        target = DividedUse(Y[few], is_cpu_seconds=True, bounds=CpuBounds(level))
        totals = fit_intervals(intervals, target).divide(intervals, target).z.sum(axis=0)
        scores[level] = disagreement(totals, true)
        shares[level] = totals[locked] / totals.sum()
    assert scores[0.3] is not None
    assert scores[0.3] < 0.25
    assert shares[0.3] < 0.05


def test_io_and_run_delay_of_this_process_are_read() -> None:
    """Counters that do not fall; nothing for a process that has ended."""
    before, delay = process_io(os.getpid()), ThreadTimes(os.getpid())
    first = delay.read().get(PROCESS)
    for _ in range(50):
        os.sched_yield()
    after, second = process_io(os.getpid()), delay.read().get(PROCESS)
    assert set(before) == {
        "process_read_bytes",
        "process_written_bytes",
        "process_reads",
        "process_writes",
    }
    assert all(after[name] >= value for name, value in before.items())
    if first is not None and second is not None:  # some kernels keep no count
        assert 0 <= first <= second
    with pytest.raises(OSError, match="No such"):
        process_io(2**22 + 1)
    assert ThreadTimes(2**22 + 1).read() == {}


def waited(folder: Path, tasks: int, nanoseconds: int, name: str = "connection") -> None:
    """A process with so many threads, each of which has waited that long for a processor."""
    for task in range(1000, 1000 + tasks):
        (folder / str(task)).mkdir(exist_ok=True)
        (folder / str(task) / "schedstat").write_text(f"5 {nanoseconds} {nanoseconds // 10**9}\n")
        (folder / str(task) / "comm").write_text("log_writer\n" if task % 5 == 0 else f"{name}\n")


def of(folder: Path) -> ThreadTimes:
    """The wait of the threads in that folder."""
    delay = ThreadTimes(1)
    delay._tasks = folder
    return delay


@pytest.mark.parametrize("tasks", [100, 256, 257, 900])
def test_the_run_delay_of_many_threads_is_sampled_evenly(tasks: int, tmp_path: Path) -> None:
    """Each waits 2 s more: two seconds a thread, also where threads are added beyond 256."""
    delay = of(tmp_path)
    waited(tmp_path, tasks, 10**9)
    assert delay.read()[PROCESS] == 0
    waited(tmp_path, tasks, 3 * 10**9)
    assert delay.read()[PROCESS] == pytest.approx(2 * tasks, rel=0.02)
    waited(tmp_path, 3 * tasks, 3 * 10**9)
    now = delay.read()[PROCESS]
    waited(tmp_path, 3 * tasks, 4 * 10**9)
    assert delay.read()[PROCESS] - now == pytest.approx(3 * tasks, rel=0.02)


@given(st.integers(1, 2**22), st.integers(1, 1000), st.integers(300, 2000))
def test_the_thread_sample_does_not_depend_on_thread_ids(
    first: int, stride: int, count: int
) -> None:
    """Like a random sample; a smaller sample is a part of a larger one."""
    tasks = range(first, first + stride * count, stride)
    samples = [{task for task in tasks if is_in_sample(task, step)} for step in (1, 2, 8)]
    assert samples[0] == set(tasks)
    assert samples[2] <= samples[1]
    for sample, share in zip(samples[1:], (1 / 2, 1 / 8), strict=True):
        deviation = (count * share * (1 - share)) ** 0.5
        assert abs(len(sample) - count * share) < 6 * deviation


def test_threads_with_odd_ids_are_sampled_too(tmp_path: Path) -> None:
    """Of 300 that each wait a second more, all with odd IDs."""
    delay = of(tmp_path)
    for second in (1, 2):
        for task in range(1001, 1601, 2):
            (tmp_path / str(task)).mkdir(exist_ok=True)
            (tmp_path / str(task) / "schedstat").write_text(f"5 {second * 10**9} 1\n")
        found = delay.read()
    assert found[PROCESS] == pytest.approx(300)


@pytest.mark.parametrize(
    ("name", "share"), [("connection", 0.8), ("worker_thread", 0.8), ("mariadbd", 1.0)]
)
def test_background_threads_are_no_client_threads(name: str, share: float, tmp_path: Path) -> None:
    """Where threads have names, one of five writes the log; where they have none, all count."""
    delay = of(tmp_path)
    waited(tmp_path, 100, 10**9, name)
    delay.read()
    waited(tmp_path, 100, 2 * 10**9, name)
    found = delay.read()
    assert found[PROCESS] == pytest.approx(100)
    assert found["connection_run_delay_seconds"] == pytest.approx(100 * share)


@pytest.mark.parametrize("tasks", [100, 900])
def test_each_applier_is_read_however_many_threads_there_are(tasks: int, tmp_path: Path) -> None:
    """One computes for two seconds, another begins later and computes for one."""
    times = of(tmp_path)
    waited(tmp_path, tasks, 10**9)
    assert "applier_cpu_seconds" not in times.read()
    for task, name in ((1001, "rpl_rca_sql-0"), (1002, "rpl_rca_wkr-0")):
        (tmp_path / str(task) / "comm").write_text(f"{name}\n")
    times = of(tmp_path)
    assert times.read()["applier_cpu_seconds"] == 0
    (tmp_path / "1002" / "schedstat").write_text(f"{2 * 10**9 + 5} {10**9} 1\n")
    (tmp_path / "999").mkdir()
    (tmp_path / "999" / "schedstat").write_text(f"{10**9} 0 1\n")
    (tmp_path / "999" / "comm").write_text("rpl_rca_wkr-1\n")
    assert times.read()["applier_cpu_seconds"] == pytest.approx(3.0)
