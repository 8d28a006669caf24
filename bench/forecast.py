"""Backtest of the forecast of the load: when is the capacity met, beside simpler rules.

    python bench/forecast.py [--months 40] [--seed 2000] [--series FILE.csv ...]

Simulated months (`testbed/simulated/load_histories.py`), and public series where their files are
given: a line `time,load` each, Unix seconds and a rate. The model's constants were chosen on seeds
0 to 19, and one course was added after seeds 1000 to 1029; the table in docs/forecast.md is of 2000
to 2039.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.stats import norm

from models.arrays import Array
from models.capacity.distribution import Distribution
from models.forecast.daily_peaks import daily_peaks
from models.forecast.hourly_means import hourly_means
from models.forecast.time_to_saturation import (
    DAY_SECONDS,
    LoadForecast,
    Saturation,
    forecast_load,
    saturation,
)
from testbed.simulated.forecast_interval import peak_interval
from testbed.simulated.load_histories import AHEAD, HOURS, SCENARIOS, LoadHistory, load_history

CAP = 30.0
"""Days; an error is at most so large, and so large where a rule gives no time or a false one."""
AT = (1, 7, 30)
ForecastRule = Callable[[Array, float], float | None]
"""Hourly means and a capacity to days until it is met, None: not within the days looked at."""


def last_line(days: int) -> ForecastRule:
    """`predict_linear` over the last days: where a least-squares line reaches the capacity."""

    def rule(hours: Array, capacity: float) -> float | None:
        y = hours[-days * HOURS :]
        known = np.isfinite(y)
        if known.sum() < 3:
            return None
        t = (np.arange(len(y)) - len(y)) / HOURS
        slope, level = np.polyfit(t[known], y[known], 1)
        if level >= capacity:
            return 0.0
        return _within((capacity - level) / slope) if slope > 0 else None

    return rule


def peaks_line(hours: Array, capacity: float) -> float | None:
    """The same through the daily peaks of the last four weeks."""
    peaks = daily_peaks(hours)[-28:]
    known = np.isfinite(peaks)
    day = np.arange(len(peaks)) - (len(peaks) - 1.0)
    slope, level = np.polyfit(day[known], peaks[known], 1)
    if level >= capacity:
        return 0.0
    return _within((capacity - level) / slope) if slope > 0 else None


def seasonal_naive(hours: Array, capacity: float, *, drift: bool = False) -> float | None:
    """The last week again and again; with `drift` as much higher as it is than the one before."""
    week, before = hours[-168:], hours[-336:-168]
    if len(before) < 168:
        return None
    rise = np.nanmean(week) - np.nanmean(before) if drift else 0.0
    for place in range(AHEAD * HOURS):
        value = week[place % 168] + rise * (place // 168 + 1)
        if value >= capacity:
            return _within((place + 1) / HOURS)
    return None


def _within(days: float) -> float | None:
    return days if days <= AHEAD else None


RULES: dict[str, ForecastRule] = {
    "line 1 d": last_line(1),
    "line 7 d": last_line(7),
    "line 28 d": last_line(28),
    "peaks 28 d": peaks_line,
    "naive": seasonal_naive,
    "drift": lambda hours, capacity: seasonal_naive(hours, capacity, drift=True),
}


@dataclass
class ForecastScore:
    """What was counted of one scenario."""

    errors: dict[str, list[float]] = field(default_factory=dict)
    false: dict[str, int] = field(default_factory=dict)
    missed: dict[str, int] = field(default_factory=dict)
    covered: dict[int, list[bool]] = field(default_factory=dict)
    bounds: list[bool] = field(default_factory=list)
    crossings: int = 0
    months: int = 0
    calibration: dict[int, list[tuple[float, bool]]] = field(default_factory=dict)

    def add(self, known: LoadHistory, seed: int) -> None:
        """Judge all rules on one month."""
        rng = np.random.default_rng([seed, 7])
        capacity = _capacity(known, rng)
        limit = _estimate(capacity, float(np.nanmax(known.seen)), rng)
        forecast = forecast_load(known.seen)
        answer = saturation(forecast, limit)
        days = answer.seconds / DAY_SECONDS if answer.seconds is not None else None
        truth = _crossing(known.ahead, capacity)
        self.months += 1
        self.crossings += truth is not None
        self._judge("forecast", _within(days) if days is not None else None, truth)
        for name, rule in RULES.items():
            self._judge(name, rule(known.seen, limit.median), truth)
        self._check_intervals(forecast, answer, known, truth)

    def _judge(self, name: str, days: float | None, truth: float | None) -> None:
        errors = self.errors.setdefault(name, [])
        self.false[name] = self.false.get(name, 0) + (truth is None and days is not None)
        self.missed[name] = self.missed.get(name, 0) + (truth is not None and days is None)
        if truth is not None:
            errors.append(CAP if days is None else min(abs(days - truth), CAP))

    def _check_intervals(
        self, forecast: LoadForecast, answer: Saturation, known: LoadHistory, truth: float | None
    ) -> None:
        peaks = known.ahead.reshape(AHEAD, HOURS).max(axis=1)
        for day in AT:
            interval = peak_interval(forecast, day)
            if interval is not None:
                inside = interval[0] <= peaks[day - 1] <= interval[1]
                self.covered.setdefault(day, []).append(inside)
        for day, probability in answer.probability:
            came = truth is not None and truth <= day
            self.calibration.setdefault(day, []).append((probability, came))
        if answer.seconds is not None and truth is not None:
            high = np.inf if answer.upper is None else answer.upper
            self.bounds.append((answer.lower or 0.0) <= truth * DAY_SECONDS <= high)


def _capacity(known: LoadHistory, rng: np.random.Generator) -> float:
    """Of a load that grows, its typical peak 2 to 40 days ahead; else above its highest by far."""
    if known.grows:
        later = float(np.maximum.accumulate(known.typical_peak)[rng.integers(2, 40)])
        return max(later, 1.02 * float(np.nanmax(known.seen)))
    usual = max(float(known.typical_peak[:7].max()), float(np.nanmax(known.seen)))
    return usual * float(rng.uniform(1.25, 2.0))


def _estimate(capacity: float, served: float, rng: np.random.Generator) -> Distribution:
    """A capacity as it may be known: off by 1 to 10 %, and above what was served already."""
    spread = rng.uniform(0.01, 0.1)
    middle = 0.0
    while middle < served:
        middle = capacity * float(np.exp(spread * rng.standard_normal()))
    refuted = norm.cdf(np.log(served / middle) / spread)
    quantiles = norm.ppf(refuted + (1 - refuted) * np.array([0.5, 0.05, 0.95]))
    value, lower, upper = (middle * np.exp(spread * quantiles)).tolist()
    return Distribution.of_quantiles(lower, value, upper)


def _crossing(ahead: Array, capacity: float) -> float | None:
    """After how many days the load first reaches the capacity."""
    over = np.flatnonzero(ahead >= capacity)
    return (over[0] + 1) / HOURS if over.size else None


def table(scores: dict[str, ForecastScore]) -> Iterable[str]:
    """One row for each scenario: median errors in days, false announcements, coverage."""
    names = ["forecast", *RULES]
    heads = [f"{name}" for name in names]
    yield "| scenario | met | " + " | ".join(heads) + " | 1 d | 7 d | 30 d | bounds |"
    yield "|---" * (len(names) + 6) + "|"
    for scenario, score in scores.items():
        cells = [_cell(score, name) for name in names]
        covered = [_percent(score.covered.get(day, [])) for day in AT]
        met = f"{score.crossings}/{score.months}"
        row = [scenario, met, *cells, *covered, _percent(score.bounds)]
        yield "| " + " | ".join(row) + " |"


def _cell(score: ForecastScore, name: str) -> str:
    """Median and mean error, how many were missed and how many false."""
    errors = score.errors[name]
    wrong = f"{score.missed[name]}/{score.false[name]}"
    return f"{np.median(errors):.1f} {np.mean(errors):.1f} {wrong}" if errors else f"– {wrong}"


def _percent(found: Sequence[bool]) -> str:
    return f"{100 * np.mean(found):.0f}%" if found else "–"


def _calibration(scores: Iterable[ForecastScore]) -> Iterable[str]:
    """How often the limit was reached, of the months that were given such a probability."""
    pairs: dict[int, list[tuple[float, bool]]] = {}
    for score in scores:
        for day, found in score.calibration.items():
            pairs.setdefault(day, []).extend(found)
    edges = (0.0, 0.05, 0.2, 0.5, 0.8, 0.95, 1.0001)
    for day, found in sorted(pairs.items()):
        p, came = np.array([x for x, _ in found]), np.array([x for _, x in found])
        parts = []
        for low, high in pairwise(edges):
            inside = (p >= low) & (p < high)
            if inside.any():
                said, met = 100 * p[inside].mean(), 100 * came[inside].mean()
                parts.append(f"{said:.0f}→{met:.0f}% ({inside.sum()})")
        yield f"within {day} d: " + ", ".join(parts)


def read_series(path: Path) -> Array:
    """A series as hourly means."""
    rows = np.genfromtxt(path, delimiter=",", skip_header=1, usecols=(0, 1))
    at, rate = rows[:, 0], rows[:, 1]
    step = float(np.median(np.diff(at)))
    return hourly_means(at + step, np.full(len(at), step), rate, float(at[-1]) + step)


def public_months(path: Path) -> Iterable[LoadHistory]:
    """Every week of a series as now: eight weeks before it, and what came after."""
    hours = read_series(path)
    for now in range(56 * HOURS, len(hours) - AHEAD * HOURS + 1, 7 * HOURS):
        ahead = hours[now : now + AHEAD * HOURS]
        if np.isfinite(ahead).all():
            peaks = ahead.reshape(AHEAD, HOURS).max(axis=1)
            yield LoadHistory(path.stem, hours[now - 56 * HOURS : now], ahead, True, peaks)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--months", type=int, default=40, help="of each scenario")
    parser.add_argument("--seed", type=int, default=2000, help="of the first month")
    parser.add_argument("--series", type=Path, nargs="*", default=[], help="CSV files: time,load")
    args = parser.parse_args()
    scores: dict[str, ForecastScore] = {}
    started = time.process_time()
    for name in SCENARIOS:
        for seed in range(args.seed, args.seed + args.months):
            scores.setdefault(name, ForecastScore()).add(load_history(name, seed), seed)
    for path in args.series:
        for seed, known in enumerate(public_months(path)):
            scores.setdefault(path.stem, ForecastScore()).add(known, seed)
    print("\n".join(table(scores)))
    print("\n".join(_calibration(scores.values())))
    print(f"{time.process_time() - started:.0f} s of CPU")


if __name__ == "__main__":
    main()
