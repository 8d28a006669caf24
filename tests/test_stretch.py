"""Who stands in the queue: time per call that stretches with everybody's, or does not."""

from dataclasses import replace

import numpy as np
import pytest
from class_data import data
from simulated_classes import Simulated, simulate

from agent.tables.class_file import read_classes
from agent.tables.host_file import joined, read_host
from models.attribution.class_ticks import Array, ClassTicks
from models.attribution.divide import attribute
from models.attribution.prices import pool_prices
from models.attribution.sources import Target, computing_time
from models.attribution.stretch import stretches, waiting_evidence

CALLS, SECONDS = 30, 0.03


def evidence(ticks: ClassTicks, y: Array) -> Array:
    """What the model is told."""
    assert ticks.count is not None
    return waiting_evidence(computing_time(ticks), ticks.count, pool_prices(ticks, y).price(ticks))


def with_a_steady_waiter(s: Simulated, rng: np.random.Generator) -> tuple[ClassTicks, Array]:
    """The same with 30 calls in every tick that wait 30 ms each, and cost 50 µs."""
    n = CALLS + rng.integers(-1, 2, (len(s.y), 1)).astype(float)
    t, none = s.blind, np.zeros_like(n)
    assert t.count is not None
    ticks = replace(
        t,
        names=(*t.names, "steady"),
        statement_time=np.hstack((t.statement_time, SECONDS * n)),
        count=np.hstack((t.count, n)),
        lock_time=None,
        inflight_delta=None,
        sizes=tuple((name, np.hstack((rows, none))) for name, rows in t.sizes),
    )
    return ticks, s.y + 50e-6 * n[:, 0]


@pytest.mark.parametrize("seed", range(6))
def test_who_computes_stretches_and_who_sleeps_does_not(seed: int) -> None:
    """On a simulated server whose queue changes, digest texts unknown."""
    s = simulate(seed, busy=0.6)
    told = dict(zip(s.ticks.names, evidence(s.blind, s.y), strict=True))
    assert told["sleep"] > 2
    assert max(told[name] for name in ("point", "sum", "join", "scan", "hash")) < -0.5


def test_one_who_is_always_there_is_not_taken_for_what_nobody_causes() -> None:
    """Calls alone cannot tell a steady waiter from the base; its time per call can."""
    for seed in range(6):
        s = simulate(seed, base=0.3, noise=0.06)
        ticks, y = with_a_steady_waiter(s, np.random.default_rng(seed + 100))
        found = attribute(ticks, Target(y, cpu_seconds=True))
        assert found.classes[-1].share < 0.01
        assert found.classes[-1].waits


def test_where_the_queue_never_changes_nothing_is_told() -> None:
    """All times per call constant but for noise of their own: e cannot be known."""
    rng = np.random.default_rng(3)
    count = rng.poisson(40, (300, 6)).astype(float)
    work = count * 1e-3 * np.exp(rng.normal(0, 0.05, count.shape))
    assert np.abs(waiting_evidence(work, count, count)).max() < 1


def test_too_few_ticks_and_classes_that_did_nothing_tell_nothing() -> None:
    """No evidence, and no warning of a division by zero."""
    s = simulate(1, ticks=12)
    assert s.ticks.count is not None
    size = s.ticks.count
    assert (waiting_evidence(s.ticks.work_time, s.ticks.count, size) == 0).all()
    none = np.zeros((40, 3))
    assert (waiting_evidence(none, none, none) == 0).all()


def test_units_do_not_matter() -> None:
    """Milliseconds for seconds, prices twice as high."""
    s = simulate(2)
    assert s.ticks.count is not None
    work, count, size = s.ticks.work_time, s.ticks.count, s.truth
    plain, other = stretches(work, count, size), stretches(1e3 * work, count, 2 * size)
    assert other[0] == pytest.approx(plain[0], nan_ok=True)
    assert other[1] == pytest.approx(plain[1], nan_ok=True)


def test_recorded_sleepers_are_told_from_those_who_compute() -> None:
    """MySQL 9.7 at 73 % of CPU: SLEEP and GET_LOCK wait, the greatest users of CPU do not."""
    path, host = (str(data(f"mysql97/A_moderate{end}.csv.gz")) for end in ("", "_host"))
    found = joined(read_classes(path), read_host(host))
    assert found.y is not None
    assert found.truth is not None
    told = evidence(replace(found.ticks, texts=None), found.y)
    names = found.ticks.names
    assert told[names.index("sleep")] > 2
    assert told[names.index("getlock")] > 1
    assert told[np.argsort(-found.truth.sum(axis=0))[:8]].max() < 0.5
