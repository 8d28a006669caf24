"""Runs past the peak that `bench/past_the_peak.py` recorded, and what the agent reports."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from agent.assessment.snapshot import AssessmentState, Health, Snapshot
from agent.config.settings import FitSettings
from agent.pipeline import assess
from agent.support.clock_pair import ClockPair
from agent.window.intervals import Interval, Window

INTERVAL = 2.0  # seconds, of the agent
SETTLED = 2
"""The first intervals of a stage hold something of the one before."""


class ObservedWindow(NamedTuple):
    """The agent's window after one interval."""

    threads: int
    """Of the closed loop."""
    window: Window
    served: tuple[int, float]
    """The best number of threads until then, and what was served with it, queries/s."""


def windows_after_intervals(seen: dict[str, Any]) -> Iterator[ObservedWindow]:
    """Yield the agent's window after each interval."""
    rows = [Interval(**row) for row in seen["intervals"]]
    served: dict[int, list[float]] = {}
    done = 0
    for stage in seen["stages"]:
        of_stage = served.setdefault(stage["threads"], [])
        for end in range(done + 1, stage["intervals"] + 1):
            if end > done + SETTLED:
                of_stage.append(rows[end - 1].throughput)
            means = {n: sum(each) / len(each) for n, each in served.items() if len(each) >= SETTLED}
            means = means or {stage["threads"]: rows[end - 1].throughput}
            best = max(means, key=lambda n: means[n])
            yield ObservedWindow(stage["threads"], Window(rows[:end]), (best, means[best]))
        done = stage["intervals"]


class Reported(NamedTuple):
    """The snapshot after one interval."""

    threads: int
    """Of the closed loop."""
    served: tuple[int, float]
    """The best number of threads until then, and what was served with it, queries/s."""
    snapshot: Snapshot


def reported(seen: dict[str, Any]) -> Iterator[Reported]:
    """Yield what the agent's pipeline reports after each interval."""
    settings = FitSettings(interval=INTERVAL, window=3600.0)
    state = AssessmentState()
    for threads, window, served in windows_after_intervals(seen):
        end = float(window["end"][-1])
        snapshot = assess("bench", window, Health(up=True), state, settings, ClockPair(end, end))
        state = snapshot.assessed
        yield Reported(threads, served, snapshot)
