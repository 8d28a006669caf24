"""The agent's own pipeline over a recording: its results and alerts at each step.

Time comes from the recording alone, so that the same recording always gives the same results.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from agent.assessment.forecaster import Forecaster
from agent.assessment.recent_load import RecentLoad
from agent.assessment.snapshot import AssessmentState, Health, Snapshot
from agent.config.resources import ResourceSettings
from agent.config.settings import FitSettings
from agent.pipeline import NO_CEILINGS, assess, latest_load
from agent.replay.alert_rules import Alerts, Episode, Scrape
from agent.replay.recording_player import Recording
from agent.support.clock_pair import ClockPair

ASSESSMENT_SECONDS = 300.0
"""Seconds between two assessments where no step needs one: each takes some 60 ms of CPU. Between
them the load of each interval is compared with the latest capacity."""
FAR_HEADROOM = 0.5
"""Headroom above which no alert is near: the rules on it begin below 0.2."""
FAR_PACE_FACTOR = 12
"""Factor of `ASSESSMENT_SECONDS` above that headroom: a day below half of the capacity takes half
the time."""


@dataclass(frozen=True, slots=True)
class Step:
    """The snapshot at one time, and the alerts that were active since the previous step."""

    snapshot: Snapshot
    alerts: tuple[Episode, ...]


class Replay:
    """Plays a target's recording; `pace`: seconds between assessments, `recent`: earlier load."""

    def __init__(
        self,
        target: str,
        recording: Recording,
        settings: FitSettings,
        ceilings: ResourceSettings = NO_CEILINGS,
        pace: float = ASSESSMENT_SECONDS,
        alerts: Alerts | None = None,
        recent: RecentLoad | None = None,
    ) -> None:
        self._target, self._recording = target, recording
        self._settings, self._ceilings = settings, ceilings
        self._pace = pace
        self._alerts = alerts or Alerts()
        self._recent = recent or RecentLoad(recording.start)
        self._forecaster = Forecaster(target, recording.start)
        self._last: Snapshot | None = None
        self._fitted = AssessmentState()
        self._assessed_at = -math.inf
        self._scrape_index: float = math.floor(recording.start / settings.interval)
        """The index of the latest scrape: its time in interval widths on the recording's clock."""

    def steps(self, every: float) -> Iterator[Step]:
        """Yield a step at each multiple of `every` (s) within the recording, and one at its end."""
        for index in count(math.floor(self._recording.start / every) + 1):
            step = self.play_until(index * every)
            yield step
            if self._recording.end <= index * every:
                return

    def play_until(self, time: float) -> Step:
        """Play up to that time, or to the end of the recording; times must not decrease."""
        while (index := self._next_scrape_index()) * self._settings.interval <= time:
            at = index * self._settings.interval
            self._recording.play(at)
            if at > self._recording.end:
                break
            self._scrape_index = index
            is_due = at == time or at - self._assessed_at >= self._assessment_pause()
            self._alerts.observe(Scrape.of(self._snapshot_at(at, reassess=is_due)))
        self._recording.play(min(time, self._recording.end))
        time = min(time, self._recording.end)
        known = self._snapshot_at(time, reassess=True)
        forecast = self._forecaster.forecast(known.capacity(time), ClockPair(time, time))
        return Step(replace(known, forecast=forecast), tuple(self._alerts.take()))

    def _assessment_pause(self) -> float:
        """Return the seconds from an assessment to the next one."""
        known = self._last.headroom(self._last.at) if self._last else None
        is_far = known is not None and known.ratio > FAR_HEADROOM and not known.overloaded
        return self._pace * (FAR_PACE_FACTOR if is_far else 1)

    def _next_scrape_index(self) -> float:
        """Return the index of the next scrape; in a long gap, of the first that can have data.

        An alert ends in the gap, as in a Prometheus, which goes on evaluating it.
        """
        following = self._scrape_index + 1
        if self._last is None or self._alerts.is_any_active or not _is_silent(self._last):
            return following
        ahead = self._recording.next_at / self._settings.interval
        return ahead if math.isinf(ahead) else max(following, math.ceil(ahead))

    def _snapshot_at(self, at: float, *, reassess: bool) -> Snapshot:
        """Return the snapshot then: reassessed, or the new load with the latest capacity."""
        window = self._recording.buffer.window(at)
        health = Health(up=True if self._recording.has_recent_data(at) else None)
        now, last = ClockPair(at, at), self._last
        self._recent.observe(window, now)
        self._forecaster.observe(window, now)
        outlook = self._recent.outlook(now)
        if last is None or reassess:
            self._assessed_at = at
            found = assess(
                self._target, window, health, self._fitted, self._settings, now, self._ceilings
            )
            self._last, self._fitted = replace(found, outlook=outlook), found.assessed
            return self._last
        load, fitted = latest_load(window, now, self._ceilings), self._fitted
        if load is not None and fitted.capacity is not None:
            fitted = replace(fitted, at=load.end)
        self._last = replace(
            last, at=at, health=health, load=load, assessed=fitted, outlook=outlook
        )
        return self._last


def _is_silent(snapshot: Snapshot) -> bool:
    """Return whether neither a load nor a capacity is known any more."""
    now = snapshot.at
    return snapshot.current_load(now) is None and snapshot.capacity(now) is None
