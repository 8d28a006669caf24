"""Alerts judged as the SRE workbook does: recall, precision, detection time, reset time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from simulated_months import HOUR, MINUTE

from models.usl.law import Array

SMOOTH = 5
"""Minutes over which what is asked for is averaged."""
APART = 60
"""Minutes below the capacity that part two saturations."""
LEAST = 5
"""Minutes that a saturation lasts at least."""
RISEN_FROM = 0.8
"""Of the capacity: from there on the time counts that a load took to rise."""
SLOWLY, VERY_SLOWLY = 10 * MINUTE, 30 * MINUTE
AHEAD = 2 * HOUR
"""A saturation so long after an alert began is what it announced."""
BEFORE = 30 * MINUTE
"""An alert that was over so long before a saturation has announced nothing."""
CLOSE = 0.9
"""Of the capacity: an alert at such a load was no saturation, but close to one."""

Span = tuple[float, float]
"""From when to when, in seconds of the month."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """A time for which more was asked for than the server can do."""

    start: float
    end: float
    rise: float
    """For how long the load had been above 80 % before, s."""


def saturations(asked: Array) -> list[Saturation]:
    """Find them in what is asked for by the minute, as a share of what can be done."""
    smooth = smoothed(asked)
    found: list[list[int]] = []
    for minute in np.flatnonzero(smooth >= 1):
        if found and minute - found[-1][1] <= APART:
            found[-1][1] = int(minute)
        else:
            found.append([int(minute), int(minute)])
    lasting = [(a, b) for a, b in found if np.count_nonzero(smooth[a : b + 1] >= 1) >= LEAST]
    return [Saturation(MINUTE * a, MINUTE * (b + 1), MINUTE * _rise(smooth, a)) for a, b in lasting]


def smoothed(asked: Array) -> Array:
    """The mean of the minutes around each."""
    return np.convolve(asked, np.ones(SMOOTH) / SMOOTH, "same")


def _rise(smooth: Array, start: int) -> int:
    below = np.flatnonzero(smooth[:start] < RISEN_FROM)
    return start - (int(below[-1]) if below.size else 0)


@dataclass(slots=True)
class Score:
    """What was counted of one set of alerts."""

    leads: list[float] = field(default_factory=list)
    """How long before each saturation that rose slowly an alert fired, s; -inf: not at all."""
    very_slow: list[float] = field(default_factory=list)
    """Of these, those whose load rose for more than half an hour."""
    fast: list[float] = field(default_factory=list)
    """The same of those that rose fast."""
    resets: list[float] = field(default_factory=list)
    """How long after the end of a saturation the alert ended, s."""
    true: float = 0.0
    false: float = 0.0
    """Alerts without a saturation: as many as there would be, had all days been played."""
    close: float = 0.0
    """Those of the false ones at whose time 90 % of the capacity or more was asked for."""

    def add(
        self,
        fired: Sequence[Span],
        known: Iterable[Saturation],
        asked: Array,
        played: Span,
        weight: float,
    ) -> None:
        """Judge the alerts of one stretch that was played and stands for so many like it."""
        met = [s for s in known if played[0] + HOUR <= s.start <= played[1]]
        matched: set[Span] = set()
        for one in met:
            its = [f for f in fired if f[0] <= one.end and f[1] >= one.start - BEFORE]
            lead = max((one.start - f[0] for f in its), default=-np.inf)
            (self.leads if one.rise > SLOWLY else self.fast).append(lead)
            if one.rise > VERY_SLOWLY:
                self.very_slow.append(lead)
            matched |= set(its)
            ended = max((f[1] for f in its), default=np.nan)
            if ended < played[1]:
                self.resets.append(ended - one.end)
        self.true += weight * len(matched)
        for alert in fired:
            if alert in matched or _announces(alert, known):
                continue
            until = int((max(alert[1], alert[0] + HOUR)) / MINUTE)
            most = smoothed(asked)[max(int(alert[0] / MINUTE) - 10, 0) : until].max()
            self.false += weight
            self.close += weight * (most >= CLOSE)

    def row(self, name: str, months: float) -> str:
        """A line of the table."""
        leads, fast = np.array(self.leads), np.array(self.fast)
        very_slow = np.array(self.very_slow)
        fired = self.true + self.false
        far = self.false - self.close
        cells = [
            name,
            _share(leads >= SLOWLY),
            _share(very_slow >= SLOWLY),
            _share(leads > -np.inf),
            _share(fast > -np.inf),
            _minutes(leads),
            _minutes(fast),
            f"{self.true / fired:.0%}" if fired else "–",
            f"{self.false / months:.1f}",
            f"{far / months:.1f}",
            _minutes(np.array(self.resets)),
        ]
        return "| " + " | ".join(cells) + " |"


HEADS = (
    "alerts",
    "announced ≥ 10 min before",
    "of very slow ones",
    "noticed at all",
    "fast ones noticed",
    "median lead, min",
    "of fast ones",
    "precision",
    "false a month",
    "below 90 %",
    "reset, min",
)


def _announces(alert: Span, known: Iterable[Saturation]) -> bool:
    return any(alert[0] <= s.end and s.start <= max(alert[1], alert[0] + AHEAD) for s in known)


def _share(holds: NDArray[np.bool_]) -> str:
    return f"{np.count_nonzero(holds)}/{holds.size}" if holds.size else "–"


def _minutes(leads: Array) -> str:
    return f"{np.median(leads) / MINUTE:.0f}" if leads.size else "–"
