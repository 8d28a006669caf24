"""Counters per class never fall and never jump, whoever is shown; nothing is lost on the way."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_classes import known_classes, one_class

from agent.query_classes.capacity_gain import CapacityGain, capacity_gain, capacity_gains
from agent.query_classes.class_registry import COMBINED_CLASSES
from agent.query_classes.exported_class_totals import (
    FORMER_PER_PLACE,
    MIN_REPLACING_RATIO,
    TopKCounters,
)
from models.attribution.capacity_gain import ThroughputLimit, gain
from models.attribution.class_interval_table import AGENT, OTHER
from models.attribution.result import AttributionReason, PredictionError
from models.capacity.resource_and_limit import ResourceLimit
from models.capacity.result import Capacity
from models.trust import Trust
from models.usl.fit import fit_bayes
from models.usl.peak_posterior import CredibleInterval

WHAT = ("calls", "cpu")


def add(totals: TopKCounters, left: float = 0.0, **uses: float) -> None:
    """Classes use so much CPU, each in one call."""
    table = np.array([[1.0, use] for use in uses.values()]).reshape(-1, 2)
    totals.add(list(uses), table, {"calls": 0.0, "cpu": left})


def cpu(totals: TopKCounters) -> dict[str, float]:
    """The CPU of all that is shown."""
    return {name: float(sums[1]) for name, sums in totals.shown.items()}


def test_a_newly_displayed_class_starts_at_zero() -> None:
    """What it did before stays in the others' sum, which no longer includes it."""
    totals = TopKCounters(WHAT, 2)
    add(totals, a=5, b=1)
    assert cpu(totals) == {OTHER: 6, AGENT: 0}
    totals.choose({"a": 5, "b": 1})
    assert cpu(totals) == {OTHER: 6, AGENT: 0, "a": 0, "b": 0}
    add(totals, a=3, c=1)
    assert cpu(totals) == {OTHER: 7, AGENT: 0, "a": 3, "b": 0}


def test_a_class_that_returns_continues_from_its_former_sum() -> None:
    """Absent in between; its use meanwhile is the others'."""
    totals = TopKCounters(WHAT, 1)
    totals.choose({"a": 9})
    add(totals, a=4)
    totals.choose({"b": 9})
    assert "a" not in cpu(totals)
    add(totals, a=2, b=1)
    totals.choose({"a": 9})
    assert cpu(totals) == {OTHER: 2, AGENT: 0, "a": 4}


def test_a_displayed_class_stays_until_another_is_clearly_larger() -> None:
    """Two of about the same use do not take turns."""
    totals = TopKCounters(WHAT, 1)
    totals.choose({"a": 1.0, "b": 0.9})
    totals.choose({"a": 1.0, "b": 0.99 * MIN_REPLACING_RATIO})
    assert "a" in cpu(totals)
    totals.choose({"a": 1.0, "b": 1.01 * MIN_REPLACING_RATIO})
    assert "b" in cpu(totals)


def test_agent_and_other_are_always_displayed_and_take_no_place() -> None:
    """However much they use; a class without any use takes none either."""
    totals = TopKCounters(WHAT, 2)
    totals.choose({AGENT: 100, OTHER: 100, "a": 1, "idle": 0})
    assert set(cpu(totals)) == {AGENT, OTHER, "a"}


def test_memory_of_former_classes_is_bounded() -> None:
    """A thousand classes that come and go leave at most ten for each place."""
    totals = TopKCounters(WHAT, 2)
    for k in range(1000):
        totals.choose({f"q{k}": 1.0, f"p{k}": 1.0})
    assert len(totals._gone) == 2 * FORMER_PER_PLACE


def test_negative_use_is_deducted_from_later_use() -> None:
    """Time counted while a statement ran counts once; CPU beyond the total is owed."""
    totals = TopKCounters(WHAT, 1)
    totals.choose({"a": 1})
    for use, expected in ((3.0, 3.0), (-2.0, 3.0), (1.0, 3.0), (4.0, 6.0)):
        add(totals, a=use)
        assert cpu(totals)["a"] == expected
    for left, expected in ((1.0, 1.0), (-3.0, 1.0), (2.0, 1.0), (2.5, 2.5)):
        add(totals, left)
        assert totals.unattributed[1] == expected


def test_the_debt_of_a_class_without_a_column_passes_to_the_others() -> None:
    """Its later use is theirs; however many classes come and go, one debt is kept."""
    totals = TopKCounters(WHAT, 1)
    add(totals, a=-2.0, other=5.0)
    assert cpu(totals)[OTHER] == 5.0
    add(totals, b=1.0, other=3.0)
    assert cpu(totals)[OTHER] == 7.0
    for k in range(100):
        add(totals, **{f"q{k}": -0.5, "other": 0.0})
    assert len(totals._owed) <= 2
    add(totals, other=60.0)
    assert cpu(totals)[OTHER] == 7.0 + 60.0 - 50.0


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 100), max_size=6), max_size=12
    )
)
def test_no_counter_falls_and_the_sums_add_up(minutes: list[dict[str, float]]) -> None:
    """Over any minutes, with any classes displayed: what was put in is there."""
    totals, seen, put_in = TopKCounters(WHAT, 2), dict[str, float](), 0.0
    for uses in minutes:
        put_in += sum(uses.values())
        add(totals, **uses)
        totals.choose(uses)
        for name, value in cpu(totals).items():
            assert value >= seen.get(name, 0.0)
            seen[name] = value
    kept = sum(cpu(totals).values()) + sum(float(sums[1]) for sums in totals._gone.values())
    assert kept == pytest.approx(put_in)


@pytest.mark.parametrize("cost", [0.0, 0.5])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.7])
def test_a_cheaper_class_moves_the_limit_by_its_demand(cost: float, share: float) -> None:
    """Against the limit computed from every class's own demand per query."""
    rates, demands = np.array([30.0, 70.0]), np.array([share / 30.0, (1 - share) / 70.0])
    scale = 0.004
    base, ceiling = 0.1, 0.9

    def times_now(demands: np.ndarray) -> float:
        """By how much the others' rate can grow until the resource is full."""
        return (ceiling - base) / float(rates @ demands) / scale

    before = times_now(demands)
    after = times_now(demands * np.array([cost, 1.0]))
    resource_limit = before * rates.sum()
    assert gain([ThroughputLimit(resource_limit, share)], cost) == pytest.approx(after / before - 1)


def test_the_next_limit_bounds_the_gain() -> None:
    """A limit just above, in which the class has no part, is the end of the gain."""
    assert gain([ThroughputLimit(100.0, 0.5), ThroughputLimit(110.0, 0.0)], 0.0) == pytest.approx(
        0.1
    )
    assert gain([ThroughputLimit(100.0, 0.0), ThroughputLimit(110.0, 0.5)], 0.0) == 0.0


@pytest.mark.parametrize("cost", [0.0, 0.5])
def test_an_unknown_share_of_the_binding_limit_is_no_zero_gain(cost: float) -> None:
    """Unknown is None, not 0; above the binding limit, it ends the gain where it is now."""
    assert gain([ThroughputLimit(100.0, None), ThroughputLimit(110.0, 0.5)], cost) is None
    assert gain([ThroughputLimit(100.0, 0.5), ThroughputLimit(100.0, None)], cost) is None
    assert gain([ThroughputLimit(100.0, 0.5), ThroughputLimit(110.0, None)], cost) == pytest.approx(
        0.1
    )


def test_a_class_that_is_the_whole_load_has_no_gain() -> None:
    """Nor is there one where no limit is known."""
    assert gain([ThroughputLimit(100.0, 1.0)], 0.0) is None
    assert gain([ThroughputLimit(100.0, 1.0)], 0.5) == pytest.approx(1.0)
    assert gain([], 0.5) is None


def test_a_class_that_alone_uses_a_resource_has_the_gain_of_the_others() -> None:
    """Without it that is no limit: all reads of a disk, and three tenths of the processor."""
    processor, disk = ThroughputLimit(100.0, 0.3), ThroughputLimit(300.0, 1.0)
    assert gain([processor, disk], 0.0) == pytest.approx(1 / 0.7 - 1)
    assert gain([processor, disk], 0.5) == pytest.approx(1 / 0.85 - 1)
    assert gain([ThroughputLimit(100.0, 1.0), ThroughputLimit(110.0, 0.0)], 0.0) == pytest.approx(
        0.1
    )


def resource_limit(resource: str, x_max: float) -> ResourceLimit:
    """A limit at that throughput."""
    line = np.array([0.0, 1.0])
    interval = CredibleInterval(0.9 * x_max, 1.1 * x_max)
    return ResourceLimit(
        resource, x_max, interval, 1 / x_max, 0.0, 0.5, Trust.TRUSTED, (), line, line
    )


def capacity(limit: str | None, *resource_limits: ResourceLimit) -> Capacity:
    """A capacity that ends at that limit, all limits weighed."""
    shares = {
        resource_limit.resource: 1 / len(resource_limits) for resource_limit in resource_limits
    }
    known = (100.0, 90.0, 110.0, limit, shares, Trust.TRUSTED, (), 50.0, None)
    return Capacity(*known, resource_limits=resource_limits)


def test_waking_the_processor_costs_a_class_nothing_at_the_limit() -> None:
    """A class of few heavy calls has more of the limit than of a lower load; of many, less."""
    state = known_classes(0.0)
    state = replace(state, resources=tuple(replace(r, reasons=()) for r in state.resources))
    heavy, light = (
        replace(one, recent={**one.recent, "calls": calls})
        for one, calls in zip(state.classes, (1e3, 9e4), strict=False)
    )
    state = replace(state, classes=(heavy, light))
    awake = resource_limit("server_cpu", 100.0)
    asleep = replace(awake, waking=0.6)
    plain, mended = (capacity("server_cpu", one) for one in (awake, asleep))
    assert (capacity_gain(state, heavy, mended).removed or 0) > 1.1 * (
        capacity_gain(state, heavy, plain).removed or 0
    )
    slept, woken = (capacity_gain(state, light, one).removed for one in (mended, plain))
    assert slept is not None
    assert woken is not None
    assert slept < woken


def test_the_gain_is_the_share_of_the_binding_limit() -> None:
    """By CPU for a CPU limit, by bytes for a disk's; a combined class has none."""
    state = known_classes(0.0)  # a1 uses 6 of 10.25 of everything, b2 2.5
    state = replace(state, resources=tuple(replace(r, reasons=()) for r in state.resources))
    first, second = state.classes[:2]
    cpu = capacity("server_cpu", resource_limit("server_cpu", 100.0))
    share = 6 / 10.25
    assert capacity_gain(state, first, cpu).removed == pytest.approx(1 / (1 - share) - 1)
    assert capacity_gain(state, first, cpu).halved == pytest.approx(1 / (1 - share / 2) - 1)
    disk = capacity(
        "disk:sda", resource_limit("disk:sda", 100.0), resource_limit("connections", 110.0)
    )
    assert capacity_gain(state, second, disk).removed == pytest.approx(0.1)
    for digest in COMBINED_CLASSES:
        one = one_class(digest, 3.0)
        assert capacity_gain(state, one, cpu) == CapacityGain(None, None)
        assert capacity_gains(replace(state, classes=(one,)), cpu) == {}
    few = replace(state.resources[0], reasons=(AttributionReason.FEW_INTERVALS,))
    early = replace(state, resources=(few, *state.resources[1:]))
    assert capacity_gain(early, first, cpu) == CapacityGain(None, None)
    wrong = PredictionError(0.9, 0.1, 0.1)
    guessed = replace(state, resources=tuple(replace(r, held_out=wrong) for r in state.resources))
    reads = capacity("disk:sda", resource_limit("disk:sda", 100.0))
    assert capacity_gain(guessed, first, reads) == CapacityGain(None, None)
    assert capacity_gain(guessed, first, cpu) == capacity_gain(state, first, cpu)
    assert capacity_gain(state, first, capacity(None)) == CapacityGain(None, None)
    assert capacity_gain(state, first, None) == CapacityGain(None, None)


def test_there_is_no_gain_where_contention_or_connections_bind() -> None:
    """Which class causes them is not known."""
    state = known_classes(0.0)
    first = state.classes[0]
    held = capacity(
        "connections", resource_limit("connections", 100.0), resource_limit("cpu", 110.0)
    )
    assert capacity_gain(state, first, held) == CapacityGain(None, None)
    n = np.array([1.0, 2, 4, 8, 16, 24, 32, 48])
    law = fit_bayes(n, 10 * n / (1 + 0.05 * (n - 1) + 0.002 * n * (n - 1)))
    assert law.x_max is not None
    contended = replace(
        capacity("usl", resource_limit("cpu", 2 * law.x_max)),
        usl=law,
        shares={"usl": 0.9, "cpu": 0.1},
    )
    assert capacity_gain(state, first, contended) == CapacityGain(None, None)
    assert capacity_gains(state, contended) == {}
    other = replace(
        contended, limit="cpu", resource_limits=(resource_limit("cpu", law.x_max / 1.1),)
    )
    assert capacity_gain(state, first, other).removed == pytest.approx(0.1)


def test_an_unlikely_lower_limit_does_not_reduce_the_gain() -> None:
    """The likeliest limit counts, and those above it."""
    state = known_classes(0.0)
    both = capacity("cpu", resource_limit("cpu", 100.0), resource_limit("connections", 60.0))
    assert (capacity_gain(state, state.classes[1], both).removed or 0) > 0.2


def test_a_limit_left_out_of_the_capacity_does_not_count() -> None:
    """One that may be anywhere bounds nothing; without a capacity there is no gain."""
    state = known_classes(0.0)
    both = capacity("cpu", resource_limit("cpu", 100.0), resource_limit("connections", 101.0))
    removed = capacity_gain(state, state.classes[0], both).removed
    assert removed is not None
    assert removed < 0.02
    without = replace(both, shares={"cpu": 1.0})
    assert (capacity_gain(state, state.classes[0], without).removed or 0) > 1
    unknown = replace(both, value=None)
    assert capacity_gain(state, state.classes[0], unknown) == CapacityGain(None, None)
