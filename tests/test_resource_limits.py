"""Resource limits: where utilisation, followed over throughput, reaches the ceiling."""

from dataclasses import replace

import numpy as np
import pytest

from models.arrays import Array
from models.capacity.demand_extrapolation import CEILING
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import LimitReason, Resource, ResourceLimit
from models.capacity.resource_limits import (
    _with_filled_intervals,
    correct_refuted_limit,
    find_resource_limits,
)
from models.distribution_functions import normal_cdf, student_cdf
from models.numerics import TABLE_SIZE
from models.robust_regression import fit_linear
from models.trust import Trust

LOADS = np.linspace(1, 1200, 1200)


def find_resource_limit(x: Array, u: Array, ceiling: float = 1.0) -> ResourceLimit:
    """The limit of one resource."""
    return find_resource_limits(x, [Resource("cpu", u, ceiling)])[0]


def loads(low: float, high: float, count: int = 300) -> tuple[Array, np.random.Generator]:
    """Throughputs between shares of a limit at 1000 queries/s."""
    rng = np.random.default_rng(4)
    return rng.uniform(low, high, count) * 1000, rng


def busy(x: Array, rng: np.random.Generator, base: float = 0.05, growth: float = 0.0) -> Array:
    """A utilisation that reaches 1 at 1000 queries/s, 2 % noise."""
    return busy_exactly(x, base, growth) * np.exp(rng.normal(0, 0.02, len(x)))


def busy_exactly(x: Array, base: float = 0.05, growth: float = 0.0) -> Array:
    """The same without noise."""
    share = x / 1000
    return np.asarray(base + (1 - base) * share * (1 + growth * share) / (1 + growth))


def around(resource_limit: ResourceLimit) -> tuple[float, float, float]:
    """The interval and the median of a limit that is there."""
    assert resource_limit.x_max is not None
    assert resource_limit.x_max_interval is not None
    return (
        resource_limit.x_max_interval.low,
        resource_limit.x_max,
        resource_limit.x_max_interval.high,
    )


@pytest.mark.parametrize("top", [0.3, 0.5, 0.8])
def test_a_constant_demand_gives_the_limit_from_far_below(top: float) -> None:
    """From 30 % of it on the limit is right within 5 %, inside its interval, and D is given."""
    x, rng = loads(0.02, top)
    resource_limit = find_resource_limit(x, busy(x, rng))
    low, middle, high = around(resource_limit)
    assert middle == pytest.approx(1000, rel=0.05)
    assert low < 1000 < high
    assert resource_limit.demand == pytest.approx(0.95 / 1000, rel=0.05)


def test_the_interval_narrows_near_the_limit() -> None:
    """Less is extrapolated."""
    ratios = []
    for top in (0.2, 0.5, 0.9):
        x, rng = loads(0.02, top)
        low, _, high = around(find_resource_limit(x, busy(x, rng)))
        ratios.append(high / low)
    assert ratios == sorted(ratios, reverse=True)


def test_a_growing_demand_is_extrapolated() -> None:
    """Where the demand has doubled at the limit, a straight line would be 30 % too high."""
    x, rng = loads(0.02, 0.7)
    u = busy(x, rng, growth=1.0)
    slope, base = np.polyfit(x, u, 1)
    assert (1 - base) / slope > 1150
    resource_limit = find_resource_limit(x, u)
    low, middle, high = around(resource_limit)
    full_at = float(np.interp(CEILING[0], busy_exactly(LOADS, growth=1.0), LOADS))
    assert LimitReason.DEMAND_GROWS in resource_limit.reasons
    assert middle == pytest.approx(full_at, rel=0.06)
    assert low < full_at < high


def test_a_tenth_of_outliers_does_not_move_the_limit() -> None:
    """A backup keeps the disk busy for a while."""
    x, rng = loads(0.05, 0.6)
    u = busy(x, rng)
    _, before, _ = around(find_resource_limit(x, u))
    u[100:125] = 0.9
    _, after, _ = around(find_resource_limit(x, u))
    assert after == pytest.approx(before, rel=0.03)


def test_a_lower_ceiling_gives_a_lower_limit() -> None:
    """At 80 % of its capacity a resource may count as full."""
    x, rng = loads(0.05, 0.6)
    u = busy(x, rng, base=0.0)
    assert around(find_resource_limit(x, u, ceiling=0.8))[1] == pytest.approx(800, rel=0.04)


def test_the_limit_scales_with_the_throughput() -> None:
    """Ten times the queries at the same utilisation: ten times the limit, the same trust."""
    x, rng = loads(0.05, 0.6)
    u = busy(x, rng)
    one, ten = find_resource_limit(x, u), find_resource_limit(10 * x, u)
    assert np.array(around(ten)) == pytest.approx(10 * np.array(around(one)), rel=1e-6)
    assert (one.trust, one.reasons) == (ten.trust, ten.reasons)


def test_a_mostly_full_resource_was_measured() -> None:
    """Its throughput is the limit."""
    rng = np.random.default_rng(1)
    x = 1000 * np.exp(rng.normal(0, 0.03, 100))
    resource_limit = find_resource_limit(x, np.ones(100))
    assert around(resource_limit)[1] == pytest.approx(1000, rel=0.02)
    assert resource_limit.reasons == (LimitReason.ALREADY_FULL,)


def test_the_throughput_of_a_full_processor_moves_its_limit() -> None:
    """From below it is 1,000; three, then eight intervals that filled it served 800."""
    x, rng = loads(0.02, 0.7)
    u, found = busy(x, rng), []
    for filled in (0, 3, 8):
        x_seen = np.concatenate([x, np.full(filled, 800.0)])
        u_seen = np.concatenate([u, np.full(filled, 0.995)])
        resource = Resource("server_cpu", u_seen, own=u_seen)
        found.append(around(find_resource_limits(x_seen, [resource])[0]))
    middles = [middle for _, middle, _ in found]
    assert middles[0] == pytest.approx(1000, rel=0.05)
    assert middles[0] > middles[1] > middles[2]
    assert middles[2] == pytest.approx(800, rel=0.08)
    assert found[2][0] < 800 < found[2][2]


def test_a_processor_that_others_fill_moves_no_limit() -> None:
    """Eight intervals that others filled at 800 queries/s do not show the server's limit."""
    x, rng = loads(0.02, 0.7)
    u = busy(x, rng)
    x_seen = np.concatenate([x, np.full(8, 800.0)])
    own = np.concatenate([u, np.full(8, 0.4)])
    resource = Resource("cpu", np.concatenate([u, np.full(8, 0.995)]), own=own)
    _, middle, _ = around(find_resource_limits(x_seen, [resource])[0])
    assert middle == pytest.approx(1000, rel=0.08)


def test_busy_is_not_full_while_the_throughput_grows() -> None:
    """A disk with many queues is 100 % busy at a tenth of its limit."""
    x, _ = loads(0.1, 1.0)
    resource_limit = find_resource_limit(x, np.ones(len(x)))
    assert not resource_limit.usable
    assert resource_limit.reasons == (LimitReason.NOT_A_LIMIT,)


@pytest.mark.parametrize(
    ("x", "u", "reason"),
    [
        (np.empty(0), np.empty(0), LimitReason.FEW_POINTS),
        (np.array([5.0]), np.array([0.5]), LimitReason.FEW_POINTS),
        (np.linspace(1, 9, 50), np.full(50, np.nan), LimitReason.FEW_POINTS),
        (np.linspace(1, 9, 50), np.full(50, 0.01), LimitReason.LITTLE_USED),
        (np.linspace(1, 9, 50), np.zeros(50), LimitReason.LITTLE_USED),
        (np.linspace(1, 9, 50), np.full(50, 0.5), LimitReason.NO_DEMAND),
        (np.linspace(1, 9, 50), np.linspace(0.9, 0.1, 50), LimitReason.NO_DEMAND),
    ],
)
def test_each_missing_limit_has_its_reason(x: Array, u: Array, reason: LimitReason) -> None:
    """No number where there is none, and a reason in words."""
    resource_limit = find_resource_limit(x, u)
    assert resource_limit.x_max is None
    assert resource_limit.trust is Trust.NOT_IDENTIFIABLE
    assert resource_limit.reasons == (reason,)
    assert reason.sentence


def test_a_single_load_gives_no_trusted_limit() -> None:
    """A vertical line: the base load is unknown there, and the interval shows that."""
    rng = np.random.default_rng(2)
    u = 0.3 * np.exp(rng.normal(0, 0.02, 100))
    resource_limit = find_resource_limit(np.full(100, 500.0), u)
    assert resource_limit.trust is not Trust.TRUSTED


def test_huge_throughputs_are_handled() -> None:
    """The unit does not matter to the arithmetic."""
    x, rng = loads(0.05, 0.6)
    u = busy(x, rng)
    assert around(find_resource_limit(x * 1e12, u))[1] == pytest.approx(1e15, rel=0.05)


def test_a_falling_demand_is_extrapolated() -> None:
    """If waking costs a third of a query at low load, a straight line would be 20 % too low."""
    x, rng = loads(0.02, 0.8)
    share = x / 1000
    own = 1.5 * share / (1 + 0.5 * share) * np.exp(rng.normal(0, 0.02, len(x)))
    [resource_limit] = find_resource_limits(x, [Resource("cpu", own + 0.001, own=own)])
    low, middle, high = around(resource_limit)
    full = 1000 * CEILING[0] / (1.5 - 0.5 * CEILING[0])
    assert middle == pytest.approx(full, rel=0.05)
    assert low < full < high
    assert LimitReason.DEMAND_GROWS not in resource_limit.reasons


@pytest.mark.parametrize("waking", [0.3, 1.0, 2.0])
def test_waking_a_processor_is_no_demand_at_the_limit(waking: float) -> None:
    """Observed up to half of the limit, while waking takes up to twice of a query's own CPU."""
    x, rng = loads(0.02, 0.5)
    share = x / 1000
    own = share * (1 + waking) / (1 + waking * share) * np.exp(rng.normal(0, 0.02, len(x)))
    [resource_limit] = find_resource_limits(x, [Resource("cpu", own + 0.001, own=own)])
    low, middle, high = around(resource_limit)
    full = 1000 * CEILING[0] / (1 + waking * (1 - CEILING[0]))
    assert middle == pytest.approx(full, rel=0.12)
    assert low < full < high


def test_noise_does_not_make_a_demand_fall_without_end() -> None:
    """With utilisations that vary by 15 % the limit stays within a third."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.uniform(50, 620, 47)
        own = 1.8 * x / 1000 / (1 + 0.8 * x / 1000) * np.exp(rng.normal(0, 0.15, 47))
        [resource_limit] = find_resource_limits(x, [Resource("server_cpu", own, own=own)])
        _, middle, high = around(resource_limit)
        assert middle == pytest.approx(1000, rel=0.33)
        assert high < 3000


def test_other_programs_work_is_separated_from_the_servers() -> None:
    """They use about an eighth of the processor: the limit is where both fill it."""
    x, rng = loads(0.02, 0.6)
    own = 0.8 * x / 1000 * np.exp(rng.normal(0, 0.02, len(x)))
    others = rng.uniform(0, 0.25, len(x))
    together, apart = find_resource_limits(
        x, [Resource("together", own + others), Resource("apart", own + others, own=own)]
    )
    assert around(apart)[1] == pytest.approx(1060, rel=0.06)
    ratios = [high / low for low, _, high in map(around, (apart, together))]
    assert ratios[0] < ratios[1]


def test_a_processor_that_others_fill_is_no_measured_limit() -> None:
    """It is always full: the server's own limit is unknown, with that as the reason."""
    x, rng = loads(0.5, 0.6)
    own = 0.3 * x / 1000 * np.exp(rng.normal(0, 0.02, len(x)))
    [resource_limit] = find_resource_limits(x, [Resource("cpu", np.ones(len(x)), own=own)])
    assert resource_limit.x_max is None
    assert resource_limit.reasons[0] is LimitReason.FILLED_BY_OTHERS


def test_several_resources_are_assessed_separately() -> None:
    """Each has its own limit, and gaps of one do not affect the other."""
    x, rng = loads(0.05, 0.6)
    cpu, disk = busy(x, rng), 0.4 * busy(x, rng)
    disk[::3] = np.nan
    first, second = find_resource_limits(x, [Resource("cpu", cpu), Resource("disk", disk)])
    assert around(first)[1] == pytest.approx(1000, rel=0.05)
    assert around(second)[1] == pytest.approx(2580, rel=0.08)


def test_a_log_that_fills_until_it_is_flushed_is_no_limit() -> None:
    """A checkpoint's age as MariaDB lets it grow does not follow the load."""
    x, rng = loads(0.1, 0.5, 120)
    filled = np.cumsum(x) / 4000 % 0.85 * np.exp(rng.normal(0, 0.01, len(x)))
    [resource_limit] = find_resource_limits(x, [Resource("log", filled, is_fill_level=True)])
    assert resource_limit.reasons == (LimitReason.STILL_FILLING,)
    assert not resource_limit.usable
    thinned = rng.permutation(len(x))
    [resource_limit] = find_resource_limits(
        x[thinned], [Resource("log", filled[thinned], is_fill_level=True)]
    )
    assert not resource_limit.usable
    balanced = busy(x, rng, base=0.02) * np.exp(rng.normal(0, 0.1, len(x)))
    [resource_limit] = find_resource_limits(x, [Resource("log", balanced, is_fill_level=True)])
    low, _, high = around(resource_limit)
    assert low < 1000 < high
    [resource_limit] = find_resource_limits(
        500 + x / 100, [Resource("log", np.ones_like(x), is_fill_level=True)]
    )
    assert resource_limit.reasons[0] is LimitReason.ALREADY_FULL


@pytest.mark.parametrize("full_from", [0.2, 0.4])
def test_a_disk_full_long_before_the_limit_is_no_limit(full_from: float) -> None:
    """It follows the load up to a third or so, and is busy all of the time from there on."""
    x, rng = loads(0.02, 1.0)
    resource_limit = find_resource_limit(x, np.minimum(busy(x / full_from, rng, base=0.0), 1.0))
    assert not resource_limit.usable
    assert resource_limit.reasons == (LimitReason.NOT_A_LIMIT,)


@pytest.mark.parametrize("least", [0.75, 0.5, 0.3])
def test_a_full_processor_with_collapsing_throughput_is_the_limit(least: float) -> None:
    """Beyond the peak threads burn it; its limit stays."""
    x, rng = loads(0.05, 0.98)
    beyond = rng.uniform(least, 1.0, 150) * 1000
    x, u = np.append(x, beyond), np.append(busy(x, rng), np.full(150, 0.99))
    low, middle, high = around(find_resource_limit(x, np.minimum(u, 1.0)))
    assert middle == pytest.approx(1000, rel=0.04)
    assert low < 1000 < high


def test_the_interval_has_its_nominal_coverage() -> None:
    """Of 200 limits seen from half-way, 85 % or more lie in their 90 % intervals."""
    hits = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        x = rng.uniform(0.05, 0.5, 80) * 1000
        low, _, high = around(
            find_resource_limit(x, busy(x, rng, growth=float(rng.choice([0, 0, 0.2]))))
        )
        hits += low <= 1000 <= high
    assert hits >= 170


def test_the_normal_distribution_and_students_agree_with_scipy() -> None:
    """Within 1e-6 and, from four degrees of freedom on, within 0.01."""
    from scipy import stats

    z = np.linspace(-5, 5, 101)
    assert normal_cdf(z) == pytest.approx(stats.norm.cdf(z), abs=1e-6)
    assert student_cdf(z, 4.0) == pytest.approx(stats.t.cdf(z, 4), abs=1e-2)


def test_a_line_without_noise_is_found_exactly() -> None:
    """The robust fit is least squares without outliers."""
    x = np.linspace(1, 5, 40)
    design = np.stack([np.ones_like(x), x], axis=1)
    fitted = fit_linear(design, 2 + 3 * x, np.ones(40), 1e-6)
    assert fitted.coefficients == pytest.approx([2, 3], rel=1e-6)


def test_equal_throughputs_give_no_limit_from_rounding() -> None:
    """Only a heartbeat, for windows of any length: finite numbers, or no limit."""
    for seed in range(300):
        rng = np.random.default_rng(seed)
        count = int(rng.choice([12, 30, 120, 400]))
        used = rng.uniform(0.1, 0.9) + rng.normal(0, rng.choice([0, 0.001, 0.01, 0.05]), count)
        u = np.clip(used, 0, 1)
        [resource_limit] = find_resource_limits(
            np.ones(count), [Resource("cpu", u, own=u * 0.3 if seed % 2 else None)]
        )
        assert resource_limit.x_max is None or np.isfinite(around(resource_limit)[:2]).all()


@pytest.mark.parametrize(("for_us", "is_ours"), [(0.3, True), (0.46, False), (np.nan, False)])
def test_the_throughput_on_a_full_processor_counts_unless_others_fill_it(
    for_us: float, is_ours: bool
) -> None:
    """Clients on the same host take three tenths of what is used, at any load.

    Others who take half as much again for a while leave less to the server than it could serve; so
    may they where nobody knows who fills it.
    """
    x, rng = loads(0.05, 0.9)
    whole, full_at = busy(x, rng, base=0.0), rng.normal(700, 20, 20)
    resource = Resource(
        "cpu",
        np.minimum(np.append(whole, np.ones(20)), 1.0),
        own=np.append(0.7 * whole, np.full(20, 1 - for_us)),
    )
    [limit] = find_resource_limits(np.append(x, full_at), [resource])
    low, middle, high = around(limit)
    if is_ours:
        assert middle == pytest.approx(700, rel=0.05)
    else:
        assert low < 1000 < high


def server_processor(x: Array, rng: np.random.Generator, background: float) -> Resource:
    """A processor whose server needs a share of it without queries; full at 1000 queries/s."""
    own = background + (0.94 - 1.02 * background) * x / 1000 + rng.normal(0, 0.003, len(x))
    return Resource("cpu", 1.02 * own + 0.01, own=own, processors=np.full(len(x), 4.0))


@pytest.mark.parametrize("background", [0.2, 0.3, 0.4, 0.5, 0.6])
def test_a_server_with_background_work_has_a_limit(background: float) -> None:
    """Appliers and purge may need half a processor: over a narrow range of loads."""
    x, rng = loads(0.1, 0.2)
    found = find_resource_limits(x, [server_processor(x, rng, background)])[0]
    low, middle, high = around(found)
    assert low < 1000 < high
    assert middle == pytest.approx(1000, rel=0.3)


def test_a_limit_beyond_the_considered_range_is_unknown() -> None:
    """A demand that hardly shows: where the probability ends, there is no number."""
    unbounded = unknown = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        count = int(rng.integers(8, 120))
        x = rng.uniform(rng.uniform(1, 90), 100, count)
        demand, base = 10 ** rng.uniform(-4, -2), rng.uniform(0, 1)
        u = base + demand * x + rng.normal(0, 10 ** rng.uniform(-3, -1), count)
        u = np.clip(u, 0, 1)
        own = u * rng.uniform(0.3, 1)
        processor = Resource("cpu", u, own=own, processors=0 * u + 4)
        seen = Observations.of(60.0 * np.arange(count), x, 0.01 * x, resources=[processor])
        found = find_resource_limits(x, seen.resources)[0]
        if found.x_max is None or found.x_max_interval is None:
            unknown += LimitReason.WIDE_INTERVAL in found.reasons
            continue
        assert found.cdf[-1] >= 0.5
        assert found.x_max_interval.low < found.x_max < found.x_max_interval.high
        if found.cdf[-1] < 0.95:
            unbounded += 1
            assert found.x_max_interval.high == np.inf
            assert found.trust is Trust.NOT_IDENTIFIABLE
    assert unbounded
    assert unknown


@pytest.mark.parametrize("offset", np.linspace(0, 1, 5).tolist())
def test_measured_throughputs_move_a_limit_to_them(offset: float) -> None:
    """Wherever the places of its table lie between them."""
    step = 4.5 / (TABLE_SIZE - 1)
    grid = np.linspace(-2.5, 2.0, TABLE_SIZE) + np.log(1000) + offset * step
    p = np.exp(-0.5 * ((grid - np.log(1000)) / 0.3) ** 2)
    own = np.append(np.linspace(0.1, 0.8, 60), np.full(60, 0.98))
    x = np.append(1000 * own[:60] / 0.98, np.full(60, 1000.0))
    resource = Resource("cpu", own, own=own)
    full = find_resource_limits(x, [resource])[0]
    assert around(full)[1] == pytest.approx(1000, rel=0.01)
    known = replace(full, grid=grid, cdf=np.cumsum(p) / p.sum())
    moved = _with_filled_intervals(known, np.full(60, 1000.0), np.zeros(60))
    assert around(moved)[1] == pytest.approx(1000, rel=0.01)


def test_a_moved_limit_keeps_what_lowers_the_demand() -> None:
    """Commits share the writes of the log as before; so does the capacity's concurrency."""
    x, rng = loads(0.1, 0.8)
    limit = replace(find_resource_limit(x, busy(x, rng)), log_shared=0.9)
    moved = correct_refuted_limit(limit, 1.2 * around(limit)[1], 0.97)
    assert LimitReason.ALREADY_FULL in moved.reasons
    assert moved.log_shared == 0.9


def test_a_limit_without_a_width_is_moved_too() -> None:
    """To where the resource is full, as sharp as it was: there is no width to enlarge."""
    x, rng = loads(0.1, 0.8)
    limit = find_resource_limit(x, busy(x, rng))
    sharp = replace(limit, grid=np.full_like(limit.grid, np.log(around(limit)[1])))
    low, middle, high = around(correct_refuted_limit(sharp, 1200.0, CEILING[0]))
    assert low == middle == high == pytest.approx(1200.0)


def committing_processor(x: Array, rng: np.random.Generator, per_query: float) -> Resource:
    """A processor whose queries wake it ever more rarely, each with so many log writes."""
    own = x / 1000 * (1.6 - 0.6 * np.minimum(x / 500, 1.0)) + rng.normal(0, 0.002, len(x))
    one = np.ones_like(x)
    idle = 3 * x * np.maximum(1 - x / 500, 0.0)
    found = Resource(
        "cpu", own, own=own, processors=one, idle_entries=idle, log_writes=per_query * x
    )
    return found.with_shared_costs(x, own)


def test_log_writes_that_queries_do_not_share_yet_raise_a_limit_and_its_bound() -> None:
    """That waking costs less explains the points: 1 ms a query, with a write of the log in each.

    Each is expected to take 200 µs of it, which full processors will save.
    """
    x, rng = loads(0.1, 0.8)
    without, rare, each, two = (
        find_resource_limits(x, [committing_processor(x, rng, writes)])[0]
        for writes in (0.0, 0.01, 1.0, 2.0)
    )
    assert around(without)[1] == pytest.approx(975, rel=0.05)
    assert around(rare)[1] == pytest.approx(around(without)[1], rel=0.02)
    assert without.further_fall < 0.05
    assert 0.15 < each.further_fall < 0.25
    assert 0.3 < two.further_fall < 0.5
    assert around(each)[1] == pytest.approx(975 / 0.8, rel=0.1)
    assert around(each)[0] < 1050
    assert around(each)[2] > 1.3 * around(without)[1]
    assert around(two)[1] > 1.2 * around(each)[1]


@pytest.mark.parametrize(
    ("waits", "counted", "may_wait"), [(3, False, True), (1, False, False), (3, True, False)]
)
def test_statements_that_wait_even_alone_may_wait_for_a_log_that_nobody_counted(
    waits: float, counted: bool, may_wait: bool
) -> None:
    """Then the limit may be higher, and its upper bound is; the lower bound stays."""
    x, rng = loads(0.1, 0.8)
    own = x / 1000 + rng.normal(0, 0.002, len(x))
    processor = Resource("cpu", own, own=own, processors=np.ones_like(x))
    plain, seen = (
        Observations.of(np.arange(float(len(x))), x, n, resources=[processor], log_counted=known)
        for n, known in ((own, True), (waits * own, counted))
    )
    before, after = (find_resource_limits(x, each.resources)[0] for each in (plain, seen))
    assert seen.resources[0].may_wait_for_log == may_wait
    assert around(after)[0] == pytest.approx(around(before)[0], rel=0.02)
    assert (around(after)[2] > 1.15 * around(before)[2]) == may_wait
    assert (after.further_fall > before.further_fall + 0.02) == may_wait


@pytest.mark.parametrize("ceiling", [0.2, 0.5])
@pytest.mark.parametrize("counts", ["nothing", "idle_entries", "log_writes"])
def test_a_configured_ceiling_is_as_fewer_processors(ceiling: float, counts: str) -> None:
    """Half of four processors are two: waking one, or a write of the log, costs as much."""
    x, rng = loads(0.1, 0.5)
    share = x / 1000 * np.exp(rng.normal(0, 0.02, len(x)))
    per_query = 0.8 - 0.3 * x / 1000

    def limit(processors: float, ceiling: float) -> ResourceLimit:
        """That of 2000 queries/s, of which each takes a millisecond."""
        used, counted = ceiling * share, 2 * x * per_query
        resource = Resource(
            "cpu",
            used,
            ceiling,
            own=used,
            processors=np.full_like(x, processors),
            idle_entries=counted / processors if counts == "idle_entries" else None,
            log_writes=counted if counts == "log_writes" else None,
        )
        seen = Observations.of(np.arange(float(len(x))), 2 * x, 0.002 * x, resources=[resource])
        return find_resource_limits(seen.throughput, seen.resources)[0]

    allowed, there = limit(2.0 / ceiling, ceiling), limit(2.0, 1.0)
    assert around(allowed) == pytest.approx(around(there))
    assert allowed.further_fall == pytest.approx(there.further_fall)
    assert allowed.log_shared == pytest.approx(there.log_shared)


@pytest.mark.parametrize("size", [0.0, 1e-6, 1e-3])
def test_errors_below_the_least_error_count_as_independent(size: float) -> None:
    """However alike neighbours are: the least error of a measurement is one of its own."""
    x, floor = np.linspace(0.1, 0.5, 60), 0.002
    design = np.column_stack((np.ones_like(x), x))
    line, weights = 0.02 + 0.5 * x, np.ones_like(x)
    alike = size * np.sin(np.arange(len(x)) / 5)
    found = fit_linear(design, line + alike, weights, floor)
    textbook = floor**2 * np.linalg.inv(design.T @ design)
    assert np.diag(found.covariance) == pytest.approx(np.diag(textbook), rel=0.5)
