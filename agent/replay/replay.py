"""The agent's own pipeline over a recording: its results and alerts at each step.

Time comes from the recording alone, so that the same recording always gives the same answer.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from agent.assessment.forecaster import Forecaster
from agent.assessment.hour_ahead_load import RecentLoad
from agent.assessment.snapshot import FitState, Health, Snapshot
from agent.config.resources import ResourceSettings
from agent.config.settings import FitSettings
from agent.pipeline import NO_CEILINGS, assess, latest_load
from agent.replay.alert_rules import Alerts, Episode, Scrape
from agent.replay.recording_player import Recording
from agent.support.clock_pair import Now

ASSESSMENT_SECONDS = 300.0
"""Seconds between two assessments where no step asks for one: each takes some 60 ms of CPU. Between
them the load of each interval is compared with the latest capacity."""
FAR_HEADROOM = 0.5
"""Headroom above which no alert is near: the rules on it begin below 0.2."""
FAR_FACTOR = 12
"""Factor of the assessment interval then; a day below half of the capacity takes half the time."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is known at one time, and the alerts that were active since the step before."""

    snapshot: Snapshot
    alerts: tuple[Episode, ...]


class Replay:
    """One target's recording, played forward; `pace` in seconds, `recent` its load before."""

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
        self._fitted = FitState()
        self._assessed_at = -math.inf
        self._scraped: float = math.floor(recording.start / settings.interval)
        """How many intervals' lengths the latest scrape is after the recording's zero."""

    def steps(self, every: float) -> Iterator[Step]:
        """A step at each multiple of `every` (s) within the recording, and one at its end."""
        for place in count(math.floor(self._recording.start / every) + 1):
            step = self.until(place * every)
            yield step
            if self._recording.end <= place * every:
                return

    def until(self, time: float) -> Step:
        """Play up to that time, or to the end of the recording; it must not be before the last."""
        while (place := self._next_scrape()) * self._settings.interval <= time:
            at = place * self._settings.interval
            self._recording.play(at)
            if at > self._recording.end:
                break
            self._scraped = place
            is_due = at == time or at - self._assessed_at >= self._until_next()
            self._alerts.observe(Scrape.of(self._look(at, assess_anew=is_due)))
        self._recording.play(min(time, self._recording.end))
        time = min(time, self._recording.end)
        known = self._look(time, assess_anew=True)
        forecast = self._forecaster.forecast(known.capacity(time), Now(time, time))
        return Step(replace(known, forecast=forecast), tuple(self._alerts.take()))

    def _until_next(self) -> float:
        """How long after an assessment the next one is due, s."""
        known = self._last.headroom(self._last.at) if self._last else None
        is_far = known is not None and known.ratio > FAR_HEADROOM and not known.overloaded
        return self._pace * (FAR_FACTOR if is_far else 1)

    def _next_scrape(self) -> float:
        """Which it is; after a long silence the first that can have something to say."""
        following = self._scraped + 1
        if self._last is None or not _is_silent(self._last):
            return following
        ahead = self._recording.next_at / self._settings.interval
        return ahead if math.isinf(ahead) else max(following, math.ceil(ahead))

    def _look(self, at: float, *, assess_anew: bool) -> Snapshot:
        """What is known then: assessed again, or the new load beside the capacity known so far."""
        window = self._recording.history.window(at)
        health = Health(up=True if self._recording.is_heard(at) else None)
        now, last = Now(at, at), self._last
        self._recent.observe(window, now)
        self._forecaster.observe(window, now)
        outlook = self._recent.outlook(now)
        if last is None or assess_anew:
            self._assessed_at = at
            found = assess(
                self._target, window, health, self._fitted, self._settings, now, self._ceilings
            )
            self._last, self._fitted = replace(found, outlook=outlook), found.fitted
            return self._last
        load, fitted = latest_load(window, now, self._ceilings), self._fitted
        if load is not None and fitted.capacity is not None:
            fitted = replace(fitted, at=load.end)
        self._last = replace(last, at=at, health=health, load=load, fitted=fitted, outlook=outlook)
        return self._last


def _is_silent(snapshot: Snapshot) -> bool:
    """Whether neither a load nor a capacity is known any more."""
    now = snapshot.at
    return snapshot.current_load(now) is None and snapshot.capacity(now) is None
