"""What disturbs a window: outliers, bursts, another mix or workload, points that tell nothing."""

from dataclasses import replace

import numpy as np
import pytest
from capacity_days import day

from models.capacity.assess import assess_capacity
from models.capacity.observations import Observations
from models.capacity.resource_and_limit import Resource
from models.capacity.result import CapacityReason
from models.trust import Trust
from testbed.simulated.day_scenarios import DaySettings
from testbed.simulated.server_months import PER_DAY, server_month
from testbed.simulated.servers import law_server


@pytest.mark.parametrize(("n", "x", "u"), [(20.0, 1.0, 1.0), (1.0, 5.0, 1.0), (1.0, 1.0, 3.0)])
def test_one_more_outlier_moves_a_trusted_capacity_by_little(n: float, x: float, u: float) -> None:
    """A pile-up, a glitch or a backup of one interval: by less than 2 %."""
    _, seen = day(DaySettings(0.85), full_at=0.8)
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


def test_pile_ups_and_a_backup_are_left_out() -> None:
    """Four per cent of pile-ups and a backup: within 5 %, and the outliers are counted."""
    truth, seen = day(DaySettings(0.9, pile_ups=0.04, backups=0.04), full_at=0.8)
    found = assess_capacity(seen)
    assert found.value == pytest.approx(truth, rel=0.05)
    assert found.outliers is not None
    assert 20 <= len(found.outliers.removed) <= 48


@pytest.mark.parametrize(
    ("near", "reasons"),
    [
        (4, {CapacityReason.LOAD_TOO_LOW}),
        (7, {CapacityReason.FEW_HIGH_LOADS}),
        (8, set()),
    ],
)
def test_a_short_burst_of_load_is_trusted_for_nothing(
    near: int, reasons: set[CapacityReason]
) -> None:
    """A hundred intervals far below the capacity, and some near it: eight settle it."""
    rng = np.random.default_rng(5)
    server = law_server("s", 0.02, 1e-4, full_at=0.7)
    share = np.append(rng.uniform(0.1, 0.5, 100), rng.uniform(0.85, 0.9, near))
    n, used = server.at(share * server.capacity)
    cpu = Resource("cpu", used["cpu"], own=used["cpu"])
    at = 15.0 * np.arange(len(share))
    found = assess_capacity(Observations.of(at, share * server.capacity, n, resources=[cpu]))
    assert (found.trust is Trust.TRUSTED) == (not reasons)
    assert reasons <= set(found.reasons)
    assert found.value == pytest.approx(server.capacity, rel=0.05)
    assert (found.settling_throughput is None) == (not reasons)


@pytest.mark.parametrize("pile_ups", [0.12, 0.2, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_too_many_outliers_are_kept_and_change_the_capacity_little(
    pile_ups: float, seed: int
) -> None:
    """Where they are more than a tenth none is left out; the capacity is within 10 %."""
    truth, seen = day(DaySettings(0.9, pile_ups=pile_ups), full_at=0.8, seed=seed)
    found = assess_capacity(seen)
    assert found.outliers is not None
    assert found.outliers.too_many
    assert found.outliers.kept.all()
    assert found.value == pytest.approx(truth, rel=0.1)


def test_after_a_changed_mix_the_new_capacity_is_found() -> None:
    """Queries became a third cheaper: the change is reported."""
    truth, seen = day(DaySettings(0.9, mix_change=1.5), full_at=0.8)
    found = assess_capacity(seen)
    assert CapacityReason.MIX_CHANGED in found.reasons
    assert found.value == pytest.approx(truth, rel=0.06)


def test_night_jobs_do_not_distort_the_capacity_by_day() -> None:
    """The busier of two workloads is assessed, and the result says that there are two."""
    truth, seen = day(DaySettings(0.9, night_jobs=True), full_at=0.8)
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


def test_a_permanently_full_resource_is_the_limit() -> None:
    """A single resource at 100 %: its throughput is the capacity."""
    rng = np.random.default_rng(1)
    x = 1000 * np.exp(rng.normal(0, 0.02, 100))
    n = rng.uniform(20, 40, 100)
    seen = Observations.of(15.0 * np.arange(100), x, n, resources=[Resource("cpu", np.ones(100))])
    found = assess_capacity(seen)
    assert found.limit == "cpu"
    assert found.value == pytest.approx(1000, rel=0.06)


def test_statements_waiting_for_a_lock_leave_the_capacity_uncertain() -> None:
    """In 24 minutes of a day throughput falls at 0.4 of the capacity: perhaps at its peak."""
    known, end = server_month("locks", 5004), 21730
    assert np.count_nonzero(known.monthly_load.stuck[end - PER_DAY : end]) == 24
    found = assess_capacity(known.day_until(end))
    assert found.distribution is not None
    assert found.distribution.at_most(0.8 * known.server.capacity) < 0.95
    assert found.trust is not Trust.TRUSTED
