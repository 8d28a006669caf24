"""Statements at once: by statement time, with those that wait for a processor before they begin."""

from pathlib import Path

import numpy as np
import pytest
from law_windows import RISING, intervals, with_usage

from agent.window.concurrency import ConcurrencySource, concurrency, running_statements
from agent.window.intervals import Interval, Window
from models.arrays import Array
from models.capacity.assess import assess_capacity
from models.capacity.demand_extrapolation import CEILING
from models.capacity.observations import Observations
from models.capacity.observed_peak import find_observed_peak
from models.capacity.resource_and_limit import Resource
from models.capacity.result import CapacityReason
from models.trust import Trust
from testbed.recorded.overload import SETTLED, reported
from testbed.recorded.peak_predictions import saved

RECORDED = Path(__file__).parent / "fixtures" / "queue" / "mariadb-read-only.json.gz"
WAITING = "client_run_delay_seconds_per_second"
TWO_BUSY = {"server_cpu": 0.5, "server_cpu:cpus": 4.0}


def window(run_delay: float | None) -> Window:
    """Two of four processors are used, and so many threads wait for one."""
    known = {} if run_delay is None else {WAITING: run_delay}
    return Window(with_usage(intervals(RISING), TWO_BUSY | known))


def test_threads_waiting_for_a_processor_count_as_running() -> None:
    """Where they are more than the statements that have begun; beside samples, in any case."""
    seen = window(run_delay=8.0)
    assert running_statements(seen, ConcurrencySource.STATEMENT_TIME) == pytest.approx(RISING)
    expected = [max(load, 8.0 + min(load, 2.0)) for load in RISING]
    assert concurrency(seen, ConcurrencySource.STATEMENT_TIME) == pytest.approx(expected)
    sampled = running_statements(seen, ConcurrencySource.THREADS_RUNNING)
    assert concurrency(seen, ConcurrencySource.THREADS_RUNNING) == pytest.approx(sampled + 8.0)
    unknown = window(run_delay=None)
    assert concurrency(unknown, ConcurrencySource.THREADS_RUNNING) == pytest.approx(sampled)


def test_computing_appliers_are_no_statements() -> None:
    """Of two processors in use, one and a half apply another server's writes."""
    appliers = {"applier_cpu_seconds_per_second": 1.5}
    seen = Window(with_usage(intervals(RISING), TWO_BUSY | {WAITING: 8.0} | appliers))
    expected = [max(load, 8.0 + min(load, 0.5)) for load in RISING]
    assert concurrency(seen, ConcurrencySource.STATEMENT_TIME) == pytest.approx(expected)


def test_without_run_delay_statement_time_alone_counts() -> None:
    """Another host, another system: nothing is added, and unknown stays unknown."""
    assert concurrency(window(None), ConcurrencySource.STATEMENT_TIME) == pytest.approx(RISING)
    rows = with_usage(intervals(RISING, statement_time=False), TWO_BUSY | {WAITING: 3.0})
    assert np.isnan(concurrency(Window(rows), ConcurrencySource.STATEMENT_TIME)).all()


def closed_loop(waiting: float | None, most: float = 0.95) -> Observations:
    """A processor that 4 threads fill and 40 do not fill better; it never counts as full."""
    n = np.repeat([2.0, 4.0, 40.0], 8)
    x = np.repeat([700.0, 1000.0, 960.0], 8) * np.tile([0.99, 1.01], 12)
    used: Array = np.repeat([0.7, most - 0.02, most], 8)
    queue = None if waiting is None else np.maximum(n - 1, 0.0) * waiting
    return Observations.of(
        np.arange(24.0), x, n, resources=[Resource("cpu", used, own=used, waiting=queue)]
    )


@pytest.mark.parametrize(
    ("waiting", "most", "is_passed"),
    [(1.0, 0.95, True), (0.3, 0.95, False), (None, 0.95, False), (1.0, 0.87, False)],
)
def test_a_nearly_full_processor_before_which_most_statements_wait_is_full(
    waiting: float | None, most: float, is_passed: bool
) -> None:
    """So the peak was passed; one with an eighth left only has statements that come in bursts."""
    found = find_observed_peak(closed_loop(waiting, most))
    assert (found is not None) == is_passed
    if found is not None:
        assert found.throughput == pytest.approx(1000, rel=0.02)
        assert 4 <= found.concurrency_upper < 40


def jumped() -> Observations:
    """A load that jumps from some 10 statements at once, which nearly fill it, to 50 to 90."""
    n = np.array([2.0, 8.0, 10.0, 12.0, 50.0, 60.0, 72.0, 86.0])
    x = np.array([200.0, 900.0, 900.0, 900.0, 640.0, 640.0, 640.0, 640.0])
    used: Array = np.array([0.2, 0.9, 0.9, 0.9, 1.0, 1.0, 1.0, 1.0])
    return Observations.of(np.arange(8.0), x, n, resources=[Resource("cpu", used, own=used)])


def test_a_peak_that_was_jumped_over_is_as_uncertain_as_both_sides_differ() -> None:
    """Nearly full the processor allows 1000, past the peak 640 are served: 800, and both within."""
    found = find_observed_peak(jumped())
    assert found is not None
    assert found.throughput == pytest.approx(800)
    assert found.throughput * np.exp(found.error) == pytest.approx(1000)
    assert found.throughput * np.exp(-found.error) == pytest.approx(640)
    assert 10 < found.concurrency < found.concurrency_upper < 40


@pytest.mark.parametrize("between", [None, 36.0])
def test_a_peak_may_lie_between_the_observed_loads(between: float | None) -> None:
    """Between 25 statements, which use 0.8 of a processor, and 240: up to X/U was possible.

    With intervals in between that served less, the peak is what was served.
    """
    n = np.array([2.0, 25.0, 240.0] if between is None else [2.0, 25.0, between, 240.0])
    x = np.array([100.0, 1000.0, 800.0] if between is None else [100.0, 1000.0, 900.0, 800.0])
    used: Array = np.array([0.1, 0.8, 1.0] if between is None else [0.1, 0.8, 1.0, 1.0])
    n, x, used = (np.repeat(column, 8) for column in (n, x, used))
    used[9] = np.nan  # not known in one interval at the peak
    found = find_observed_peak(
        Observations.of(np.arange(float(len(n))), x, n, resources=[Resource("cpu", used, own=used)])
    )
    assert found is not None
    if between is None:
        assert found.throughput * np.exp(found.error) == pytest.approx(1000 * CEILING[0] / 0.8)
        assert found.throughput * np.exp(-found.error) == pytest.approx(1000)
    else:
        assert found.throughput == pytest.approx(1000)
        assert found.error == pytest.approx(0)


def test_a_peak_is_as_uncertain_as_the_intervals_around_it_scatter() -> None:
    """By their deviation, 2 %: the next interval may be as far off as any of them."""
    rng = np.random.default_rng(4)
    n = np.repeat([2.0, 4.0, 40.0], (8, 40, 8))
    x = np.repeat([700.0, 1000.0, 960.0], (8, 40, 8)) * np.exp(rng.normal(0, 0.02, 56))
    used: Array = np.repeat([0.7, 0.93, 1.0], (8, 40, 8))
    found = find_observed_peak(
        Observations.of(np.arange(56.0), x, n, resources=[Resource("cpu", used, own=used)])
    )
    assert found is not None
    assert found.throughput == pytest.approx(1000, rel=0.01)
    assert found.error == pytest.approx(0.02, rel=0.25)


def test_a_peak_below_what_was_served_is_not_trusted() -> None:
    """Full at 1,000/s with many statements, and now and then 1,200/s with few of them.

    A processor's speed varies then. Without those the peak is trusted.
    """
    rng = np.random.default_rng(4)
    n = np.repeat([2.0, 4.0, 40.0, 2.5], (8, 40, 20, 12))
    x = np.repeat([700.0, 1000.0, 960.0, 1200.0], (8, 40, 20, 12))
    x = x * np.exp(rng.normal(0, 0.02, 80))
    used: Array = np.repeat([0.7, 0.93, 1.0, 0.9], (8, 40, 20, 12))
    order = np.append(rng.permutation(68), np.arange(68, 80))
    unknown = np.where(np.arange(80) >= 68, np.nan, n)[order]
    for rows, trust in ((order, Trust.INDICATIVE), (order[:68], Trust.TRUSTED)):
        cpu = Resource("cpu", used[rows], own=used[rows])
        at, known = 15.0 * np.arange(len(rows)), unknown[: len(rows)]
        found = assess_capacity(Observations.of(at, x[rows], known, resources=[cpu]))
        assert found.value == pytest.approx(1000, rel=0.02)
        assert found.trust is trust
        assert (CapacityReason.COST_FLUCTUATES in found.reasons) == (trust is not Trust.TRUSTED)


def test_clients_of_a_real_server_are_seen_before_their_statements_begin() -> None:
    """Of 3 to 48 clients of a MariaDB whose processor is full, as many run as there are.

    By statement time alone there were one to five of them.
    """
    run = saved(RECORDED)
    rows = Window(Interval(**row) for row in run["intervals"])
    both = [f(rows, ConcurrencySource.STATEMENT_TIME) for f in (concurrency, running_statements)]
    begun = 0
    for stage in run["stages"]:
        ours, theirs = (n[begun + SETTLED : stage["intervals"]] for n in both)
        begun = stage["intervals"]
        assert np.median(ours) == pytest.approx(stage["threads"], rel=0.07)
        assert np.median(theirs) < 5


def test_a_real_server_with_a_queue_before_its_processor_is_overloaded() -> None:
    """Four times the best number of threads: past its peak, and the capacity was measured."""
    past = [each.snapshot for each in reported(saved(RECORDED)) if each.threads == 48]
    for snapshot in past[3:]:
        known, capacity = snapshot.headroom(snapshot.at), snapshot.capacity(snapshot.at)
        assert known is not None
        assert capacity is not None
        assert known.overloaded
        assert known.ratio < -1
        assert capacity.value == pytest.approx(9524, rel=0.06)  # the most that was served
