"""Who stands in the queue: time per call that stretches with everybody's, or does not."""

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest
from simulated_classes import Simulated, simulate

from agent.csv_input.class_file import read_classes
from agent.csv_input.host_file import join_host_file, read_host
from models.arrays import Array
from models.attribution.call_and_row_costs import fit_unit_costs, interval_weights
from models.attribution.class_cost_fit import FittedMixture
from models.attribution.class_interval_table import ClassIntervals
from models.attribution.cost_model import CostModel, fit_block
from models.attribution.division_methods import DividedUse, computing_share, computing_time
from models.attribution.resource_division import attribute
from models.attribution.rolling_block_sums import Block
from models.attribution.waiting_classes import Elasticity
from testbed.data_file_paths import data

CALLS, SECONDS = 30, 0.03


def told(intervals: ClassIntervals, y: Array) -> dict[str, float]:
    """The evidence that each class waits."""
    assert intervals.count is not None
    size = fit_unit_costs(intervals, y).costs(intervals)
    found = Elasticity.of_parts(computing_time(intervals), intervals.count, size).evidence(
        size.sum(axis=0)
    )
    return dict(zip(intervals.names, map(float, found), strict=True))


def with_a_steady_waiter(
    s: Simulated, rng: np.random.Generator, calls: int = CALLS
) -> tuple[ClassIntervals, Array]:
    """The same with so many calls in every interval that wait 30 ms each, and cost 50 µs.

    They take that within 1 %: a time per call that never varies was computed, not measured.
    """
    n = calls + rng.integers(-1, 2, (len(s.y), 1)).astype(float)
    waited = SECONDS * n * np.exp(rng.normal(0, 0.01, n.shape))
    t, none = s.without_texts, np.zeros_like(n)
    assert t.count is not None
    intervals = replace(
        t,
        names=(*t.names, "steady"),
        statement_time=np.hstack((t.statement_time, waited)),
        count=np.hstack((t.count, n)),
        lock_time=None,
        inflight_delta=None,
        sizes=tuple((name, np.hstack((rows, none))) for name, rows in t.sizes),
    )
    return intervals, s.y + 50e-6 * n[:, 0]


@pytest.mark.parametrize("seed", range(6))
def test_time_per_call_of_computing_classes_is_elastic(seed: int) -> None:
    """On a simulated server whose queue changes, digest texts unknown; that of sleepers is not."""
    s = simulate(seed, busy=0.6)
    found = told(s.without_texts, s.y)
    assert found["sleep"] > 2
    assert max(found[name] for name in ("point", "sum", "join", "scan", "hash")) < 0


def test_a_steady_waiting_class_is_not_mistaken_for_the_base() -> None:
    """Calls alone cannot separate them; its time per call can."""
    for seed in range(6):
        s = simulate(seed, base=0.3, noise=0.06)
        intervals, y = with_a_steady_waiter(s, np.random.default_rng(seed + 100))
        found = attribute(intervals, DividedUse(y, is_cpu_seconds=True))
        assert found.classes[-1].share < 0.01
        assert found.classes[-1].waits


def test_many_waiting_calls_do_not_make_computing_classes_wait() -> None:
    """With 60 % of the calls a steady waiter lowers the mean e, and that of others is 2."""
    for seed in range(4):
        s = simulate(seed)
        assert s.intervals.count is not None
        others = float(s.intervals.count.sum(axis=1).mean())
        intervals, y = with_a_steady_waiter(s, np.random.default_rng(seed), round(1.5 * others))
        found = told(intervals, y)
        assert found["steady"] > 2
        assert max(found[name] for name in ("point", "sum", "join", "scan", "hash")) < 0


def test_the_sums_of_minutes_show_it_too() -> None:
    """As the agent has them: the seed at which calls and totals alone are wrong."""
    s = simulate(4, base=0.3, noise=0.06)
    intervals, y = with_a_steady_waiter(s, np.random.default_rng(104))
    unit_costs, work = fit_unit_costs(intervals, y), computing_time(intervals)
    minutes = [
        Block.of(intervals.at(part), y[part], work[part], unit_costs, interval_weights(y)[part])
        for part in (slice(begin, begin + 60) for begin in range(0, len(y), 60))
    ]
    model, _ = fit_block(reduce(add, minutes), unit_costs)
    assert model.mixture.computing[-1] < 0.5
    assert model.mixture.totals[-1] < 0.01 * y.sum()


def test_a_constant_queue_gives_no_evidence() -> None:
    """Times per call are constant but for noise of their own: e is not identifiable."""
    rng = np.random.default_rng(3)
    count = rng.poisson(40, (300, 6)).astype(float)
    work = count * 1e-3 * np.exp(rng.normal(0, 0.05, count.shape))
    found = Elasticity.of_parts(work, count, count).evidence(count.sum(axis=0))
    assert np.abs(found).max() < 1


def test_few_intervals_and_idle_classes_give_no_evidence() -> None:
    """And no warning of a division by zero."""
    s = simulate(1, intervals=12)
    assert not any(told(s.intervals, s.y).values())
    none = np.zeros((40, 3))
    assert not Elasticity.of_parts(none, none, none).evidence(none.sum(axis=0)).any()


def test_classes_that_never_run_together_give_no_evidence() -> None:
    """None has others to compare with; no number overflows."""
    alone = np.where(np.arange(300)[:, None] % 2 == (0, 1), 40.0, 0.0)
    for work in (1e9 * alone, np.full((300, 2), 1e9)):
        for count in (alone, 0 * alone):
            stretch = Elasticity.of_parts(work, count, count)
            assert np.isfinite(stretch.sums).all()
            assert not stretch.evidence(alone.sum(axis=0)).any()


@pytest.mark.parametrize("work", [0.0, 1e-310, 1e-3, 1e12])
def test_the_computing_share_is_defined_for_any_work_time(work: float) -> None:
    """Of no work time, or next to none: all where something was learned, and nothing else."""
    nothing, totals = np.zeros((2, 2)), np.array([1e10, 0.0])
    doubt, both = np.full(2, 0.5), np.ones(2, dtype=np.bool_)
    mixture = FittedMixture(totals, 0.0, nothing, doubt, level=0.5, intervals=60)
    model = CostModel(("a", "b"), mixture, np.ones(2), 0.0, None)
    found = computing_share(model, np.full(2, work), both)
    assert found.tolist() == [pytest.approx(1e10 / max(0.5 * work, 1e10)), 0.0]


def test_one_part_gives_no_evidence() -> None:
    """Its intervals are not independent, and there is no other part to compare with."""
    s = simulate(1)
    assert s.intervals.count is not None
    found = Elasticity.of(s.intervals.work_time, s.intervals.count, s.truth).evidence(
        s.truth.sum(axis=0)
    )
    assert not found.any()


def test_units_do_not_matter() -> None:
    """Milliseconds for seconds, unit costs twice as high."""
    s = simulate(2)
    work, count, size = s.intervals.work_time, s.intervals.count, s.truth
    assert count is not None
    plain = Elasticity.of_parts(work, count, size).elasticities(size.sum(axis=0))
    other = Elasticity.of_parts(1e3 * work, count, 2 * size).elasticities(size.sum(axis=0))
    assert other[0] == pytest.approx(plain[0], nan_ok=True)
    assert other[1] == pytest.approx(plain[1], nan_ok=True)


def test_classes_are_selected_by_index() -> None:
    """Nothing is known of a new one; parts of the same classes add up."""
    s = simulate(5)
    count, size = s.intervals.count, s.truth
    assert count is not None
    one, two = (
        Elasticity.of(s.intervals.work_time[part], count[part], size[part])
        for part in (slice(0, 150), slice(150, 300))
    )
    both = (one + two).at([3, -1, 0])
    assert both.sums[:, 0].tolist() == (one.sums + two.sums)[:, 3].tolist()
    assert both.sums[:, 1].tolist() == [0] * 5


def test_recorded_sleepers_are_distinguished_from_computing_classes() -> None:
    """MySQL 9.7 at 73 % of CPU: SLEEP and GET_LOCK wait, the largest users of CPU do not."""
    path, host = (str(data(f"mysql97/A_moderate{end}.csv.gz")) for end in ("", "_host"))
    recorded = join_host_file(read_classes(path), read_host(host))
    assert recorded.y is not None
    assert recorded.truth is not None
    found = told(replace(recorded.intervals, texts=None), recorded.y)
    assert found["sleep"] > 2
    assert found["getlock"] > 2
    greatest = np.argsort(-recorded.truth.sum(axis=0))[:8]
    assert max(found[recorded.intervals.names[k]] for k in greatest) < 0
