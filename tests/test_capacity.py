"""The capacity: the lower of walls and contention's peak, with an interval, a limit and trust."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.capacity.answer import INFORMATION, USL, Capacity, CapacityReason
from models.capacity.assess import assess_capacity
from models.capacity.contention import Ahead, find_peak
from models.capacity.observations import Observations
from models.capacity.sanity import Check, Points
from models.capacity.wall import Resource, WallReason
from models.trust import Trust
from models.usl import Array, Usl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

from capacity import passes_gate, trials
from simulated_days import Life, live
from simulated_servers import erlang_server, law_server, queueing_server

LAW = Usl(0.02, 0.0005, 1000.0)


def day(life: Life, *, full_at: float = 2.0, seed: int = 1) -> tuple[float, Observations]:
    """The true capacity and a day of a server that follows the law (σ .02, κ .0005)."""
    server = law_server("law", 0.02, 0.0005, full_at=full_at)
    return server.capacity, live(server, life, np.random.default_rng(seed))


def numbers(found: Capacity) -> Array:
    """Lower bound, value, upper bound."""
    return np.array([found.lower, found.value, found.upper], dtype=np.float64)


def without_concurrency(seen: Observations) -> Observations:
    """The same day, statement time and threads not known."""
    return replace(seen, concurrency=np.full(len(seen), np.nan))


def test_a_plateau_at_the_cores_is_seen_and_named() -> None:
    """The processor is full at 60 % of the law's peak: the wall is the limit, within 3 %."""
    truth, seen = day(Life(0.8), full_at=0.6)
    found = assess_capacity(seen)
    assert found.trust is Trust.TRUSTED
    assert found.limit == "cpu"
    assert found.value == pytest.approx(truth, rel=0.03)
    low, _, high = numbers(found)
    assert low < truth < high


def test_contention_is_seen_before_any_resource_is_full() -> None:
    """The processor would last for twice as much: the law is the limit, within 6 %."""
    truth, seen = day(Life(0.9), full_at=2.0)
    found = assess_capacity(seen)
    assert found.trust is Trust.TRUSTED
    assert found.limit == USL
    assert found.value == pytest.approx(truth, rel=0.06)


def test_far_below_an_interval_is_given_and_no_trust() -> None:
    """Below a third of the capacity contention may still come, which the lower bound carries."""
    truth, seen = day(Life(0.3), full_at=0.8)
    found = assess_capacity(seen)
    assert found.trust is not Trust.TRUSTED
    assert CapacityReason.LOAD_TOO_LOW in found.reasons
    low, value, high = numbers(found)
    assert low < 0.8 * value
    assert low < truth < high
    assert found.settle_throughput is not None
    assert found.x_seen < found.settle_throughput < value


def test_reaching_the_settling_load_settles_it() -> None:
    """A day up to the load that was asked for is trusted, and right."""
    truth, seen = day(Life(0.4), full_at=0.8)
    asked = assess_capacity(seen).settle_throughput
    assert asked is not None
    _, more = day(Life(asked / truth), full_at=0.8)
    found = assess_capacity(more)
    assert found.trust is Trust.TRUSTED
    assert found.value == pytest.approx(truth, rel=0.05)


def test_without_concurrency_the_walls_still_speak() -> None:
    """Near the wall, a capacity without any law; the reason says what is missing."""
    truth, seen = day(Life(0.9), full_at=0.6)
    found = assess_capacity(without_concurrency(seen))
    assert found.value == pytest.approx(truth, rel=0.05)
    assert found.usl is None
    assert CapacityReason.CONCURRENCY_UNKNOWN in found.reasons


def test_two_threads_running_refuse_the_law_and_not_the_wall() -> None:
    """The white paper's almost random data: no law, a wall with an interval."""
    server = queueing_server("small", 2, sleep=0.0005)
    seen = live(server, Life(0.7, samples=15), np.random.default_rng(3))
    found = assess_capacity(seen)
    assert found.usl is None
    assert found.usl_finding is not None
    assert found.usl_finding.check is Check.LOW_CONCURRENCY
    assert found.value == pytest.approx(server.capacity, rel=0.1)


def test_a_queue_at_the_processor_is_no_contention_elsewhere() -> None:
    """Residence time triples because the one processor is busy: it is the limit, within 10 %."""
    server = erlang_server("one", 1, wait=0.003, waking=0.5)
    found = assess_capacity(live(server, Life(0.75), np.random.default_rng(5)))
    assert found.limit == "cpu"
    assert found.shares["cpu"] > 0.7
    assert found.value == pytest.approx(server.capacity, rel=0.1)


def test_without_walls_a_trusted_law_is_the_capacity() -> None:
    """A law that its own gate trusts needs no resource beside it."""
    truth, seen = day(Life(0.98))
    found = assess_capacity(replace(seen, resources=()))
    assert found.usl is not None
    if found.usl.trust is Trust.TRUSTED:
        assert found.value == found.usl.x_max
        assert found.limit == USL
    assert CapacityReason.NO_WALL in found.reasons
    assert found.lower is not None
    assert found.lower < truth


def test_without_walls_and_far_below_there_is_a_lower_bound_only() -> None:
    """At least this much, and no number to mistake for the capacity."""
    truth, seen = day(Life(0.2))
    found = assess_capacity(replace(seen, resources=()))
    assert found.value is None
    assert found.upper is None
    assert found.limit is None
    assert found.trust is Trust.NOT_IDENTIFIABLE
    assert found.lower is not None
    assert 0 < found.lower < truth
    assert CapacityReason.NO_LIMIT_SEEN in found.reasons


def test_a_wall_that_was_passed_is_none() -> None:
    """Others filled the processor while the server went on: no wall, no bound that it set."""
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.uniform(200, 700, 25), rng.uniform(1200, 1500, 35)])
    own = np.where(x < 800, 0.02 + x * 0.0003, x * 0.00025)
    others = np.where(x < 800, 0.1 + x * 0.0007, 1 - own)
    order = rng.permutation(60)
    cpu = Resource("cpu", np.clip(own + others, 0, 1)[order], own=own[order])
    n = x / 400 * rng.normal(1, 0.05, 60)
    found = assess_capacity(
        Observations.of(15.0 * np.arange(60), x[order], n[order], resources=[cpu])
    )
    assert found.walls[0].x_max is None
    assert found.walls[0].reasons == (WallReason.NOT_A_LIMIT,)
    assert "cpu" not in found.shares
    assert found.lower is not None
    assert found.lower >= found.x_seen


@pytest.mark.parametrize("spread", [0.05, 0.2, 0.4])
def test_nothing_trusted_contradicts_what_was_seen(spread: float) -> None:
    """A server whose speed varies by spells: no capacity below what it held, none without why."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = 1 + 5 * (1.1 - np.cos(np.arange(160) / 2.7)) * rng.uniform(0.3, 0.8, 160)
        slow = np.repeat(np.exp(rng.normal(0, spread, 20)), 8)
        found = assess_capacity(Observations.of(2.0 * np.arange(160), LAW.throughput(n) * slow, n))
        if found.upper is not None:
            assert found.upper >= found.x_seen
        explained_well(found)


def explained_well(found: Capacity) -> None:
    """Whatever is not trusted has a reason that takes trust away, or nothing would settle it."""
    weighty = set(found.reasons) - INFORMATION
    assert bool(weighty) == (found.trust is not Trust.TRUSTED)


def test_a_setting_far_away_is_no_place_to_expect_contention() -> None:
    """Connections of which a tenth was used tell nothing of the peak; nearly all of them do."""
    _, seen = day(Life(0.6))

    def connections(most: float) -> Observations:
        used = seen.concurrency / (most * seen.concurrency.max())
        return replace(seen, resources=(Resource("connections", used, is_setting=True),))

    far = assess_capacity(connections(10.0))
    alone = assess_capacity(replace(seen, resources=()))
    assert (far.value, far.lower, far.trust) == (alone.value, alone.lower, alone.trust)
    near = assess_capacity(connections(1.1))
    assert near.shares["connections"] > 0.3


def test_the_lowest_of_several_walls_counts() -> None:
    """The disk is full before the processor: it is the limit."""
    truth, seen = day(Life(0.7), full_at=0.6)
    cpu = seen.resources[0]
    near = replace(cpu, name="io", ceiling=0.8)
    found = assess_capacity(replace(seen, resources=(cpu, near)))
    assert found.limit == "io"
    assert found.value == pytest.approx(0.8 * truth, rel=0.12)


def test_the_shares_of_the_limits_sum_to_one() -> None:
    """Each limit has its probability to be the one."""
    found = assess_capacity(day(Life(0.6))[1])
    assert set(found.shares) == {"cpu", "disk", USL}
    assert sum(found.shares.values()) == pytest.approx(1)


def test_headroom_is_what_is_left_of_the_capacity() -> None:
    """Half the capacity in use leaves half; without a capacity nobody knows."""
    found = assess_capacity(day(Life(0.9))[1])
    assert found.value is not None
    assert found.headroom(found.value / 2) == pytest.approx(0.5)
    assert assess_capacity(Observations.of([], [], [])).headroom(1.0) is None


def test_scaling_throughput_scales_the_capacity_and_nothing_else() -> None:
    """Ten times the queries: ten times λ, Xmax, walls and capacity; the same limit and trust."""
    _, seen = day(Life(0.8))
    one, ten = (
        assess_capacity(seen),
        assess_capacity(replace(seen, throughput=10 * seen.throughput)),
    )
    assert numbers(ten) == pytest.approx(10 * numbers(one), rel=1e-3)
    assert (one.limit, one.trust, one.reasons) == (ten.limit, ten.trust, ten.reasons)
    assert one.usl is not None
    assert ten.usl is not None
    assert ten.usl.law.lam == pytest.approx(10 * one.usl.law.lam, rel=1e-3)
    assert [w.x_max for w in ten.walls] == pytest.approx([10 * (w.x_max or 0) for w in one.walls])
    assert [o.index for o in one.outliers.removed] == [o.index for o in ten.outliers.removed]  # type: ignore[union-attr]


@pytest.mark.parametrize(("n", "x", "u"), [(20.0, 1.0, 1.0), (1.0, 5.0, 1.0), (1.0, 1.0, 3.0)])
def test_one_more_outlier_moves_a_trusted_capacity_by_little(n: float, x: float, u: float) -> None:
    """A pile-up, a glitch or a backup of one interval: less than 2 %."""
    _, seen = day(Life(0.85), full_at=0.8)
    before = assess_capacity(seen)
    factors = np.ones((3, len(seen)))
    factors[:, 100] = n, x, u
    cpu, disk = seen.resources
    worse = replace(
        seen,
        concurrency=seen.concurrency * factors[0],
        throughput=seen.throughput * factors[1],
        resources=(cpu, replace(disk, utilisation=np.minimum(disk.utilisation * factors[2], 1))),
    )
    after = assess_capacity(worse)
    assert before.trust is after.trust is Trust.TRUSTED
    assert after.value == pytest.approx(before.value, rel=0.02)


def test_pile_ups_and_a_backup_are_left_out_and_the_capacity_holds() -> None:
    """Four per cent of pile-ups and a backup: within 5 %, and what was left out is counted."""
    truth, seen = day(Life(0.9, pile_ups=0.04, backups=0.04), full_at=0.8)
    found = assess_capacity(seen)
    assert found.value == pytest.approx(truth, rel=0.05)
    assert found.outliers is not None
    assert 20 <= len(found.outliers.removed) <= 48


def test_a_single_burst_of_load_is_trusted_for_nothing() -> None:
    """Eight intervals near the capacity and hundreds far below it: indicative at the best."""
    rng = np.random.default_rng(5)
    server = law_server("s", 0.02, 1e-4, full_at=0.7)
    long, short = live(server, Life(0.9), rng), live(server, Life(0.5), rng)
    assert assess_capacity(long).trust is Trust.TRUSTED
    x = np.concatenate([short.throughput, np.sort(long.throughput)[-8:]])
    n, used = server.at(x)
    seen = Observations.of(
        15.0 * np.arange(len(x)), x, n, resources=[Resource("cpu", used["cpu"], own=used["cpu"])]
    )
    found = assess_capacity(seen)
    assert found.trust is not Trust.TRUSTED
    assert found.reasons


def test_too_many_outliers_forbid_trust() -> None:
    """A server that the models do not describe is not trusted, however narrow the interval."""
    _, seen = day(Life(0.9, pile_ups=0.2), full_at=0.8)
    found = assess_capacity(seen)
    assert found.outliers is not None
    assert found.outliers.too_many
    assert found.trust is not Trust.TRUSTED
    assert CapacityReason.MODEL_DOES_NOT_FIT in found.reasons


def test_a_changed_mix_is_told_and_the_new_capacity_found() -> None:
    """Queries became a third cheaper: the capacity is that of now."""
    truth, seen = day(Life(0.9, mix_change=1.5), full_at=0.8)
    found = assess_capacity(seen)
    assert CapacityReason.MIX_CHANGED in found.reasons
    assert found.value == pytest.approx(truth, rel=0.06)


def test_night_jobs_do_not_spoil_the_day() -> None:
    """The busier of two workloads is assessed, and the answer says that there are two."""
    truth, seen = day(Life(0.9, night_jobs=True), full_at=0.8)
    found = assess_capacity(seen)
    assert CapacityReason.TWO_WORKLOADS in found.reasons
    assert found.value == pytest.approx(truth, rel=0.06)


@pytest.mark.parametrize(
    ("x", "n", "u"),
    [
        ([], [], []),
        ([5.0], [2.0], [0.5]),
        ([0.0] * 50, [0.0] * 50, [0.0] * 50),
        ([100.0] * 50, [3.0] * 50, [0.3] * 50),
        ([100.0] * 50, list(np.linspace(1, 50, 50)), [0.3] * 50),
        (list(np.linspace(1, 50, 50)), [3.0] * 50, [0.3] * 50),
        ([1e15] * 25 + [2e15] * 25, [1e9] * 25 + [3e9] * 25, [0.4] * 25 + [0.7] * 25),
        ([1e-9] * 25 + [2e-9] * 25, [0.1] * 50, [1e-12] * 50),
        ([np.nan] * 50, [np.nan] * 50, [np.nan] * 50),
        ([-1.0] * 50, [-1.0] * 50, [-1.0] * 50),
        (list(np.linspace(1, 50, 50)), list(np.linspace(50, 1, 50)), list(np.linspace(1, 0, 50))),
    ],
)
@pytest.mark.parametrize("sampled", [False, True])
def test_ill_conditioned_windows_are_never_trusted(
    x: list[float], n: list[float], u: list[float], sampled: bool
) -> None:
    """One point, all equal, all idle, a vertical line, huge, tiny and impossible values."""
    variance = np.asarray(n, dtype=np.float64) / 15 if sampled else 0.0
    at = 15.0 * np.arange(len(x))
    seen = Observations.of(at, x, n, n_variance=variance, resources=[Resource("cpu", np.array(u))])
    found = assess_capacity(seen)
    assert found.trust is not Trust.TRUSTED
    assert found.reasons
    assert all(reason.sentence for reason in found.reasons)
    for bound in (found.lower, found.value, found.upper):
        assert bound is None or (np.isfinite(bound) and bound > 0)


def test_a_resource_at_its_end_all_the_time_is_the_limit() -> None:
    """A single resource at 100 %: the throughput it held is the capacity."""
    rng = np.random.default_rng(1)
    x = 1000 * np.exp(rng.normal(0, 0.02, 100))
    n = rng.uniform(20, 40, 100)
    seen = Observations.of(15.0 * np.arange(100), x, n, resources=[Resource("cpu", np.ones(100))])
    found = assess_capacity(seen)
    assert found.limit == "cpu"
    assert found.value == pytest.approx(1000, rel=0.06)


def test_a_queue_before_many_cores_is_followed_to_its_wall() -> None:
    """M/M/16 seen up to 80 % of its capacity, which is cores over demand."""
    server = erlang_server("e", 16)
    assert server.capacity == 16000
    found = assess_capacity(live(server, Life(0.8), np.random.default_rng(2)))
    assert found.value == pytest.approx(16000, rel=0.05)
    assert found.limit == "cpu"


def test_the_simulated_network_keeps_the_laws_of_queueing() -> None:
    """One thread: 1/(sleep + demand); many: cores/demand; U = X·D/cores (utilisation law)."""
    server = queueing_server("q", 4, demand=0.001, sleep=0.004)
    assert server.x[1] == pytest.approx(200.0)
    assert server.capacity == pytest.approx(4000, rel=1e-3)
    cpu = server.utilisations["cpu"] / 0.98
    assert cpu == pytest.approx(server.x * 0.001 / 4, rel=1e-6, abs=1e-6)


NO_POINTS = Points(*(np.empty(0) for _ in Points._fields))


def test_contention_known_to_be_absent_leaves_the_prior() -> None:
    """Without points the peak is somewhere about the wall, above what was seen."""
    peak = find_peak(NO_POINTS, Ahead(1000.0, None), 600.0)
    assert not peak.from_points
    assert 800 < peak.median < 1400
    assert peak.survival(np.log(np.array([590.0]))) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("cores", [1, 2, 4, 8])
@pytest.mark.parametrize("reach", [0.7, 0.9])
def test_a_queue_before_few_processors_is_no_contention(cores: int, reach: float) -> None:
    """Nothing but processor time: the interval holds where they are full."""
    for seed in range(5):
        server = erlang_server("few", cores, wait=0.0)
        found = assess_capacity(live(server, Life(reach), np.random.default_rng(seed)))
        low, value, high = numbers(found)
        assert low <= 1.02 * server.capacity
        assert high >= 0.98 * server.capacity
        assert value == pytest.approx(server.capacity, rel=0.1)


def test_what_the_processor_explains_as_busy_as_it_was_is_no_lock() -> None:
    """Others vary how busy it is at the same throughput, and the residence times follow that."""
    rng = np.random.default_rng(5)
    x = 20000 * rng.uniform(0.1, 0.65, 60)
    busy = np.clip(x / 20000 * np.exp(rng.normal(0, 0.15, 60)), 0, 0.95)
    n = x * 0.0013 + 2 * busy * busy / (1 - busy)
    wall, at_the_wall = Ahead(19500.0, 26.0), np.log(np.array([20000.0]))
    points = Points(n, x, np.ones(60), np.zeros(60), busy)
    assert find_peak(points, wall, 12400.0).survival(at_the_wall)[0] > 0.8
    mistaken = find_peak(points._replace(busy=x / 20000), wall, 12400.0)
    assert mistaken.survival(at_the_wall)[0] < 0.65


@pytest.mark.parametrize(("n_wall", "least"), [(50.0, 0.3), (3.0, 0.75), (1.1, 0.95)])
def test_contention_hardly_ends_what_few_statements_fill(n_wall: float, least: float) -> None:
    """A lock held for as long as a statement runs lets 1/R through: no peak far below the wall."""
    peak = find_peak(NO_POINTS, Ahead(1000.0, n_wall), 200.0)
    assert peak.survival(np.log(np.array([1000.0])))[0] >= least
    bound = np.log(np.array([0.7 * 1000.0 / n_wall]))
    assert peak.survival(bound)[0] == pytest.approx(1.0, abs=0.01)


def test_simulated_servers_are_covered_and_the_trusted_right() -> None:
    """Of 76 days of all kinds 85 % lie in their intervals, trusted ones within 5 and 12 %."""
    done = list(trials(1, seed=3))
    for each in done:
        explained_well(each.capacity)
    assert np.mean([t.covered for t in done]) >= 0.85
    trusted = np.abs([t.error for t in done if t.capacity.trust is Trust.TRUSTED])
    gate = [t for t in done if passes_gate(t.law)]
    assert len(trusted) >= max(len(gate), 15)
    assert np.median(trusted) <= 0.05
    assert np.quantile(trusted, 0.9) <= 0.12
    assert np.max(trusted) <= 0.25


def test_the_resources_ceiling_must_be_positive_and_times_must_rise() -> None:
    """Mistakes of the caller are errors, not results."""
    with pytest.raises(ValueError, match="ceiling"):
        Observations.of([1.0], [1.0], [1.0], resources=[Resource("cpu", np.ones(1), 0.0)])
    with pytest.raises(ValueError, match="rise"):
        Observations.of([2.0, 1.0], [1.0, 1.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="one value"):
        Observations.of([1.0, 2.0], [1.0], [1.0, 1.0])
