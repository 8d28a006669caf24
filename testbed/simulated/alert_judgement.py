"""Alerts judged as the SRE workbook does: recall, precision, detection time, reset time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from models.arrays import Array, Mask
from testbed.simulated.server_months import HOUR, MINUTE

SMOOTH = 5
"""Minutes over which what is asked for is averaged."""
APART = 60
"""Minutes below the capacity that part two saturations."""
MIN_MINUTES = 5
"""Minutes that a saturation lasts at least."""
RISEN_FROM = 0.8
"""Of the capacity: from there on the time counts that a load took to rise."""
SLOWLY = 10 * MINUTE
TWO_SIDED_95 = 1.96
"""Standard errors from the middle to either end of a 95 % interval."""
AHEAD = 2 * HOUR
"""A saturation so long after an alert began is what it announced."""
BEFORE = 30 * MINUTE
"""An alert that was over so long before a saturation has announced nothing."""
CLOSE = 0.9
"""Of the capacity: an alert at such a load was no saturation, but close to one."""

MonthSpan = tuple[float, float]
"""From when to when, in seconds of the month."""


@dataclass(frozen=True, slots=True)
class SaturationPeriod:
    """A time for which the demand exceeded the capacity."""

    start: float
    end: float
    rise: float
    """For how long the load had been above 80 % before, s."""
    is_first: bool = False
    """Of its month."""
    fell: bool = False
    """The load alone would not have come to the capacity that there was ten minutes before."""

    @property
    def is_fast(self) -> bool:
        """Whether no alert can come in advance: the load rose in minutes, or the capacity fell."""
        return self.fell or self.rise <= SLOWLY


def saturations(asked: Array, room: Array | None = None) -> list[SaturationPeriod]:
    """Find them in the demand by the minute, as a share of the capacity.

    room: what can be done, in any unit, of the same shape; None: always the same.
    """
    smooth = smoothed(asked)
    room = np.ones_like(asked) if room is None else room
    found: list[list[int]] = []
    for minute in np.flatnonzero(smooth >= 1):
        if found and minute - found[-1][1] <= APART:
            found[-1][1] = int(minute)
        else:
            found.append([int(minute), int(minute)])
    lasting = [(a, b) for a, b in found if np.count_nonzero(smooth[a : b + 1] >= 1) >= MIN_MINUTES]
    return [
        SaturationPeriod(
            MINUTE * a,
            MINUTE * (b + 1),
            MINUTE * _rise(smooth, a),
            is_first=k == 0,
            fell=_fell(asked * room, room, a, b),
        )
        for k, (a, b) in enumerate(lasting)
    ]


def smoothed(asked: Array) -> Array:
    """Average the minutes around each."""
    return np.convolve(asked, np.ones(SMOOTH) / SMOOTH, "same")


def _rise(smooth: Array, start: int) -> int:
    below = np.flatnonzero(smooth[:start] < RISEN_FROM)
    return start - (int(below[-1]) if below.size else 0)


def _fell(load: Array, room: Array, start: int, end: int) -> bool:
    """Return whether the capacity of ten minutes before would be met for less than five minutes."""
    before = max(start - int(SLOWLY / MINUTE) - SMOOTH // 2 - 1, 0)
    met = np.count_nonzero(smoothed(load)[start : end + 1] >= room[before])
    return bool(met < min(MIN_MINUTES, end + 1 - start))


@dataclass(slots=True)
class AlertScore:
    """The counts of one set of alerts."""

    leads: list[float] = field(default_factory=list)
    """How long before each saturation that rose slowly an alert fired, s; -inf: not at all."""
    firsts: list[float] = field(default_factory=list)
    """Of these, the first ones of a month, whose load had never been seen."""
    fast: list[float] = field(default_factory=list)
    """The same of those that rose fast."""
    resets: list[float] = field(default_factory=list)
    """How long after the end of a saturation the alert ended, s."""
    counted: dict[str, set[float]] = field(default_factory=dict)
    """When the saturations of each month began that were counted; stretches may overlap."""
    true: float = 0.0
    false: dict[str, float] = field(default_factory=dict)
    """Alerts without a saturation by month: as many as there would be, had all days been played."""
    close: float = 0.0
    """Those of the false ones at whose time 90 % of the capacity or more was asked for."""

    def add(
        self,
        fired: Sequence[MonthSpan],
        known: Iterable[SaturationPeriod],
        asked: Array,
        played: MonthSpan,
        weight: float,
        of: str = "",
    ) -> None:
        """Judge the alerts of one part of a month, which represents that many such parts."""
        met = [s for s in known if played[0] + HOUR <= s.start <= played[1]]
        counted = self.counted.setdefault(of, set())
        matched: set[MonthSpan] = set()
        for one in met:
            its = [f for f in fired if f[0] <= one.end and f[1] >= one.start - BEFORE]
            matched |= set(its)
            if one.start in counted:
                continue
            counted.add(one.start)
            lead = max((one.start - f[0] for f in its), default=-np.inf)
            (self.fast if one.is_fast else self.leads).append(lead)
            if one.is_first and not one.is_fast:
                self.firsts.append(lead)
            ended = max((f[1] for f in its), default=np.nan)
            if ended < played[1]:
                self.resets.append(ended - one.end)
        self.true += weight * len(matched)
        for alert in fired:
            if alert in matched or _announces(alert, known):
                continue
            until = int((max(alert[1], alert[0] + HOUR)) / MINUTE)
            most = smoothed(asked)[max(int(alert[0] / MINUTE) - 10, 0) : until].max()
            self.false[of] = self.false.get(of, 0.0) + weight
            self.close += weight * (most >= CLOSE)

    def row(self, name: str, months: int) -> str:
        """Format a line of the table."""
        leads, fast = np.array(self.leads), np.array(self.fast)
        firsts, by_month = np.array(self.firsts), np.zeros(months)
        by_month[: len(self.false)] = list(self.false.values())
        false, fired = by_month.sum(), self.true + by_month.sum()
        error = by_month.std() / np.sqrt(months)
        cells = [
            name,
            f"{_share(leads >= SLOWLY)}{_interval(leads >= SLOWLY)}",
            _share(firsts >= SLOWLY),
            _share(leads > -np.inf),
            _share(fast > -np.inf),
            _minutes(leads),
            _minutes(fast),
            f"{self.true / fired:.0%}" if fired else "–",
            f"{false / months:.2f} ± {error:.2f}",
            f"{(false - self.close) / months:.2f}",
            _minutes(np.array(self.resets)),
        ]
        return "| " + " | ".join(cells) + " |"


HEADS = (
    "alerts",
    "announced ≥ 10 min before",
    "of the first of a month",
    "noticed at all",
    "fast ones noticed",
    "median lead, min",
    "of fast ones",
    "precision",
    "false a month",
    "below 90 %",
    "reset, min",
)


def _announces(alert: MonthSpan, known: Iterable[SaturationPeriod]) -> bool:
    return any(alert[0] <= s.end and s.start <= max(alert[1], alert[0] + AHEAD) for s in known)


def _share(holds: Mask) -> str:
    return f"{np.count_nonzero(holds)}/{holds.size}" if holds.size else "–"


def _interval(holds: Mask) -> str:
    """The 95 % interval of a share (E. B. Wilson, 1927)."""
    if not holds.size:
        return ""
    n, z = holds.size, TWO_SIDED_95
    middle = (holds.mean() + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(holds.mean() * (1 - holds.mean()) / n + (z / (2 * n)) ** 2)
    return f" ({middle - half:.0%} to {middle + half:.0%})"


def _minutes(leads: Array) -> str:
    return f"{np.median(leads) / MINUTE:.0f}" if leads.size else "–"
