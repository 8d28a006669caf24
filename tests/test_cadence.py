"""When the capacity is assessed again: what waits, and what does not."""

from dataclasses import replace

import pytest
from law_windows import SETTINGS, WAVES, WIDTH, interval, intervals
from msgspec import structs

from agent.assessment.cadence import is_due
from agent.assessment.snapshot import AssessmentState
from agent.config.settings import FitSettings
from agent.pipeline import assess_window
from agent.support.clock_pair import ClockPair
from agent.window.intervals import Window

LONG_STALE = structs.replace(SETTINGS, stale_after=3600.0)


def now_at(window: Window) -> ClockPair:
    """When the last interval of a window was complete."""
    end = float(window["end"][-1])
    return ClockPair(end, 1_700_000_000.0 + end)


def assessed(loads: list[float]) -> AssessmentState:
    """What is known after these intervals."""
    window = Window(intervals(loads))
    found = assess_window(window, AssessmentState(), SETTINGS, now_at(window))
    assert found.capacity is not None
    return found


def due_after(loads: list[float], more: list[float], settings: FitSettings = LONG_STALE) -> bool:
    """Whether an assessment of the first loads is due again after these more."""
    window = Window(intervals([*loads, *more]))
    return is_due(window, assessed(loads), settings, now_at(window))


def test_a_young_window_is_assessed_with_each_interval() -> None:
    """One interval more is much beside ten."""
    assert due_after(WAVES[:10], [1.0])


@pytest.mark.parametrize(("more", "due"), [(1, False), (5, False), (6, True)])
def test_a_long_window_is_assessed_when_a_twentieth_is_new(more: int, due: bool) -> None:
    """At 120 intervals and a low load, after six."""
    assert due_after(WAVES, [1.0] * more) is due


def test_a_load_near_the_capacity_is_assessed_with_each_interval() -> None:
    """Where alerts may fire there is no delay."""
    known = assessed(WAVES).capacity
    assert known is not None
    assert known.value is not None
    half = interval(0, 1.0, throughput=0.45 * known.value).throughput
    window = Window([*intervals(WAVES), interval(len(WAVES), 5.0, throughput=half)])
    assert not is_due(window, assessed(WAVES), LONG_STALE, now_at(window))
    assert due_after(WAVES, [20.0])


def test_a_new_highest_load_is_assessed_where_only_a_bound_is_known() -> None:
    """It raises the lower bound."""
    loads = [0.6 + 0.3 * (k % 3) for k in range(120)]
    known = assessed(loads).capacity
    assert known is not None
    assert known.value is None
    assert not due_after(loads, [0.6])
    assert due_after(loads, [2.0])


def test_no_assessment_becomes_stale_for_lack_of_new_ones() -> None:
    """It is half as old at most, however many intervals the window has."""
    stale_after = 4 * WIDTH
    settings = structs.replace(SETTINGS, stale_after=stale_after)
    assert not due_after(WAVES, [1.0], settings)
    assert due_after(WAVES, [1.0, 1.0], settings)


def test_setting_the_clock_makes_an_assessment_due() -> None:
    """An assessment from the future does not count."""
    window = Window(intervals([*WAVES, 1.0]))
    then = now_at(window)
    known = replace(assessed(WAVES), at=then.unix + 3600)
    assert is_due(window, known, LONG_STALE, then)


def test_without_an_assessment_one_is_due() -> None:
    """Nothing is known, or only of another window."""
    window = Window(intervals(WAVES))
    assert is_due(window, AssessmentState(), LONG_STALE, now_at(window))
