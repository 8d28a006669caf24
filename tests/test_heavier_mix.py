"""Reports that fill the processor at the busiest hour are not the end of what it can serve."""

import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pymysql
import pytest
from capacity_days import INTERVALS, SECONDS, residing

from agent.demo.private_server import PrivateServer
from agent.pipeline import observations
from agent.window.concurrency import ConcurrencySource
from agent.window.intervals import Window
from agent.window.resource_utilisation import ROWS_READ
from models.arrays import Mask
from models.capacity.assess import assess_capacity
from models.capacity.change_points import MIN_SIDE_INTERVALS, ROWS_PER_QUERY, find_regimes
from models.capacity.heavier_mix import find_heavier_mix
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import Resource
from models.capacity.result import CapacityReason
from models.trust import Trust
from testbed.real.agent_in_process import watched, window_of
from testbed.real.clients import run_as_root
from testbed.real.daemon import wait_until
from testbed.recorded.peak_predictions import interval_of, levels_of, saved, seen_below
from testbed.simulated.servers import erlang_server

FIXTURES = Path(__file__).parent / "fixtures"
CORES, DEMAND, DELAY = 8.0, 0.001, 0.004
SERVER = erlang_server("eight", int(CORES), DEMAND, DELAY)
ROWS, ROWS_OF_REPORTS = 20.0, 500_000.0  # of a query; in a second of a processor
WAVE = 0.5 - 0.5 * np.cos(np.linspace(0, 4 * np.pi, INTERVALS))
SECOND = np.arange(INTERVALS) > INTERVALS / 2
BUSIEST: dict[str, Mask] = {
    "both busiest hours": WAVE > 0.85,
    "the second one": (WAVE > 0.85) & SECOND,
    "its middle": (WAVE > 0.97) & SECOND,
}
RUNNING_REPORTS = (
    "SELECT PROCESSLIST_ID FROM performance_schema.threads"
    " WHERE PROCESSLIST_INFO LIKE '%AS report%'"
    " AND PROCESSLIST_ID <> CONNECTION_ID()"
)


def day(reach: float, reporting: Mask, seed: int) -> Observations:
    """Two waves of a load, and reports that take what it leaves of the processor.

    Reports share the processors evenly with the queries, which they delay and do not displace.
    """
    rng = np.random.default_rng([33, seed, int(100 * reach)])
    chance = np.zeros(INTERVALS)
    for i in range(1, INTERVALS):
        chance[i] = 0.8 * chance[i - 1] + rng.normal(0, 0.03)
    share = 0.1 + (reach - 0.1) * np.clip(WAVE + chance, 0, 1.1)
    threads = 12.0 * reporting * np.clip(rng.normal(1, 0.1, INTERVALS), 0.5, 1.5)
    theirs = np.minimum(threads / CORES, 1 - share)
    x = share * SERVER.capacity
    alone = residing(SERVER, share)
    beside = np.maximum(x * DELAY + share * threads / (1 - share), alone)
    n = np.where(threads > 0, beside + threads, alone) * np.exp(rng.normal(0, 0.02, INTERVALS))
    own = np.minimum(0.98 * (share + theirs) * np.exp(rng.normal(0, 0.01, INTERVALS)), 0.98)
    rows = (ROWS * x + ROWS_OF_REPORTS * theirs * CORES) * np.exp(rng.normal(0, 0.1, INTERVALS))
    processors = np.full(INTERVALS, CORES)
    cpu = Resource("cpu", own + 0.02, own=own, processors=processors)
    at = SECONDS * np.arange(1, INTERVALS + 1)
    return Observations.of(at, x, n, resources=[cpu], rows_read=rows)


@pytest.mark.parametrize("reach", [0.4, 0.5, 0.6])
@pytest.mark.parametrize("when", BUSIEST)
def test_reports_at_the_busiest_hour_are_not_the_end(when: str, reach: float) -> None:
    """The interval holds the capacity of the usual mix, and so far below nothing is trusted."""
    for seed in range(4):
        found = assess_capacity(day(reach, BUSIEST[when], seed))
        assert found.lower is not None
        assert found.upper is not None
        assert found.lower < SERVER.capacity < found.upper
        assert found.value == pytest.approx(SERVER.capacity, rel=0.1)
        assert found.trust is not Trust.TRUSTED
        assert CapacityReason.TWO_WORKLOADS in found.reasons
        assert CapacityReason.RECENT_COST_DIFFERS not in found.reasons
        assert found.regimes is not None
        assert found.regimes.clusters is not None
        assert found.regimes.clusters.quantity == ROWS_PER_QUERY


def test_reports_that_run_now_leave_no_present_capacity() -> None:
    """While they run, the capacity of the usual mix is not that of the next minutes."""
    seen = day(0.5, BUSIEST["the second one"], 1)
    running = np.flatnonzero(BUSIEST["the second one"])
    for until in running[5::10] + 1:
        found = assess_capacity(seen.select(slice(0, until)))
        assert CapacityReason.RECENT_COST_DIFFERS in found.reasons
        assert found.trust is not Trust.TRUSTED


@pytest.mark.parametrize("load", [0.55, 0.6, 0.75])
def test_a_plan_that_reads_more_rows_from_now_on_is_the_present_mix(load: float) -> None:
    """Another plan doubles the cost of all queries: what the server served before is over."""
    for lasting in (30, 60, 100):
        late = np.arange(INTERVALS) >= INTERVALS - lasting
        rng = np.random.default_rng([34, lasting])
        chance = np.exp(rng.normal(0, 0.02, (3, INTERVALS)))
        capacity = SERVER.capacity / np.where(late, 2, 1)
        wave = 0.9 + 0.1 * np.sin(np.linspace(0, 20, INTERVALS))
        x = np.minimum(load * wave * chance[0] * SERVER.capacity, 0.98 * capacity)
        own = np.minimum(x / capacity * chance[1], 0.98)
        n = np.where(own > 0.97, 60.0, residing(SERVER, np.minimum(own, 0.97))) * chance[2]
        cpu = Resource("cpu", own + 0.02, own=own, processors=np.full(INTERVALS, CORES))
        rows = ROWS * x * np.where(late, 10, 1)
        at = SECONDS * np.arange(1, INTERVALS + 1)
        found = assess_capacity(Observations.of(at, x, n, resources=[cpu], rows_read=rows))
        assert found.value is None or found.value < 0.6 * SERVER.capacity
        assert found.trust is not Trust.TRUSTED or CapacityReason.MIX_CHANGED in found.reasons


def test_a_full_processor_with_the_usual_mix_is_the_end() -> None:
    """However much the rows of a query vary by chance: of no recorded server is it another mix."""
    rng = np.random.default_rng(1)
    for file in sorted([*FIXTURES.glob("real/*.json.gz"), *FIXTURES.glob("zoo/*.json.gz")]):
        recording = saved(file)
        *_, last = levels_of(recording)
        seen = observations(seen_below(recording, last), ConcurrencySource.STATEMENT_TIME)
        for spread in (0.05, 0.5):
            rows = 30 * seen.throughput * np.exp(rng.normal(0, spread, len(seen)))
            assert find_heavier_mix(replace(seen, rows_read=rows)) is None


def test_the_end_counts_also_beside_reports() -> None:
    """Where the usual mix fills the processor as well, only the reports' intervals are left out."""
    reports = BUSIEST["its middle"]
    seen = day(0.6, reports, 1)
    full = (WAVE > 0.8) & ~SECOND
    [cpu] = seen.resources
    assert cpu.own is not None
    assert seen.rows_read is not None
    own = np.where(full, 0.98, cpu.own)
    x = np.where(full, 0.97 * SERVER.capacity, seen.throughput)
    n = np.where(full, 60.0, seen.concurrency)
    rows = np.where(full, ROWS * x, seen.rows_read)
    filled = Observations.of(
        seen.at, x, n, resources=[replace(cpu, utilisation=own + 0.02, own=own)], rows_read=rows
    )
    found = assess_capacity(filled)
    assert found.trust is Trust.TRUSTED
    assert found.value == pytest.approx(SERVER.capacity, rel=0.06)


def test_without_rows_or_others_at_such_a_load_nothing_is_left_out() -> None:
    """It is not known then whether the mix or the load filled the processor."""
    seen = day(0.5, BUSIEST["the second one"], 1)
    assert find_heavier_mix(seen) is not None
    assert find_heavier_mix(replace(seen, rows_read=None)) is None
    assert find_heavier_mix(seen.select(SECOND & (WAVE > 0.85))) is None


def two_mixes(
    usual: int = 40,
    full: int = 20,
    reading_more: int = 20,
    load: float = 2.0,
    cost: float = 3.0,
    own: float = 0.97,
    wave: float = 0.0,
) -> Observations:
    """Five idle intervals, then some with processors to spare, and the last ones fill them.

    The usual ones serve `load` times as many queries as those, of which each costs a `cost`-th. The
    last `reading_more` read twice as much a query, and the idle ones. Throughput goes up and down
    by `wave`, in steps of ten intervals.
    """
    count = 5 + usual + full
    at = np.arange(count)
    is_idle, is_full = at < 5, at >= 5 + usual
    reads_more = is_idle | (at >= count - reading_more)
    chance = np.exp(np.random.default_rng(35).normal(0, 0.02, (2, count)))
    busy = 500.0 * np.where(is_full, 1.0, load) * np.exp(wave * np.sign(np.sin(at / 3)))
    x = np.where(is_idle, 50.0, busy) * chance[0]
    used = np.where(is_full, own, own / cost * x / 500.0)
    cpu = Resource("cpu", np.where(is_full, 0.98, used + 0.01), own=used)
    rows = ROWS * x * np.where(reads_more, 2.0, 1.0) * chance[1]
    return Observations.of(SECONDS * (1.0 + at), x, 5 * chance[1], resources=[cpu], rows_read=rows)


def test_a_heavier_mix_reads_more_rows_a_query() -> None:
    """Not more a second: where it fills the processor, half as many queries are served."""
    found = find_heavier_mix(two_mixes())
    assert found is not None
    assert found.ratio == pytest.approx(2.0, rel=0.03)
    assert np.flatnonzero(found.intervals).tolist() == list(range(45, 65))
    assert np.flatnonzero(found.at_any_load).tolist() == [*range(5), *range(45, 65)]


@pytest.mark.parametrize(
    "how",
    [
        {"load": 0.7},
        {"load": 0.82, "cost": 1.0},
        {"load": 0.9, "cost": 1.25, "wave": 0.1},
        {"own": 0.4},
        {"reading_more": 2},
        {"usual": 5},
    ],
    ids=str,
)
def test_what_else_fills_a_processor_is_no_heavier_mix(how: dict[str, float]) -> None:
    """A greater load, queries of the same cost, or perhaps of it, and other programs."""
    assert find_heavier_mix(two_mixes(**how)) is None  # type: ignore[arg-type]


def test_a_heavier_mix_is_left_out_until_it_is_the_present_one() -> None:
    """It is that even where the load has fallen since: the latest queries read as many rows."""
    seen = two_mixes()
    past = find_regimes(seen.select(np.r_[:5, 45:65, 5:45]))
    assert np.flatnonzero(~past.current).tolist() == list(range(5, 25))
    assert past.clusters is not None
    assert past.clusters.share == pytest.approx(20 / 65)
    present = find_regimes(seen.select(np.r_[5:65, :5]))
    assert present.current.all()
    assert present.clusters is not None
    assert (present.clusters.quantity, present.clusters.share) == (ROWS_PER_QUERY, 0.0)


def test_a_change_of_the_usual_mix_beside_a_heavier_one_is_found() -> None:
    """Intervals before the change are left out too; its index counts all intervals."""
    seen = two_mixes(usual=120).select(np.r_[:65, 125:145, 65:125])
    [cpu] = seen.resources
    assert cpu.own is not None
    own = np.where(np.arange(145) < 85, cpu.own, cpu.own / 2)
    cheaper = replace(cpu, utilisation=np.minimum(own + 0.01, 0.98), own=own)
    found = find_regimes(replace(seen, resources=(cheaper,)))
    assert found.change is not None
    assert found.change.index == pytest.approx(85, abs=5)
    assert np.flatnonzero(found.current).tolist() == list(range(found.change.index, 145))


def test_a_present_mix_that_shows_as_a_change_is_one() -> None:
    """It filled the processor at first; at less load since, a query costs as much as then."""
    seen = two_mixes(usual=120).select(np.r_[:65, 125:145, 65:125])
    at = np.arange(145)
    is_late = at >= 85
    less = np.where(is_late | (at < 65) & (at % 2 == 1), 0.3, 1.0)
    [cpu] = seen.resources
    assert cpu.own is not None
    assert seen.rows_read is not None
    own = cpu.own * less * np.where(is_late, 3.0, 1.0)
    found = find_regimes(
        replace(
            seen,
            throughput=seen.throughput * less,
            rows_read=seen.rows_read * less * np.where(is_late, 2.0, 1.0),
            resources=(replace(cpu, utilisation=np.minimum(own + 0.01, 0.98), own=own),),
        )
    )
    assert found.change is not None
    assert found.change.ratio == pytest.approx(3.0, rel=0.1)
    assert found.clusters is None


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_reports_on_a_real_server_are_not_the_end(flavour: str) -> None:
    """From the first report on the interval holds the peak; by the processor alone it never does.

    While they run for long they may be the present mix, whose capacity is less: that is doubted.
    `bench/record_reports.py` has recorded it: point reads up to half of their peak.
    """
    recording = saved(FIXTURES / "reports" / f"{flavour}.json.gz")
    rows = [interval_of(row) for row in recording["intervals"]]
    peak = float(np.mean(recording["peaks"]))
    for until in range(88, len(rows) + 1, 6):
        seen = observations(Window(rows[:until]), ConcurrencySource.STATEMENT_TIME)
        found, before = assess_capacity(seen), assess_capacity(replace(seen, rows_read=None))
        assert found.trust is not Trust.TRUSTED
        assert seen.rows_read is not None
        if (seen.rows_read > 10 * seen.throughput)[-MIN_SIDE_INTERVALS:].all():
            assert CapacityReason.RECENT_COST_DIFFERS in found.reasons
            continue
        assert found.lower is not None
        assert found.upper is not None
        assert found.lower < peak < found.upper
        assert found.value == pytest.approx(peak, rel=0.25)
        assert before.upper is None or before.upper < 0.6 * peak


@pytest.mark.live
def test_the_rows_of_a_report_count_while_it_runs(server: PrivateServer) -> None:
    """A report of many intervals shows in each of them, not only when it ends."""
    run_as_root(
        server,
        "DROP DATABASE IF EXISTS reports",
        "CREATE DATABASE reports",
        "CREATE TABLE reports.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
        "INSERT INTO reports.t (v) VALUES (1),(2),(3),(4)",
        *["INSERT INTO reports.t (v) SELECT v + 1 FROM reports.t"] * 12,
    )

    def report() -> None:
        """Look up a row for each of millions; it is killed before it ends."""
        with suppress(pymysql.Error):
            run_as_root(
                server,
                "SELECT COUNT(*) AS report FROM reports.t a"
                " JOIN reports.t b ON b.id BETWEEN a.id - 16000 AND a.id"
                " JOIN reports.t c ON c.id = b.id",
            )

    def intervals_with_its_rows() -> bool:
        window = window_of(agent)
        return ROWS_READ in window.rates and int(np.sum(window[ROWS_READ] > 1000.0)) >= 3

    with watched(server, 2.0) as agent:
        running = threading.Thread(target=report)
        running.start()
        wait_until("three intervals with its rows", intervals_with_its_rows, 60.0)
        (found,) = run_as_root(server, RUNNING_REPORTS)
        run_as_root(server, f"KILL {found[0]}")
        running.join()
