"""Periods of time, written as `A..B`, and the assessment of a recording in one of them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import numpy as np

from agent.assessment.snapshot import AssessmentState
from agent.config.resources import ResourceSettings
from agent.config.timestamps import time_text
from agent.pipeline import assess_window
from agent.replay.recording_opener import RecordingSource, SourceError
from agent.support.clock_pair import ClockPair
from agent.support.counted import counted
from agent.support.errors import InputError
from agent.window.intervals import Window
from agent.window.present_limits import limits_that_may_change
from models.capacity.result import Capacity
from models.numerics import weighted_quantiles

SEPARATOR = ".."
FORM = f"FROM{SEPARATOR}TO, such as 2026-11-21T06:00{SEPARATOR}2026-11-21T12:00"
MIN_SECONDS = 60.0
"""Minimum length of a period, s."""
MIN_INTERVALS = 6
"""Fewer are not enough to determine a demand."""
LOAD_QUANTILES = (0.05, 0.5, 0.95)
"""Quantiles of the throughput that describe the load of a period."""


class TooEarlyError(InputError):
    """Too little time has passed since a given time to compare what follows it."""


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` to `end`, in seconds of the recording's clock."""

    start: float
    end: float

    @classmethod
    def of(cls, text: str, moment: Callable[[str], float]) -> "Period":
        """Parse `A..B`; raises ValueError with the correct form."""
        start, separator, end = text.partition(SEPARATOR)
        if not separator or not start or not end:
            raise ValueError(f"{text[:60]!r} is not a valid period; write {FORM}")
        period = cls(moment(start), moment(end))
        if period.length < 0:
            raise ValueError(f"{text[:60]!r} ends before it begins; write {FORM}")
        if not period.length >= MIN_SECONDS:
            problem = f"{text[:60]!r} is {period.length:g} s long"
            raise ValueError(f"{problem}; a comparison needs {MIN_SECONDS:g} s or more")
        return period

    @property
    def length(self) -> float:
        """The length in seconds."""
        return self.end - self.start


def periods_around(middle: float, length: float, now: float) -> tuple[Period, Period]:
    """Return periods of equal length before and after a time.

    They are `length` long, or as long as the time since then if that is less. Raises
    `TooEarlyError` if the time is in the future, or less than `MIN_SECONDS` ago.
    """
    if middle >= now:
        raise TooEarlyError("that time is in the future; give a past time")
    if now - middle < MIN_SECONDS:
        problem = f"{now - middle:.0f} s have passed since that time"
        raise TooEarlyError(f"{problem}; a comparison needs {MIN_SECONDS:g} s")
    length = min(length, now - middle)
    return Period(middle - length, middle), Period(middle, middle + length)


def periods_within(middle: float, length: float, start: float, end: float) -> tuple[Period, Period]:
    """Return periods of equal length before and after a time of a recording, both within it.

    They are `length` long, or less where the recording begins or ends earlier. Raises ValueError
    where less than `MIN_SECONDS` of it is on one side.
    """
    length = min(length, middle - start, end - middle)
    if length < MIN_SECONDS:
        extent = f"the recording is from {time_text(start)} to {time_text(end)}"
        raise ValueError(f"{extent}; give a time {MIN_SECONDS:g} s or more from both")
    return Period(middle - length, middle), Period(middle, middle + length)


class ChangeableLimit(NamedTuple):
    """A limit that may change within a period."""

    usual: float
    """In most of its time: only the intervals with this limit are assessed."""
    successive: Sequence[float]
    """In the order of time, without repeats."""


@dataclass(frozen=True, eq=False, slots=True)
class AssessedPeriod:
    """The assessment of one period of a recording."""

    period: Period
    fitted: AssessmentState
    intervals: int
    loads: tuple[float, float, float]
    """The 5, 50 and 95 % quantile of the throughput, queries/s, over the time of the period."""
    changeable_limits: Mapping[str, ChangeableLimit] = field(default_factory=dict)
    """max_connections and how many processors there were, by resource, where known."""

    @property
    def capacity(self) -> Capacity | None:
        """The capacity according to this period alone."""
        return self.fitted.capacity


def assess_period(
    source: RecordingSource, period: Period, ceilings: ResourceSettings
) -> AssessedPeriod:
    """Assess the capacity from the intervals of one period; `source` is played once.

    Raises `SourceError` where the period has too few intervals.
    """
    source.recording.play(period.end)
    source.recording.play(min(source.recording.end, period.end + source.recording.buffer.grace))
    whole = _within(source.recording.buffer.window(-math.inf), period)
    limits = _changeable_limits(whole)
    window = _with_usual_limits(whole, limits)
    if len(window) < MIN_INTERVALS:
        span = f"from {time_text(period.start)} to {time_text(period.end)}"
        raise SourceError(
            f"{source.title}: {counted(len(window), 'interval')} {span}; {MIN_INTERVALS} are needed"
        )
    now = ClockPair(period.end, period.end)
    lasted = window["seconds"] * window["stands_for"]
    low, middle, high = weighted_quantiles(window["throughput"], lasted, LOAD_QUANTILES)
    return AssessedPeriod(
        period=period,
        fitted=assess_window(window, AssessmentState(), source.settings, now, ceilings),
        intervals=round(float(window["stands_for"].sum())),
        loads=(low, middle, high),
        changeable_limits=limits,
    )


def _changeable_limits(window: Window) -> dict[str, ChangeableLimit]:
    """Return the limits that may change, by resource, where known."""
    found = {}
    for resource, limit in limits_that_may_change(window).items():
        known = limit > 0
        if known.any():
            values, which = np.unique(limit[known], return_inverse=True)
            lasted = np.bincount(which, (window["seconds"] * window["stands_for"])[known])
            successive = [value for value, _ in groupby(limit[known].tolist())]
            found[resource] = ChangeableLimit(float(values[np.argmax(lasted)]), successive)
    return found


def _with_usual_limits(window: Window, limits: Mapping[str, ChangeableLimit]) -> Window:
    """Return the intervals without those that had another limit.

    A change at the edge of a period would else make its last interval's limit that of all.
    """
    same = np.ones(len(window), dtype=np.bool_)
    for resource, limit in limits_that_may_change(window).items():
        if resource in limits:
            same &= ~(limit > 0) | (limit == limits[resource].usual)
    return window.select(same)


def _within(window: Window, period: Period) -> Window:
    """Return the intervals within the period, give or take half an interval."""
    edge = 0.5 * float(np.median(window["seconds"])) if len(window) else 0.0
    starts = window["end"] - window["seconds"]
    return window.select((starts >= period.start - edge) & (window["end"] <= period.end + edge))
