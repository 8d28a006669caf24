"""Headroom on both sides of the peak, and on real servers that were driven past it."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capacity_days import day
from test_plateau import END, KNEE
from test_plateau import day as plateau
from test_real_servers import ZOO

from agent.assessment.snapshot import Load
from agent.pipeline import observations
from agent.window.concurrency import ConcurrencySource, concurrency
from models.capacity.assess import assess_capacity
from models.capacity.headroom import Headroom, headroom_of, headroom_on_curve
from models.capacity.observations import Observations
from models.capacity.result import USL
from models.trust import FULL_LOAD
from models.usl.fit import fit
from models.usl.law import Usl
from testbed.recorded.overload import SETTLED, Reported, reported
from testbed.recorded.peak_predictions import levels_of, saved, seen_below
from testbed.simulated.day_scenarios import DaySettings

RECORDED = Path(__file__).parent / "fixtures" / "past"
RUNS = sorted(file.name for file in RECORDED.glob("*.json.gz"))
MET = 3
"""Intervals past the peak after which the capacity is measured, and the transition into them."""
LESS = 0.96
"""So much of what was served at the best number of threads is less than it."""
HALF, BEST, PAST, LAST = 1, 2, (3, 5), 6
"""Stages: at half of the best number of threads, at it, at four times it, at half again."""


def test_below_the_peak_headroom_is_the_unused_share() -> None:
    """Half of the capacity in use leaves half; without a capacity there is none."""
    found = assess_capacity(day(DaySettings(0.9))[1])
    assert found.value is not None
    assert headroom_of(found, found.value / 2) == Headroom(0.5, overloaded=False, overload_loss=0.0)
    assert headroom_of(assess_capacity(Observations.of([], [], [])), 1.0) is None


def test_past_the_peak_headroom_counts_the_excess_statements() -> None:
    """At most 0 however low the throughput is; the loss by overload is a number of its own."""
    found = assess_capacity(plateau(120.0, 1, full_at=0.98 * END))
    assert found.concurrency is not None
    assert found.concurrency_upper is not None
    assert found.limit == "cpu"
    n, x = 3 * found.concurrency_upper, 0.8 * END
    there = headroom_of(found, x, n, 1.0)
    assert there is not None
    assert there.overloaded
    assert there.ratio == pytest.approx(1 - n / found.concurrency)
    assert there.overload_loss == pytest.approx(0.2, abs=0.06)


def test_statements_that_wait_while_the_resource_is_idle_are_no_overload() -> None:
    """Behind a lock: the server could do more, and that is still its headroom."""
    found = assess_capacity(plateau(120.0, 1, full_at=0.98 * END))
    waiting = headroom_of(found, 0.3 * END, 500.0, FULL_LOAD - 0.1)
    assert waiting is not None
    assert not waiting.overloaded
    assert waiting.ratio == pytest.approx(0.7, abs=0.03)


def test_far_more_statements_than_fill_a_full_processor_are_an_overload() -> None:
    """Also where their number at the capacity is not known; not while only the host is full."""
    found = assess_capacity(day(DaySettings(0.9))[1])
    assert found.value is not None
    unknown = replace(found, concurrency=None, concurrency_upper=None, filling_concurrency=8.0)
    x = 0.9 * found.value
    for n, host, own, overloaded in (
        (17.0, 0.99, 0.99, True),
        (15.0, 0.99, 0.99, False),
        (17.0, 0.99, 0.9, False),
        (17.0, 0.99, None, False),
    ):
        there = headroom_of(unknown, x, n, host, own)
        assert there is not None
        assert there.overloaded is overloaded, (n, own)
        assert there.ratio == pytest.approx(0.0 if overloaded else 0.1)
        assert there.overload_loss == pytest.approx(0.1 if overloaded else 0.0)
    elsewhere = headroom_of(replace(unknown, filling_concurrency=None), x, 17.0, 0.99, 0.99)
    assert elsewhere is not None
    assert not elsewhere.overloaded


def overloaded_share(seen: dict[str, Any], cap: float) -> tuple[int, int]:
    """How many intervals of a level are reported as overloaded by its capacity, and all of them."""
    before, found = 0, (0, 0)
    for part in levels_of(seen):
        if part["cap"] == cap:
            window = seen_below(seen, part)
            capacity = assess_capacity(observations(window, ConcurrencySource.STATEMENT_TIME))
            used = window.utilisation_or_rate(capacity.limit or "")
            n = concurrency(window, ConcurrencySource.STATEMENT_TIME)
            rows = zip(window["throughput"].tolist(), n.tolist(), used.tolist(), strict=True)
            known = [headroom_of(capacity, x, running, u, u) for x, running, u in rows]
            late = [one is not None and one.overloaded for one in known[before:]]
            found = sum(late), len(late)
        before = part["intervals"]
    return found


def test_most_real_servers_past_their_end_are_overloaded_and_none_at_half_of_it() -> None:
    """In most recorded intervals; in a third, if only a known concurrency at the peak counted."""
    half, past = (
        np.sum([overloaded_share(saved(file), cap) for file in ZOO], axis=0) for cap in (0.5, 4.0)
    )
    print(f"{half[0]} of {half[1]} at half, {past[0]} of {past[1]} past the end")
    assert half[0] == 0
    assert half[1] > 1000
    assert past[0] > 0.65 * past[1] > 200


def test_an_unknown_peak_makes_the_headroom_of_many_statements_unknown() -> None:
    """Where contention limits and its N* is unknown, neither side of the peak is assumed."""
    found = assess_capacity(plateau(200.0, 1))
    known = replace(found, value=100.0, limit=USL, concurrency_upper=None, concurrency_seen=10.0)
    assert headroom_of(known, 60.0, 16.0) is None
    assert headroom_of(known, 60.0, 14.0) == Headroom(0.4, overloaded=False, overload_loss=0.0)
    assert headroom_of(known, 60.0) == Headroom(0.4, overloaded=False, overload_loss=0.0)
    assert headroom_of(replace(known, limit="cpu"), 60.0, 16.0) is not None


def test_the_observed_concurrency_is_that_of_the_highest_throughputs() -> None:
    """Statements that pile up at low throughput do not count."""
    n = np.array([2.0, 4, 8, 9, 50])
    seen = Observations.of(np.arange(5.0), [20.0, 40, 78, 80, 30], n)
    assert seen.concurrency_at(80.0) == pytest.approx(9.0, abs=0.1)
    assert seen.concurrency_at(1000.0) is None


def test_statements_that_wait_for_more_than_contention_are_no_overload() -> None:
    """With a law as the limit the throughput must be what it predicts there."""
    law = Usl(sigma=0.03, kappa=0.0008, lam=500.0)
    found = assess_capacity(plateau(200.0, 1))
    n = np.array([1.0, 2, 4, 8, 16, 24, 36, 48, 64])
    curve = fit(n, law.throughput(n))
    contended = replace(found, limit=USL, usl=curve, concurrency=36.0, concurrency_upper=45.0)
    for share, overloaded in ((0.9, True), (0.3, False)):
        x = share * float(curve.law.throughput(150.0))
        there = headroom_of(replace(contended, value=curve.x_max), x, 150.0)
        assert there is not None
        assert there.overloaded is overloaded
        assert (there.ratio <= 0) is overloaded


def test_a_server_cpu_limit_is_reached_when_the_host_is_full() -> None:
    """Other programs take the rest of the processors, and the statements wait for them too."""
    own = Load(0.0, 80.0, {}, {}, {"server_cpu": 0.87, "cpu": 0.99, "disk:sda": 0.5})
    assert own.utilisation_of("server_cpu") == 0.99
    assert own.utilisation_of("cpu") == 0.99
    assert own.utilisation_of("disk:sda") == 0.5
    assert own.utilisation_of(USL) is None
    assert own.utilisation_of(None) is None
    alone = replace(own, resources={"server_cpu": 0.95, "cpu": 0.5})
    assert alone.utilisation_of("server_cpu") == 0.95


def test_processors_that_clients_use_too_are_not_full_of_the_server() -> None:
    """Clients on the same host yield them when the server needs more."""
    alone = Load(0.0, 80.0, {}, {}, {"cpu": 0.99, "cpu:server": 0.9, "server_cpu": 0.95})
    assert alone.utilisation_by_server("cpu") == 0.99
    assert alone.utilisation_by_server("server_cpu") == 0.95
    assert alone.utilisation_by_server("disk:sda") is None
    assert alone.utilisation_by_server(None) is None
    for part in ({"cpu:server": 0.7}, {}):
        shared = replace(alone, resources={"cpu": 0.99, **part})
        assert shared.utilisation_by_server("cpu") is None


def test_a_few_expensive_queries_that_fill_the_resource_are_no_peak() -> None:
    """A report for three intervals fills the processor at a usual load: the capacity stays."""
    life = day(DaySettings(0.5))[1]
    usual = assess_capacity(life)
    cpu = life.resource("cpu")
    assert cpu.own is not None
    n, x, u = life.concurrency.copy(), life.throughput.copy(), cpu.utilisation.copy()
    own, late = cpu.own.copy(), slice(-40, -37)
    n[late], x[late], u[late], own[late] = 5 * n.max(), 0.5 * x.max(), 0.99, 0.97
    changed = tuple(
        replace(r, utilisation=u, own=own) if r.name == "cpu" else r for r in life.resources
    )
    reported = assess_capacity(replace(life, concurrency=n, throughput=x, resources=changed))
    assert reported.value == pytest.approx(usual.value, rel=0.03)
    assert reported.limit == usual.limit


def test_a_load_above_the_capacity_is_no_overload_by_itself() -> None:
    """Throughput above the capacity has negative headroom, and no loss."""
    found = assess_capacity(plateau(120.0, 1, full_at=0.98 * END))
    there = headroom_of(found, 1.1 * END, KNEE, 1.0)
    assert there is not None
    assert (there.overloaded, there.overload_loss) == (False, 0.0)
    assert there.ratio < 0


def test_a_table_past_the_peak_of_its_law_has_the_loss() -> None:
    """The law's own points: below, at and past the peak."""
    law = Usl(sigma=0.02, kappa=0.0005, lam=100.0)
    n = np.array([1.0, 2, 4, 8, 16, 32, 64, 128])
    curve = fit(n, law.throughput(n))
    assert curve.n_max is not None
    below, at, past = (headroom_on_curve(curve, k * curve.n_max) for k in (0.5, 1.0, 3.0))
    assert below is not None
    assert at is not None
    assert past is not None
    assert (below.overloaded, at.overloaded, past.overloaded) == (False, False, True)
    assert below.ratio > 0
    assert at.ratio == pytest.approx(0, abs=0.01)
    assert past.ratio == pytest.approx(-2)
    assert past.overload_loss > 0.1
    assert headroom_on_curve(fit([1, 2, 4, 8], [10, 20, 40, 80], "lsq"), 8.0) is None


@cache
def replayed(run: str) -> tuple[dict[str, Any], list[Reported]]:
    """A recorded run, and what is reported after each of its intervals."""
    seen = saved(RECORDED / run)
    return seen, list(reported(seen))


def of_stage(run: str, stage: int) -> list[Reported]:
    """The reports of one stage of a recorded run."""
    seen, everything = replayed(run)
    first = seen["stages"][stage - 1]["intervals"] if stage else 0
    return everything[first : seen["stages"][stage]["intervals"]]


@pytest.mark.parametrize("run", RUNS)
def test_a_real_server_at_half_its_best_concurrency_is_not_overloaded(run: str) -> None:
    """In no interval, before the peak was met; after it the headroom is what is unused again.

    Where the machine has become faster meanwhile and serves more than it did at its best, there is
    none, as far as it is known.
    """
    found = [each.snapshot.headroom(each.snapshot.at) for each in of_stage(run, HALF)]
    assert any(found)
    assert not any(known.overloaded for known in found if known is not None)
    for _, (_, served), snapshot in of_stage(run, LAST)[SETTLED:]:
        known = snapshot.headroom(snapshot.at)
        assert known is not None
        assert snapshot.load is not None
        assert not known.overloaded
        unused = 1 - snapshot.load.throughput / served
        assert unused - 0.1 <= known.ratio <= max(unused, 0.0) + 0.1


@pytest.mark.parametrize("run", RUNS)
def test_a_real_server_at_its_best_concurrency_has_no_headroom_and_no_overload(run: str) -> None:
    """Headroom is about 0 there, and there is no loss."""
    for _, _, snapshot in of_stage(run, BEST)[-4:]:
        known = snapshot.headroom(snapshot.at)
        assert known is not None
        assert known.ratio == pytest.approx(0, abs=0.12)
        assert (known.overloaded, known.overload_loss) == (False, 0.0)


@pytest.mark.parametrize("run", RUNS)
def test_a_real_server_past_its_peak_is_overloaded_and_its_capacity_measured(run: str) -> None:
    """Three intervals past the peak measure the capacity: within 5 % of what was served there.

    It is overloaded wherever throughput is lost. One machine became faster by a tenth meanwhile: as
    many threads as had been too many served more than the best number before, which is the measure
    then.
    """
    lost = 0
    for stage in PAST:
        for _, (_, served), snapshot in of_stage(run, stage)[SETTLED + MET :]:
            known, capacity = snapshot.headroom(snapshot.at), snapshot.capacity(snapshot.at)
            assert known is not None
            assert capacity is not None
            assert snapshot.load is not None
            most = max(served, snapshot.load.throughput)
            assert capacity.value == pytest.approx(most, rel=0.05)
            assert known.overload_loss >= 0
            if snapshot.load.throughput < LESS * served:
                lost += 1
                assert known.overloaded
                assert known.ratio < -1
    assert lost >= MET
