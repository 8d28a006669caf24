"""Headroom in a unit of the business, against servers whose truth is known."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from models.arrays import Array
from models.business_metric_headroom import UnitHeadroom, UnitReason, UnitValues, unit_headroom
from models.capacity.distribution import Distribution
from models.capacity.headroom import Headroom
from models.capacity.result import Capacity, CapacityReason
from models.trust import Trust

C, SPREAD = 1000.0, 0.05
"""The expected capacity, queries/s, and the deviation of its logarithm."""
PER_USER = 0.5
"""Queries/s that each user makes."""
RUNS = 150
HALF_LEFT = Headroom(0.5, overloaded=False, overload_loss=0.0)


def capacity(trust: Trust = Trust.TRUSTED, **other: object) -> Capacity:
    """A capacity of about 1000 queries/s."""
    low, high = C * np.exp(np.array([-1.645, 1.645]) * SPREAD)
    known = Capacity(C, low, high, "cpu", {"cpu": 1.0}, trust, (), 600.0, None)
    given = Distribution.of_quantiles(low, C, high)
    return replace(known, distribution=given, **other)  # type: ignore[arg-type]


@dataclass(frozen=True)
class World:
    """How users and queries belong together; noises are deviations of the logarithm."""

    in_users: float = 0.0
    in_queries: float = 0.0
    lasting: float = 0.0
    """The correlation of one interval's noise with the next one's."""
    background: float = 0.0
    """Queries/s that no user makes."""
    outliers: float = 0.0
    count: int = 120
    top: float = 600.0
    """The highest load, queries/s."""

    def seen(self, random: np.random.Generator) -> UnitValues:
        """A load that goes up and down between a fifth of its top and the top."""
        made = self.top * (0.6 + 0.4 * np.sin(np.arange(self.count) / 9 + random.uniform(0, 6)))
        users = made / PER_USER
        x = made * np.exp(self._noise(random, self.in_queries)) + self.background
        u = users * np.exp(self._noise(random, self.in_users))
        wild = random.uniform(size=self.count) < self.outliers
        u = np.where(wild, u * random.choice([0.1, 5.0], self.count), u)
        return UnitValues(u, x, np.full(self.count, np.nan))

    def _noise(self, random: np.random.Generator, size: float) -> Array:
        noise = random.normal(size=self.count)
        for k in range(1, self.count):
            kept = self.lasting
            noise[k] = kept * noise[k - 1] + np.sqrt(1 - kept**2) * noise[k]
        return size * noise


WORLDS = {
    "exact": World(),
    "noisy users": World(in_users=0.1),
    "very noisy users": World(in_users=0.3),
    "noisy queries": World(in_queries=0.1),
    "both": World(in_users=0.1, in_queries=0.1),
    "lasting noise": World(in_users=0.1, lasting=0.9),
    "lasting noise in queries": World(in_queries=0.1, lasting=0.9),
    "background": World(in_users=0.05, background=150.0),
    "background, noisy queries": World(in_queries=0.1, background=150.0),
    "outliers": World(in_users=0.05, outliers=0.05),
    "few": World(in_users=0.1, in_queries=0.05, count=25),
    "little load": World(in_users=0.1, top=150.0),
}


def answers(world: World, runs: int = RUNS) -> list[tuple[UnitHeadroom, float]]:
    """Answers of seeded runs and their truths; the truth of C is drawn from what is known of it."""
    found = []
    for run in range(runs):
        random = np.random.default_rng(run)
        truth = C * np.exp(SPREAD * random.normal())
        load = world.top * 0.9 + world.background
        answer = unit_headroom(world.seen(random), capacity(), load, HALF_LEFT)
        found.append((answer, (truth - load) / PER_USER))
    return found


def values(of: float = 1.0, top: float = 600.0) -> UnitValues:
    """Users in proportion to a power of the queries, without noise."""
    x = top * (0.6 + 0.4 * np.sin(np.arange(120) / 9))
    return UnitValues(2.0 * x**of, x, np.full_like(x, 5.0))


def answer(
    seen: UnitValues, of: Capacity | None = None, left: Headroom = HALF_LEFT
) -> UnitHeadroom:
    """The answer at 500 queries/s."""
    return unit_headroom(seen, of or capacity(), 500.0, left)


@pytest.mark.parametrize("name", WORLDS)
def test_the_interval_has_its_nominal_coverage(name: str) -> None:
    """Whichever of users and queries has the noise, and whatever else sends queries."""
    known = [(a.amount, truth) for a, truth in answers(WORLDS[name]) if a.amount is not None]
    held = [h.lower <= truth <= (h.upper or np.inf) for h, truth in known]
    print(f"{name}: {np.mean(held):.3f} of {len(known)}")
    assert len(known) >= 0.9 * RUNS
    assert np.mean(held) >= 0.86


def test_the_headroom_is_the_capacitys_in_that_unit() -> None:
    """Half of 1000 queries/s is left, two users for each: a thousand more users, within C's 5 %."""
    found = answer(values())
    assert found.amount is not None
    assert found.amount.upper is not None
    assert found.amount.value == pytest.approx(1000.0, rel=0.01)
    assert found.amount.lower == pytest.approx(2 * (capacity().lower or 0.0) - 1000.0, rel=0.02)
    assert found.amount.upper == pytest.approx(2 * (capacity().upper or 0.0) - 1000.0, rel=0.02)
    assert (found.trust, found.reason) == (Trust.TRUSTED, None)


@pytest.mark.parametrize("trust", Trust)
def test_its_trust_is_at_most_the_capacitys(trust: Trust) -> None:
    """The unit adds its own uncertainty."""
    assert answer(values(), capacity(trust)).trust is trust


def test_an_unbounded_capacity_gives_an_unbounded_headroom() -> None:
    """It has a lower bound, and no upper one."""
    found = answer(values(), capacity(upper=None)).amount
    assert found is not None
    assert found.upper is None


def test_past_the_peak_the_headroom_is_zero() -> None:
    """Intervals past the peak do not count for the relation."""
    seen = values()
    past = seen.throughput > 400
    crowded = UnitValues(
        np.where(past, 9 * seen.unit, seen.unit), seen.throughput, np.where(past, 50.0, 5.0)
    )
    over = Headroom(-1.0, overloaded=True, overload_loss=0.2)
    found = answer(crowded, capacity(concurrency=20.0), over)
    assert found.amount is not None
    assert (found.amount.value, found.amount.upper) == (0.0, 0.0)
    assert found.reason is UnitReason.PAST_PEAK
    below = answer(crowded, capacity(concurrency=20.0))
    assert below.amount is not None
    assert below.amount.value == pytest.approx(1000.0, rel=0.01)


def test_each_unknown_headroom_has_its_reason() -> None:
    """No number without an observed relation, or with a contradicted capacity."""
    seen = values()
    few = UnitValues(*(each[:19] for each in (seen.unit, seen.throughput, seen.concurrency)))
    alone = replace(seen, unit=np.random.default_rng(1).uniform(1, 2, 120))
    falling = replace(seen, unit=3000.0 - seen.unit)
    still = replace(seen, throughput=500.0 + seen.throughput / 100)
    refuted = capacity(reasons=(CapacityReason.MODEL_DOES_NOT_FIT,))
    reasons = {
        UnitReason.FEW_VALUES: answer(few),
        UnitReason.DOES_NOT_FOLLOW: answer(alone),
        UnitReason.NOT_VARIED: answer(still),
        UnitReason.NOT_LINEAR: answer(values(of=1.5)),
        UnitReason.CONTRADICTED: answer(seen, refuted),
        UnitReason.NO_CAPACITY: unit_headroom(seen, None, 500.0, None),
    }
    assert {reason: found.reason for reason, found in reasons.items()} == {r: r for r in reasons}
    assert answer(falling).reason is UnitReason.DOES_NOT_FOLLOW
    assert answer(replace(seen, unit=0 * seen.unit)).reason is UnitReason.DOES_NOT_FOLLOW
    for found in reasons.values():
        assert found.amount is None
        assert found.trust is Trust.NOT_IDENTIFIABLE
