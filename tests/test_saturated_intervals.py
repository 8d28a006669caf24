"""Saturation and IO waits of a watch are judged where they happened, and it is said when."""

import json
from dataclasses import replace

import pytest
from class_samples import samples
from simulated_classes import simulate

from agent.commands.profile_report import as_json, as_text
from agent.config.query_class_settings import ClassSettings
from agent.export.profile_rows import profile_of
from agent.query_classes.assessment import ClassWindow, assess_classes
from agent.query_classes.class_intervals import (
    ClassInterval,
    ClassIntervalMaker,
    host_use,
    saturated_periods,
)
from agent.query_classes.class_registry import ClassRegistry
from agent.query_classes.period_attribution import ObservedClasses, observed_classes
from agent.query_classes.resource_meter import ALL_TIME, BUSY, DELAY, IO_WAIT
from models.attribution.result import AttributionReason, HostUse


def used(busy: float, io_wait: float = 0.0) -> dict[str, float]:
    """Two processors' second."""
    return {BUSY: 2 * busy, IO_WAIT: 2 * io_wait, ALL_TIME: 2.0}


def watch(*parts: dict[str, float]) -> list[ClassInterval]:
    """An interval a second, as the host was used."""
    return [ClassInterval(100.0 + i, 1.0, None, part) for i, part in enumerate(parts)]


def read(registry: ClassRegistry, *parts: dict[str, float]) -> list[ClassInterval]:
    """Intervals of a simulated server on such a host."""
    intervals = list[ClassInterval]()
    maker = ClassIntervalMaker(registry)
    for sample in samples(simulate(3, intervals=len(parts) + 1)):
        maker.append(sample)
        intervals += maker.intervals(sample.at)
    assert len(intervals) == len(parts)
    both = zip(intervals, parts, strict=True)
    return [replace(interval, used={**interval.used, **part}) for interval, part in both]


def seen(*parts: dict[str, float]) -> ObservedClasses:
    """The same, watched."""
    registry = ClassRegistry()
    return observed_classes(registry, read(registry, *parts))


def test_a_saturated_period_is_found_at_its_time() -> None:
    """Of a minute 20 s were full, though the mean of the minute is far from it."""
    [period] = saturated_periods(watch(*[used(0.4)] * 15, *[used(0.98)] * 20, *[used(0.4)] * 25))
    assert (period.reason, period.start, period.end) == (AttributionReason.SATURATED, 15.0, 35.0)
    assert period.use == pytest.approx(0.98)


def test_a_saturated_second_is_ignored_and_an_unknown_one_ends_a_period() -> None:
    """Neither makes a period, nor does a busy time of which the whole is not known."""
    full, idle = used(1.0), used(0.1)
    assert saturated_periods(watch(idle, full, full, idle)) == ()
    assert saturated_periods(watch(full, full, {}, full, full)) == ()
    assert saturated_periods(watch(*[{BUSY: 2.0}] * 5)) == ()
    assert saturated_periods([]) == ()


def test_the_hosts_use_is_that_of_the_known_intervals() -> None:
    """Of a process that waits for a processor for a quarter of the time, three quarters run."""
    delayed = used(0.5, 0.1) | {"cpu": 0.3, DELAY: 0.1}
    found = host_use(watch(delayed, {}, used(0.7, 0.3)))
    assert (found.busy, found.io_wait, found.running) == pytest.approx((0.6, 0.2, 0.75))
    assert host_use(watch(used(0.5) | {"cpu": 0.0, DELAY: 0.0})).running is None
    assert host_use(watch({})) == HostUse()


@pytest.mark.parametrize(("known", "seconds"), [(20, 20.0), (10, 10.0), (9, 20.0)])
def test_cpu_must_be_known_in_half_of_the_intervals(known: int, seconds: float) -> None:
    """Then those are divided; otherwise all are, without CPU."""
    registry = ClassRegistry()
    intervals = read(registry, *[used(0.97)] * 20)
    for k, one in enumerate(intervals[known:], known):
        intervals[k] = replace(one, used={n: u for n, u in one.used.items() if n != "cpu"})
    found = observed_classes(registry, intervals)
    assert found.seconds == seconds
    assert (found.cpu is not None) == (seconds == known)
    [period] = found.saturated_periods
    assert period.end == seconds


@pytest.mark.parametrize(("known", "is_divided"), [(3, True), (2, False)])
def test_a_division_needs_three_intervals(known: int, is_divided: bool) -> None:
    """In which the use is known; bytes of which there are none are not divided."""
    parts = [used(0.4) | {"network": 1e6}] * known
    assert (seen(*parts).cpu is not None) == is_divided
    assert (seen(*parts, *[used(0.4)] * 20).network is not None) == is_divided
    assert seen(*[used(0.4) | {"network": 0.0}] * 20).network is None


def test_each_reason_has_its_own_periods() -> None:
    """A host that is full and then waits for its disk has one of each, in their order."""
    found = saturated_periods(watch(*[used(0.95)] * 5, *[used(0.3, 0.5)] * 5))
    assert [(s.reason, s.start, s.end) for s in found] == [
        (AttributionReason.SATURATED, 0.0, 5.0),
        (AttributionReason.IO_BOUND, 5.0, 10.0),
    ]


def test_the_profile_reports_the_periods() -> None:
    """In words and in JSON; without a period there is no such note."""
    profile = profile_of(seen(*[used(0.4)] * 70, *[used(0.97)] * 15), "cpu", with_text=False)
    assert AttributionReason.SATURATED in profile.reasons
    text = as_text(profile, 5)
    assert "time spent queueing looks like work (in the seconds 70 to 85 of 85)" in text
    [period] = json.loads(as_json(profile, 5))["saturated_periods"]
    assert period == {"reason": "saturated", "start": 70.0, "end": 85.0, "use": pytest.approx(0.97)}
    calm = profile_of(seen(*[used(0.4)] * 85), "cpu", with_text=False)
    assert AttributionReason.SATURATED not in calm.reasons
    assert json.loads(as_json(calm, 5))["saturated_periods"] == []


@pytest.mark.parametrize(("busy", "saturated"), [(0.97, True), (0.4, False)])
def test_the_daemon_judges_by_the_worst_period_too(busy: float, saturated: bool) -> None:
    """The interval's mean is far from full."""
    registry = ClassRegistry()
    window = ClassWindow.empty(ClassSettings(), registry)
    intervals = read(registry, *[used(0.4)] * 50, *[used(busy)] * 10)
    state, _ = assess_classes(intervals, window, 0.0)
    cpu = state.resource("cpu")
    assert cpu is not None
    assert (AttributionReason.SATURATED in cpu.reasons) is saturated


def test_only_the_first_three_periods_are_listed() -> None:
    """And how many more there are."""
    parts = ([used(0.97)] * 4 + [used(0.2)] * 4) * 5
    text = as_text(profile_of(seen(*parts), "cpu", with_text=False), 5)
    assert "(in the seconds 0 to 4, 8 to 12, 16 to 20 and 2 more of 40)" in text
