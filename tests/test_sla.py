"""The load at which the mean residence time reaches the SLA, where the truth is known."""

from dataclasses import replace
from math import factorial

import numpy as np
import pytest
from law_windows import WAVES, interval, intervals, known, seen_at, with_resources
from test_what_if import CONTENTION, CPU, TODAY

from agent.assessment.snapshot import Snapshot
from agent.what_if.current_state import current_state_of
from agent.what_if.target_sla import sla_of
from agent.window.resource_utilisation import CPUS, LOG_WRITES, OPEN_CONNECTIONS
from models.capacity.distribution import Distribution
from models.capacity.result import CapacityReason
from models.distribution_functions import normal_cdf
from models.usl.law import Usl
from models.what_if.changes import Changes
from models.what_if.current_state import CurrentLoad, CurrentState, LimitKind, ResourceUse
from models.what_if.predict import what_if
from models.what_if.predicted_value import PredictedValue
from models.what_if.sla_headroom import Growth, growth_of_residence_time, sla_headroom
from models.what_if.sla_result import SlaReason

LAW = Usl(sigma=0.02, kappa=0.0005, lam=190.0)


def on_the_law(n: float) -> CurrentState:
    """A server of which the law explains all, at that concurrency."""
    x = float(LAW.throughput(n))
    peak = LAW.x_max
    assert peak is not None
    limit = replace(CONTENTION, grid=CONTENTION.grid + np.log(peak / 5000.0), probability=1.0)
    known = (0.98 * peak, peak, 1.02 * peak)
    return CurrentState(
        peak,
        known[0],
        known[2],
        (limit,),
        CurrentLoad(x, n / x),
        distribution=Distribution.of_quantiles(*known),
        law=LAW,
    )


@pytest.mark.parametrize("n", [2.0, 5.0, 15.0])
@pytest.mark.parametrize("wanted", [4.0, 10.0, 25.0])
def test_the_law_gives_the_load_that_reaches_the_sla(n: float, wanted: float) -> None:
    """R(N) = N/X(N) is reached at X(N), seen from any load; the peak is known within 2 %."""
    x = float(LAW.throughput(wanted))
    found = sla_headroom(on_the_law(n), wanted / x)
    assert found.throughput is not None
    assert found.concurrency is not None
    assert found.ratio is not None
    assert found.throughput.value == pytest.approx(x, rel=0.015)
    assert found.concurrency.value == pytest.approx(wanted, rel=0.015)
    now = float(LAW.throughput(n))
    assert found.ratio.value == pytest.approx(1 - now / x, abs=0.01, rel=0.02)


def processors(count: int, busy: float) -> CurrentState:
    """So many of them, each busy for that part of the time, for statements that arrive at random.

    1000 statements/s fill them, which is known within some 3 %.
    """
    service, place = count / 1000.0, np.log(1000.0)
    grid = place + np.linspace(-0.1, 0.1, 41)
    limit = replace(CPU, grid=grid, cdf=normal_cdf((grid - place) / 0.02), shares={})
    load = CurrentLoad(1000.0 * busy, service * queued(count, busy))
    use = ResourceUse(LimitKind.CPU, service, busy, busy, channels=count, name=limit.name)
    about = Distribution.of_quantiles(970.0, 1000.0, 1030.0)
    return CurrentState(1000.0, 970.0, 1030.0, (limit,), load, uses=(use,), distribution=about)


def queued(count: int, busy: float) -> float:
    """R of M/M/c over the service time, exactly (A. K. Erlang 1917, equation C)."""
    work = count * busy
    below = sum(work**k / factorial(k) for k in range(count))
    waiting = work**count / factorial(count) / (1 - busy)
    return 1 + waiting / (below + waiting) / (count * (1 - busy))


@pytest.mark.parametrize("count", [1, 2, 4, 16])
@pytest.mark.parametrize("busy", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("times", [2.0, 3.0, 6.0])
def test_an_exact_queue_is_within_the_interval(count: int, busy: float, times: float) -> None:
    """By Erlang's formula R is `times` the service time inside the interval."""
    shares = np.linspace(0.01, 0.999, 1000)
    truth = 1000.0 * np.interp(times, [queued(count, share) for share in shares], shares)
    if truth <= 1000.0 * busy:
        return
    found = sla_headroom(processors(count, busy), times * count / 1000.0).throughput
    assert found is not None
    assert found.upper is not None
    assert found.lower <= truth <= found.upper
    assert found.upper <= 1030.0


@pytest.mark.parametrize("busy", [0.4, 0.5, 0.6, 0.7])
@pytest.mark.parametrize("times", [1.0, 1.3, 2.0])
@pytest.mark.parametrize("others", [(0.5, 1.0), (1.0, 1.15)], ids=["lower", "higher"])
def test_the_highest_and_the_lowest_load_so_far_have_their_own_residence_time(
    busy: float, times: float, others: tuple[float, float]
) -> None:
    """All intervals are on one side of the present load, and R is averaged over the nearest."""
    today = processors(1, busy)
    assert today.load is not None
    x = 1000.0 * busy
    xs = x * np.linspace(*others, 60)
    ns = xs * np.array([queued(1, share) for share in xs / 1000.0]) / 1000.0
    load = replace(today.load, scatter=0.02, window=(xs, ns))
    sla = times * load.residence_time
    found = sla_headroom(replace(today, load=load), sla).ratio
    assert found is not None
    assert found.upper is not None
    assert found.lower - 0.01 <= 1 - x / (1000.0 - 1 / sla) <= found.upper + 0.01


def test_an_uncertain_limit_makes_an_uncertain_sla() -> None:
    """The latest interval's utilisation is not taken as exact: bounds are about as wide as its."""
    today = processors(2, 0.4)
    [limit] = today.limits
    far = replace(limit, grid=limit.grid[0] + 10 * (limit.grid - limit.grid[0]))
    known = sla_headroom(today, 0.02).throughput
    doubted = replace(
        today,
        limits=(far,),
        lower=900.0,
        upper=1400.0,
        capacity=1100.0,
        distribution=Distribution.of_quantiles(900.0, 1100.0, 1400.0),
    )
    unsure = sla_headroom(doubted, 0.02).throughput
    assert known is not None
    assert unsure is not None
    assert known.upper is not None
    assert unsure.upper is not None
    assert known.upper / known.lower < 1.1
    assert unsure.upper / unsure.lower > 0.9 * 1400 / 900


def test_the_load_at_the_sla_is_at_most_the_capacity() -> None:
    """An SLA of an hour is never broken before the capacity is reached."""
    found = sla_headroom(on_the_law(5.0), 3600.0)
    assert found.throughput is not None
    assert found.throughput.value == pytest.approx(LAW.x_max, rel=0.01)
    assert (found.capacity_first, found.concurrency) == (1.0, None)


def test_a_longer_sla_leaves_more_headroom() -> None:
    """Throughput and its bounds rise with the SLA, in order."""
    slas = (0.006, 0.007, 0.008, 0.01, 0.02, 0.1, 1.0)
    found = [sla_headroom(TODAY, sla).throughput for sla in slas]
    assert None not in found
    rows = [(f.lower, f.value, f.upper) for f in found if f is not None and f.upper is not None]
    assert len(rows) == len(slas)
    assert all(low <= value <= high for low, value, high in rows)
    assert (np.diff(np.array(rows), axis=0) >= 0).all()


def test_a_broken_sla_has_negative_headroom() -> None:
    """Half of the present residence time, which a lower load would give."""
    today = on_the_law(15.0)
    assert today.load is not None
    found = sla_headroom(today, 0.8 * today.load.residence_time)
    assert found.throughput is not None
    assert found.ratio is not None
    assert found.ratio.value < 0
    assert found.ratio.upper is not None
    assert found.ratio.upper <= 0


@pytest.mark.parametrize(
    ("today", "sla", "reason"),
    [
        (replace(TODAY, load=None), 0.01, SlaReason.NO_LOAD),
        (replace(TODAY, capacity=None), 0.01, SlaReason.NO_CAPACITY),
        (replace(TODAY, law=None, uses=()), 0.01, SlaReason.NO_GROWTH),
        (replace(TODAY, law=None, load=CurrentLoad(500.0, 0.06)), 0.1, SlaReason.UNEXPLAINED),
    ],
)
def test_each_unknown_headroom_has_its_reason(
    today: CurrentState, sla: float, reason: SlaReason
) -> None:
    """One reason, and no number."""
    found = sla_headroom(today, sla)
    assert found.reason is reason
    assert (found.throughput, found.concurrency, found.ratio) == (None, None, None)


@pytest.mark.parametrize(
    ("today", "sla", "reason"),
    [
        (TODAY, 0.001, SlaReason.NEVER_MET),
        (TODAY, 0.0055, SlaReason.NOT_IDENTIFIABLE),
        (replace(TODAY, capacity=None), 0.003, SlaReason.NO_CAPACITY),
    ],
)
def test_a_broken_sla_is_reported_without_a_load_that_keeps_it(
    today: CurrentState, sla: float, reason: SlaReason
) -> None:
    """The headroom is 1 − R/SLA, below 0, and no throughput is given."""
    found = sla_headroom(today, sla)
    assert (found.reason, found.throughput) == (reason, None)
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(1 - 0.006 / sla)


def test_the_residence_time_at_a_peak_is_the_laws() -> None:
    """Nmax/Xmax, whatever load it is seen from; unknown without a capacity."""
    assert LAW.n_max is not None
    assert LAW.x_max is not None
    found = sla_headroom(on_the_law(5.0), 3600.0).at_capacity
    assert found is not None
    assert found.value == pytest.approx(LAW.n_max / LAW.x_max, rel=0.2)
    assert sla_headroom(replace(TODAY, capacity=None), 3600.0).at_capacity is None


def watched(throughput: float, concurrency: float, *reasons: CapacityReason) -> Snapshot:
    """A server whose processor is full at 6000 queries/s, with ten statements at once."""
    rows = with_resources(intervals(WAVES), cpu=1 / 6000)
    counted = {OPEN_CONNECTIONS: 10.0, LOG_WRITES: 0.0}
    found = known([row._replace(resources={**row.resources, **counted}) for row in rows])
    assert found.load is not None
    assert found.assessed.capacity is not None
    full = {"cpu": min(throughput / 6000, 1.0)} if concurrency < 12 else {"cpu": 1.0}
    load = replace(
        found.load,
        throughput=throughput,
        concurrency=dict.fromkeys(found.load.concurrency, concurrency),
        resources=full,
    )
    capacity = replace(
        found.assessed.capacity,
        limit="cpu",
        concurrency=10.0,
        concurrency_upper=12.0,
        reasons=reasons,
    )
    return replace(found, load=load, assessed=replace(found.assessed, capacity=capacity))


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (CapacityReason.RECENT_COST_DIFFERS, SlaReason.CONTRADICTED),
        (CapacityReason.MODEL_DOES_NOT_FIT, SlaReason.CONTRADICTED),
        (CapacityReason.THROUGHPUT_PLATEAU, SlaReason.THROUGHPUT_PLATEAU),
    ],
)
def test_a_contradicted_capacity_gives_no_number(reason: CapacityReason, said: SlaReason) -> None:
    """Without that reason the same server has one."""
    plain, refuted = watched(3000.0, 2.0), watched(3000.0, 2.0, reason)
    assert sla_of(plain, 0.01, plain.at).headroom.ratio is not None
    state = sla_of(refuted, 0.01, refuted.at)
    assert state.headroom.reason is said
    assert (state.headroom.throughput, state.headroom.ratio, state.at_capacity) == (
        None,
        None,
        None,
    )


def test_past_the_peak_the_sla_has_no_headroom() -> None:
    """Headroom is the capacity's, below 0, though the SLA is longer than the present mean."""
    past = watched(4000.0, 60.0)
    left = past.headroom(past.at)
    assert left is not None
    assert left.overloaded
    found = sla_of(past, 1.5 * 60.0 / 4000.0, past.at).headroom
    assert found.reason is SlaReason.PAST_PEAK
    assert found.ratio is not None
    assert found.ratio.value == left.ratio < 0
    assert found.throughput is None


def test_a_saturation_in_the_window_does_not_lengthen_todays_residence_time() -> None:
    """Of four processors, full in 30 of 250 intervals: 60 statements run at once then."""
    before = 0.15 + 0.7 * np.abs(np.sin(np.arange(150) / 15.0))
    busy = [*before, *[0.98] * 30, *before[:60], *[0.85] * 10]
    noise = np.exp(0.02 * np.random.default_rng(1).standard_normal((2, len(busy))))
    rows = []
    for place, share in enumerate(busy):
        x = 2000.0 * share * (noise[0, place] if share == 0.98 else 1.0)
        n = 60.0 if share == 0.98 else 4 * share * queued(4, share)
        row = interval(place, n * noise[1, place], throughput=x)
        counted = {CPUS: 4.0, OPEN_CONNECTIONS: 60.0, LOG_WRITES: 0.0}
        rows.append(row._replace(resources={"cpu": min(x / 2000.0, 1.0), **counted}))
    seen = known(rows)
    today = current_state_of(seen, seen_at(rows)).load
    assert today is not None
    usual = today.mean_near(today.throughput)
    assert usual is not None
    assert usual.residence_time == pytest.approx(0.002 * queued(4, 0.84), rel=0.1)
    found = sla_of(seen, 1.5 * 0.002 * queued(4, 0.85), seen_at(rows)).headroom.ratio
    assert found is not None
    assert found.value > 0


def test_past_the_peak_no_residence_time_is_predicted() -> None:
    """Throughput is not the load there, of which a what-if question asks for a multiple."""
    past, below = watched(4000.0, 60.0), watched(3000.0, 2.0)
    for asked in (Changes(load=0.9), Changes(cpu_speed=2.0), Changes(servers=2.0)):
        found = what_if(current_state_of(past, past.at), asked).together
        assert found.capacity is not None
        assert found.residence_time is None
        assert "past its peak" in found.unknown[0]
    assert what_if(current_state_of(past, past.at), Changes()).today.residence_time is not None
    asked = Changes(load=0.9)
    assert what_if(current_state_of(below, below.at), asked).together.residence_time is not None


def trusted_and_not(busy: float) -> tuple[PredictedValue, PredictedValue]:
    """The throughput at an SLA of 20 ms, by a capacity that is trusted and by one that is not."""
    today = processors(2, busy)
    sure = sla_headroom(today, 0.02).throughput
    unsure = sla_headroom(replace(today, is_trusted=False), 0.02).throughput
    assert sure is not None
    assert unsure is not None
    return sure, unsure


def test_an_untrusted_capacity_widens_the_bounds() -> None:
    """By what such capacities were off beyond their own interval, and not below what is served."""
    sure, unsure = trusted_and_not(0.5)
    assert sure.upper is not None
    assert unsure.upper is not None
    assert 500.0 < unsure.lower < 0.9 * sure.lower
    assert sure.upper < unsure.upper <= 1030.0
    assert unsure.value == pytest.approx(sure.value, rel=0.05)


@pytest.mark.parametrize("busy", [0.2, 0.5])
def test_headroom_has_the_bounds_of_the_throughput(busy: float) -> None:
    """1 − X/throughput at each of the three; up to 1 where the throughput is unbounded."""
    today, x = processors(2, busy), 1000.0 * busy
    found = sla_headroom(today, 0.01)
    endless = sla_headroom(replace(today, upper=None), 3600.0)
    for one in (found, endless):
        assert one.throughput is not None
        assert one.ratio is not None
        assert one.ratio.value == pytest.approx(1 - x / one.throughput.value)
        assert one.ratio.lower == pytest.approx(1 - x / one.throughput.lower)
    assert found.throughput is not None
    assert found.ratio is not None
    assert found.throughput.upper is not None
    assert found.ratio.upper == pytest.approx(1 - x / found.throughput.upper)
    assert endless.throughput is not None
    assert endless.ratio is not None
    assert (endless.throughput.upper, endless.ratio.upper) == (None, 1.0)


def test_concurrency_is_given_only_if_the_sla_is_likely_below_the_capacity() -> None:
    """Beyond the capacity it would be of a load that the server never serves."""
    before = []
    for sla in 0.006 * np.geomspace(1.2, 100, 12):
        found = sla_headroom(replace(TODAY, is_trusted=False), float(sla))
        assert found.capacity_first is not None
        assert (found.concurrency is None) == (found.capacity_first >= 0.5)
        before.append(found.capacity_first)
    assert min(before) < 0.4
    assert 0.5 <= max(before) < 0.95


def test_before_contention_without_a_law_residence_times_grow_up_to_as_a_queue_does() -> None:
    """From not at all to (1 − U now)/(1 − U then), U the share of the limit by contention."""
    alone = processors(2, 0.3)
    end = replace(CONTENTION, grid=CONTENTION.grid + np.log(1000.0 / 5000.0), probability=1.0)
    beside = growth_of_residence_time(replace(alone, limits=(*alone.limits, end)))
    free = growth_of_residence_time(
        replace(alone, limits=(*alone.limits, replace(end, kind=LimitKind.SETTING)))
    )
    assert isinstance(beside, Growth)
    assert isinstance(free, Growth)
    for grown in (1.5, 2.0, 3.0):
        factor = np.full_like(beside.capacity_factors, grown)
        longer = beside.residence_times_at(factor) / free.residence_times_at(factor)
        place = beside.draws.limits[-1]
        queue = (1 - 300.0 / place) / (1 - np.minimum(grown * 300.0 / place, 0.99))
        assert longer.min() >= 1 - 1e-9
        assert (longer <= queue * (1 + 1e-9)).all()
        assert np.median(longer) > 1.02


def test_an_untrusted_capacity_has_wider_quantiles() -> None:
    """Its 5 % quantile lies a factor of exp(1.645 · 0.15) below that of a trusted one."""
    sure, unsure = trusted_and_not(0.2)
    assert sure.lower / unsure.lower == pytest.approx(1.28, rel=0.1)
