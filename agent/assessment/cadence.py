"""When the capacity is assessed again: often while the window is young or the load is high."""

from agent.assessment.snapshot import FitState
from agent.config.settings import FitSettings
from agent.support.clock_pair import Now
from agent.window.intervals import Window

INTERVALS_PER_NEW = 20
"""Intervals in an assessment for each new one that may be missing from it."""
NEAR_CAPACITY = 0.5
"""From this share of the capacity on each interval is assessed: no alert's rule begins below."""


def is_due(window: Window, known: FitState, settings: FitSettings, now: Now) -> bool:
    """Whether the new intervals may change what is known of the capacity.

    They are many beside those that were assessed, or one has a load near the capacity, or above
    what was seen where only a lower bound is known. An assessment is at most half as old as one
    that is withheld.
    """
    if len(window) == 0 or known.at is None or known.capacity is None or known.points is None:
        return True
    new = round((now.to_unix(float(window["end"][-1])) - known.at) / settings.interval)
    most = settings.stale_after / 2 / settings.interval
    if new < 0 or new >= min(len(known.points) / INTERVALS_PER_NEW, most):
        return True
    value, lower = known.capacity.value, known.capacity.lower
    near = (lower or 0.0) if value is None else NEAR_CAPACITY * value
    return bool((window["throughput"][-max(new, 1) :] > near).any())
