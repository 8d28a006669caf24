"""When the capacity is assessed again: often while the window is young or the load is high."""

from agent.assessment.snapshot import AssessmentState
from agent.config.settings import FitSettings
from agent.support.clock_pair import ClockPair
from agent.window.intervals import Window

ASSESSED_PER_NEW = 20
"""Number of assessed intervals per new one at which an assessment is due."""
NEAR_CAPACITY_SHARE = 0.5
"""Share of the capacity from which each interval is assessed: no alert rule starts below it."""


def is_due(window: Window, known: AssessmentState, settings: FitSettings, now: ClockPair) -> bool:
    """Return whether the new intervals may change the capacity, so that it must be assessed.

    They may if they are many compared with those assessed, or if the load of one is near the
    capacity, or above its lower bound where only that is known. An assessment is also due when
    the last one is older than half of `stale_after`, the age at which it would be withheld.
    """
    if len(window) == 0 or known.at is None or known.capacity is None or known.intervals is None:
        return True
    new_count = round((now.to_unix(float(window["end"][-1])) - known.at) / settings.interval)
    max_new_count = settings.stale_after / 2 / settings.interval
    if new_count < 0 or new_count >= min(len(known.intervals) / ASSESSED_PER_NEW, max_new_count):
        return True
    value, lower = known.capacity.value, known.capacity.lower
    threshold = (lower or 0.0) if value is None else NEAR_CAPACITY_SHARE * value
    return bool((window["throughput"][-max(new_count, 1) :] > threshold).any())
