"""What changes give, by identities that any answer must keep."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fuzzing import fuzz
from hypothesis import given
from hypothesis import strategies as st

from models.attribution.background_use import NOTHING_UNATTRIBUTED, UnattributedUse
from models.attribution.capacity_gain import ObservedClassUse, share_at_limit
from models.capacity.distribution import Distribution
from models.distribution_functions import normal_cdf
from models.usl.law import Usl
from models.what_if.assumption_sentences import assumptions
from models.what_if.changes import Changes
from models.what_if.current_state import (
    CurrentLoad,
    CurrentState,
    LimitDistribution,
    LimitKind,
    ResourceUse,
    UseShare,
)
from models.what_if.predict import Prediction, what_if
from models.what_if.predicted_value import PredictedValue

CAPACITY = 1000.0
BETTER: dict[str, Any] = {
    "cpu_speed": 2.0,
    "cores": 2.0,
    "disk_rate": 2.0,
    "disk_latency": 0.5,
    "network": 2.0,
    "servers": 2.0,
}


def limit(
    name: str, kind: LimitKind, x: float, probability: float, **shares: UseShare
) -> LimitDistribution:
    """A limit at about x, within some 5 %."""
    grid = np.linspace(np.log(x) - 0.2, np.log(x) + 0.2, 81)
    return LimitDistribution(
        name, kind, probability, grid, normal_cdf((grid - np.log(x)) / 0.05), shares
    )


CPU = limit("cpu", LimitKind.CPU, CAPACITY, 1.0, a=UseShare(0.4), b=UseShare(0.1, 0.2))
DISK = limit("disk:sda:bytes", LimitKind.DISK_BYTES, 1500.0, 0.0, a=UseShare(0.0))
CONTENTION = limit("usl", LimitKind.CONTENTION, 5000.0, 0.0)
USES = (
    ResourceUse(LimitKind.CPU, 0.004, 0.5, 0.5, channels=4.0, shares=CPU.shares, name="cpu"),
    ResourceUse(LimitKind.DISK_TIME, 0.0005, 0.25, 0.25, is_waited_for=False),
    ResourceUse(LimitKind.NETWORK, 0.0001, 0.05, 0.05, is_waited_for=False),
)
TODAY = CurrentState(
    capacity=CAPACITY,
    lower=900.0,
    upper=1150.0,
    limits=(CPU, DISK, CONTENTION),
    load=CurrentLoad(500.0, 0.006),
    uses=USES,
    distribution=Distribution.of_quantiles(900.0, CAPACITY, 1150.0),
    law=Usl(sigma=0.02, kappa=0.0005, lam=190.0),
    time_shares={"a": UseShare(0.3), "b": UseShare(0.2)},
    seen=frozenset(LimitKind),
)


def changed(factors: dict[str, Any]) -> Changes:
    """Changes by their names."""
    return Changes(**factors)


def together(today: CurrentState = TODAY, **changes: Any) -> Prediction:
    """What these changes give."""
    return what_if(today, Changes(**changes)).together


def capacity_of(today: CurrentState = TODAY, **changes: Any) -> PredictedValue:
    """The capacity then, which must be known."""
    found = together(today, **changes).capacity
    assert found is not None
    return found


def residence_of(today: CurrentState = TODAY, **changes: Any) -> PredictedValue:
    """The residence time then, which must be known."""
    found = together(today, **changes).residence_time
    assert found is not None
    return found


def test_without_a_change_the_prediction_is_todays() -> None:
    """Value, bounds, limit and residence time are exactly those that are known."""
    answer = what_if(TODAY, Changes())
    assert answer.together == answer.today
    assert answer.together.capacity == PredictedValue(CAPACITY, 900.0, 1150.0)
    assert answer.together.gain == PredictedValue(0.0, 0.0, 0.0)
    assert answer.together.residence_time == PredictedValue(0.006, 0.006, 0.006)
    assert answer.together.limit == "cpu"
    assert answer.alone == ()


@fuzz(25)
@given(
    st.fixed_dictionaries({name: st.floats(0.05, 20.0) for name in BETTER}),
    st.sampled_from(sorted(BETTER)),
    st.floats(1.01, 10.0),
)
def test_capacity_never_rises_when_something_gets_slower(
    factors: dict[str, float], name: str, by: float
) -> None:
    """Whatever else changes: value and bounds are no higher with one resource worse."""
    worse = by if name == "disk_latency" else 1 / by
    slower = factors | {name: factors[name] * worse}
    before, after = (what_if(TODAY, changed(f)).together.capacity for f in (factors, slower))
    assert before is not None
    assert after is not None
    for least, most in zip(vars(after).values(), vars(before).values(), strict=True):
        assert least <= most * (1 + 1e-9)


@fuzz(25)
@given(st.fixed_dictionaries({name: st.floats(0.05, 20.0) for name in [*BETTER, "load"]}))
def test_every_interval_contains_its_point(factors: dict[str, float]) -> None:
    """For capacity, gain and residence time."""
    found = what_if(TODAY, changed(factors)).together
    assert found.capacity is not None
    assert found.gain is not None
    for each in filter(None, (found.capacity, found.gain, found.residence_time)):
        assert each.lower <= each.value
        assert each.upper is None or each.value <= each.upper


def test_the_limit_moves_to_the_next_one() -> None:
    """With twice as fast a processor the disk is the first limit, at its throughput."""
    found = together(cpu_speed=2.0)
    assert found.limit == "disk:sda:bytes"
    assert found.capacity is not None
    assert found.capacity.value == pytest.approx(1500.0, rel=0.03)
    assert together(cpu_speed=2.0, disk_rate=2.0).limit == "cpu"
    assert capacity_of(cpu_speed=2.0, disk_rate=2.0).value == pytest.approx(2000.0, rel=0.01)


def test_contention_follows_the_resource_times() -> None:
    """The λ is that of the sum of times: CPU is 0.76 of it, so twice as fast gives 1/(1 − 0.38)."""
    throughput_plateau = replace(
        TODAY, limits=(replace(CONTENTION, probability=1.0),), uses=USES[:1]
    )
    gain = together(throughput_plateau, cpu_speed=2.0).gain
    assert gain is not None
    assert gain.value == pytest.approx(1 / (1 - 0.5 * 0.004 * 190) - 1, rel=1e-6)
    assert together(throughput_plateau, cores=2.0).gain == PredictedValue(0.0, 0.0, 0.0)


def test_a_halved_class_frees_its_share() -> None:
    """A class with 40 % of the limit's use leaves 80 % of it: the same mix fits 1.25 times."""
    gain = together(queries={"a": 0.5}).gain
    assert gain is not None
    assert gain.value == pytest.approx(0.25, abs=1e-9)
    uncertain = together(queries={"b": 0.5}).gain
    assert uncertain is not None
    assert uncertain.value == pytest.approx(1 / 0.95 - 1, rel=0.01)
    assert uncertain.upper is not None
    assert uncertain.lower < uncertain.value < uncertain.upper


def test_each_change_is_predicted_alone_too() -> None:
    """In the order of the options, a class by its name."""
    answer = what_if(TODAY, Changes(cpu_speed=2.0, network=10.0, queries={"a": 0.5}))
    assert [name for name, _ in answer.alone] == ["cpu_speed", "network", "a"]
    assert answer.alone[0][1] == together(cpu_speed=2.0)
    gain = answer.alone[1][1].gain
    assert gain == PredictedValue(0.0, 0.0, 0.0)


def test_residence_time_follows_the_processor_and_the_load() -> None:
    """Twice as fast a processor saves half of the 4 ms; less load saves waits, more adds some."""
    assert residence_of(cpu_speed=2.0).value == pytest.approx(0.004, rel=0.1)
    lighter, now, heavier = (residence_of(load=f).value for f in (0.5, 1.0, 1.5))
    assert lighter < now < heavier
    assert residence_of(servers=2.0).value == pytest.approx(lighter, rel=1e-9)
    assert residence_of(cores=2.0).value < now


def test_residence_times_are_as_uncertain_as_todays_scatter() -> None:
    """10 % makes an interval of 1.645 deviations each way; no change stays exact."""
    served = replace(TODAY, load=CurrentLoad(500.0, 0.003, 0.1), law=None, uses=USES[:1])
    found = residence_of(served, load=0.5)
    assert found.upper is not None
    assert found.upper / found.lower == pytest.approx(np.exp(2 * 1.645 * 0.1), rel=0.01)
    assert residence_of(served) == PredictedValue(0.003, 0.003, 0.003)


def with_window(xs: list[float], ns: list[float]) -> CurrentState:
    """Today's load of 500/s with 3 ms, in a window of these intervals."""
    load = CurrentLoad(500.0, 0.003, 0.1, window=(np.array(xs), np.array(ns)))
    return replace(TODAY, load=load)


def test_an_observed_load_has_its_observed_residence_time() -> None:
    """Four intervals at 250/s with 5 ms: half of the load has these, as have two servers."""
    seen = with_window([250.0] * 4 + [500.0] * 4, [1.25] * 4 + [1.5] * 4)
    assert residence_of(seen, load=0.5).value == pytest.approx(0.005, rel=0.001)
    assert residence_of(seen, servers=2.0).value == pytest.approx(0.005, rel=0.001)
    assert residence_of(seen, load=0.5).upper == pytest.approx(
        0.005 * np.exp(1.645 * 0.1 * np.sqrt(1.25)), rel=0.01
    )


def test_other_loads_start_from_todays_residence_time() -> None:
    """Three intervals are too few, and 1.1 times the load is about today's."""
    few = with_window([250.0] * 3 + [500.0] * 4, [1.25] * 3 + [1.5] * 4)
    none = replace(TODAY, load=CurrentLoad(500.0, 0.003, 0.1))
    assert residence_of(few, load=0.5) == residence_of(none, load=0.5)
    assert residence_of(few, load=1.1) == residence_of(none, load=1.1)


def test_other_changes_start_from_the_observed_load() -> None:
    """A processor twice as fast saves the same time there: 2 of 4 ms, and what waits for it."""
    seen = with_window([250.0] * 4, [1.5] * 4)
    found = residence_of(seen, load=0.5, cpu_speed=2.0)
    assert found.value == pytest.approx(0.004, rel=0.05)
    assert "4 intervals of the window had about 250 queries/s" in " ".join(
        assumptions(seen, Changes(load=0.5))
    )
    assert "about 2,500 queries/s" in " ".join(
        assumptions(with_window([2500.0] * 4, [1.5] * 4), Changes(load=5.0))
    )


def test_a_load_above_the_capacity_has_no_residence_time() -> None:
    """The queue grows without bound, with that as the reason."""
    found = together(load=2.5)
    assert found.residence_time is None
    assert found.unknown == (
        "The load would be above the capacity: residence times grow without bound.",
    )
    assert found.capacity == PredictedValue(CAPACITY, 900.0, 1150.0)


def test_past_the_peak_nothing_is_assumed_of_a_residence_time() -> None:
    """None is predicted there, so there is no time that it starts from, and no queue."""
    seen = with_window([250.0] * 4, [1.5] * 4)
    starts, queues = "The residence time starts from", "Queues at a resource"
    before = " ".join(assumptions(seen, Changes(load=0.5)))
    assert starts in before
    assert queues in before
    past = " ".join(assumptions(replace(seen, is_past_peak=True), Changes(load=0.5)))
    assert starts not in past
    assert queues not in past
    assert "The mix of queries does not change" in past


def test_a_load_above_an_unknown_capacity_is_not_said_to_be_above_it() -> None:
    """A resource would be full, though no limit is known: the reason names no capacity."""
    unknown = replace(TODAY, capacity=None, lower=None, upper=None, limits=(), law=None)
    found = together(unknown, load=2.5)
    assert found.residence_time is None
    assert found.unknown == (
        "The capacity is not known yet, so its change cannot be predicted.",
        "The load would be more than a resource can do: residence times grow without bound.",
    )


def test_a_residence_time_without_a_queue_does_not_fall_with_the_load() -> None:
    """More load than fills the processor has none, as ever."""
    served = replace(TODAY, load=CurrentLoad(500.0, 0.003), law=None, uses=USES[:1])
    assert residence_of(served, load=0.5).value == pytest.approx(0.003)
    assert together(served, load=2.5).residence_time is None


@pytest.mark.parametrize(
    ("change", "needed"),
    [
        ({"cores": 2.0}, "CPU use"),
        ({"disk_latency": 0.5}, "disks"),
        ({"network": 2.0}, "link"),
        ({"queries": {"c": 0.5}}, "its share of cpu"),
    ],
)
def test_an_unknown_prediction_has_its_reason(change: dict[str, Any], needed: str) -> None:
    """A change of something that was not seen has no number."""
    found = together(replace(TODAY, seen=frozenset()), **change)
    assert (found.capacity, found.gain, found.residence_time, found.limit) == (None,) * 4
    [reason] = found.unknown
    assert needed in reason


def test_without_a_capacity_there_is_only_a_residence_time() -> None:
    """And the reason why there is no more."""
    unknown = replace(TODAY, capacity=None, lower=900.0, upper=None, limits=())
    found = together(unknown, cpu_speed=2.0)
    assert (found.capacity, found.gain, found.limit) == (None, None, None)
    assert found.residence_time is not None
    assert "capacity is not known yet" in found.unknown[0]


def test_where_contention_limits_a_class_counts_by_its_statement_time() -> None:
    """At any other limit by its share of that one, and what is not known is said to be unknown."""
    contended = replace(TODAY, limits=(replace(CONTENTION, probability=1.0),))
    assert together(contended, queries={"a": 0.5}).unknown == ()
    [why] = together(contended, queries={"c": 0.5}).unknown
    assert "its share of usl is not known" in why
    timed = replace(TODAY, time_shares={"c": UseShare(0.2)})
    [why] = together(timed, queries={"c": 0.5}).unknown
    assert "its share of cpu is not known" in why


def test_a_capacity_without_an_upper_bound_gets_none() -> None:
    """What is unbounded today is unbounded then."""
    assert capacity_of(replace(TODAY, upper=None), cpu_speed=1.2).upper is None


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf"), 1e6])
def test_invalid_factors_are_refused(factor: float) -> None:
    """With the name of the change and the range."""
    with pytest.raises(ValueError, match=r"cores: a factor must be from 0\.001 to 1000"):
        Changes(cores=factor)


LINK = limit("network:eth0:sent", LimitKind.NETWORK, 3000.0, 0.0)
SETTING = limit("connections", LimitKind.SETTING, 1200.0, 0.1)


@pytest.mark.parametrize(
    ("today", "factors", "text", "is_stated"),
    [
        (TODAY, {"cores": 2.0}, "none of them faster", True),
        (TODAY, {"cpu_speed": 2.0}, "A faster processor", True),
        (TODAY, {"disk_rate": 2.0}, "the disk's time that is sequential", True),
        (TODAY, {"disk_latency": 0.5}, "the disk's time that is sequential", True),
        (TODAY, {"disk_latency": 0.5}, "No disk has a known limit", False),
        (replace(TODAY, limits=(CPU,)), {"disk_rate": 2.0}, "No disk has a known limit", True),
        (TODAY, {"network": 2.0}, "The link has no known limit", True),
        (replace(TODAY, limits=(CPU, LINK)), {"network": 2.0}, "The link has no known", False),
        (TODAY, {"servers": 2.0}, "share all queries equally", True),
        (TODAY, {"load": 2.0}, "The mix of queries does not change", True),
        (TODAY, {"queries": {"a": 0.5}}, "The others cost as before", True),
        (TODAY, {"servers": 2.0}, "at most those of random arrivals", True),
        (replace(TODAY, uses=()), {"servers": 2.0}, "at most those of random arrivals", False),
        (replace(TODAY, limits=(CPU, SETTING)), {}, "Limits that are settings", True),
        (
            replace(TODAY, limits=(CPU, replace(SETTING, probability=0.0))),
            {},
            "Limits that are settings",
            False,
        ),
        (replace(TODAY, upper=None), {}, "has no upper bound", True),
        (replace(TODAY, capacity=None, upper=None), {}, "has no upper bound", False),
    ],
)
def test_an_assumption_is_stated_where_it_is_made(
    today: CurrentState, factors: dict[str, Any], text: str, is_stated: bool
) -> None:
    """And not where it is not, as that a link has no known limit."""
    stated = assumptions(today, Changes(**factors))
    assert any(text in sentence for sentence in stated) is is_stated


def test_without_a_change_only_what_stays_is_stated() -> None:
    """Nothing of processors, disks, servers or the mix."""
    [stated] = assumptions(TODAY, Changes())
    assert "stay the same" in stated


def heavy(
    waking: float, load: float, share: float = 0.41, rest: Any = NOTHING_UNATTRIBUTED
) -> float:
    """The share at the limit of a class with 4 % of the calls."""
    return share_at_limit(ObservedClassUse(share, 0.04, rest), waking, load).value


def test_a_class_of_heavy_calls_has_more_of_the_limit_than_at_low_load() -> None:
    """Measured: 41 % of the CPU at 57 % of the peak were 47 % at it, for 4 % of the calls."""
    assert heavy(waking=0.55, load=0.57) == pytest.approx(0.47, abs=0.01)
    assert heavy(waking=0.0, load=0.57) == 0.41
    assert heavy(waking=0.55, load=1.0) == 0.41
    assert heavy(waking=0.55, load=0.3, share=0.04) == pytest.approx(0.04)


def test_background_work_is_no_part_of_a_limits_demand() -> None:
    """A tenth of the use is background, a tenth is the calls': 0.4 is (0.4 + 0.1·0.04)/0.9."""
    unattributed = UnattributedUse(background=0.1, error=0.0, uncounted_calls=0.1)
    assert heavy(0.0, 0.5, 0.4, unattributed) == pytest.approx(0.404 / 0.9)


def test_a_share_has_the_uncertainty_of_its_inputs() -> None:
    """The background within its error, and all that waking is expected to cost."""
    known = share_at_limit(ObservedClassUse(0.4, 0.04), waking=0.0, load=0.5)
    assert known.deviation == 0.0
    unsure = ObservedClassUse(0.4, 0.04, UnattributedUse(background=0.1, error=0.05))
    assert share_at_limit(unsure, 0.0, 0.5).deviation == pytest.approx(0.4 / 0.85 - 0.4 / 0.9)
    waking = share_at_limit(ObservedClassUse(0.4, 0.04), 0.5, 0.5)
    assert waking.deviation == pytest.approx(waking.value - 0.4)
