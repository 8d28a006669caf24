"""The growth of daily peaks: a straight line and changes of level, without the weekly pattern.

    √(peak(d) / week(d mod 7)) = level + growth·d + Σ step·[d < k] + noise

d counts days, 0 is the latest. The square root lies between a load that grows in proportion and
one that grows by as much each day (G. E. P. Box, D. R. Cox, 1964, with λ = 1/2). A launch looks
like growth and growth like a launch, so that three shapes are compared by the Bayesian
information criterion (G. Schwarz, Annals of Statistics 6, 1978): a line, no growth, and no growth
since one more change, a step or the end of a line. Each is fitted by Tukey's biweight
(`models/robust_regression.py`), which bursts and holidays hardly influence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

import numpy as np

from models.arrays import Array
from models.distribution_functions import student_cdf
from models.forecast.weekly_pattern import (
    HALF_WEEK_DAYS,
    WEEK_DAYS,
    day_of_week,
    days_until_now,
    week_contrasts,
    week_factors,
)
from models.numerics import CONFIDENCE, median
from models.robust_regression import LinearFit, fit_linear, mad, persistence_of
from models.shared_constants import MIN_NOISE

TREND_DAYS = 5 * WEEK_DAYS
"""Days that a trend is based on: older ones say less about how it continues. 28 miss slow growth,
and 42 report growth that has stopped (`bench/forecast.py`)."""
MIN_CRITERION_GAIN = 12.0
"""By how much a change of level must improve the criterion; from 8 to 18 little changes."""
MIN_SIDE_DAYS = HALF_WEEK_DAYS
"""Known days on each side of a change of level; fewer may be a burst."""
SETTLING_DAYS = 2 * WEEK_DAYS
"""Days after which growth, or its end, is visible: fewer do not distinguish it from the week's
pattern."""
OUTLIER_DEVIATIONS = 3.0
"""Deviations to which the error of a day is limited in a comparison. With 4.7, of a real series of
nine years one false growth more is announced, and four that come are not."""
GROWTH_INDEX = WEEK_DAYS
"""Where the growth is among the coefficients, after the level and the week."""


class TrendShape(StrEnum):
    """The shape of a load's trend."""

    GROWTH = "growth"
    LEVEL = "level"
    CHANGE = "change"  # no growth now: one more step of the level, or growth that has ended


@dataclass(frozen=True, eq=False, slots=True)
class Candidate:
    """One shape of the trend and its probability."""

    shape: TrendShape
    weight: float
    fit: LinearFit
    """The fit of the root: the level now, six corrections of the week, and the growth per day where
    there is one; then the steps."""
    residuals: Array
    """Shares of the fitted root, as great as those of a new day, shape (known days,)."""


@dataclass(frozen=True, eq=False, slots=True)
class Trend:
    """The trend of daily peaks."""

    candidates: tuple[Candidate, ...]
    """The first is that of `TrendShape.GROWTH`."""
    days: int
    """The number of known days."""
    week: Array
    """Factors of the days of the week, shape (7,)."""
    scale: float
    """Queries/s; roots are of peaks over it and the week's factor."""

    @property
    def is_growing(self) -> bool:
        """Whether the load is said to grow."""
        return self.growth_probability >= CONFIDENCE

    @property
    def growth_per_day(self) -> float:
        """The growth of the line per day, as a share of the peak now."""
        line = self.candidates[0].fit.coefficients
        return float(2 * line[GROWTH_INDEX] / max(line[0], MIN_NOISE))

    @property
    def growth_probability(self) -> float:
        """The probability that the load grows."""
        return sum(
            c.weight * _positive_probability(c.fit)
            for c in self.candidates
            if c.shape is TrendShape.GROWTH
        )


@dataclass(frozen=True, eq=False, slots=True)
class _Days:
    """Known days and the roots of their peaks, both of shape (known days,)."""

    day: Array
    root: Array

    def fit(self, design: Array) -> LinearFit:
        """Fit robustly; of each day of the week one more is known, which needs no correction.

        Without it a burst that moves its day of the week at first has all such days left out, and
        nothing would be known of that day. The covariance allows for the number of coefficients.
        """
        usual = np.zeros((WEEK_DAYS, design.shape[1]))
        usual[:, 1:WEEK_DAYS] = week_contrasts(np.arange(WEEK_DAYS, dtype=np.float64))
        roots = np.append(self.root, np.zeros(WEEK_DAYS))
        found = fit_linear(np.vstack((design, usual)), roots, np.ones(len(roots)), MIN_NOISE)
        left = found.freedom / (found.freedom + design.shape[1])
        return found._replace(covariance=found.covariance / left)

    def residuals(self, design: Array) -> Array:
        left: Array = self.root - design @ self.fit(design).coefficients
        return left

    def steps(self, changes: Sequence[int]) -> Array:
        """Return a column for each change, 1 before it: the level is that of now."""
        columns: Array = (self.day[:, None] < np.array(changes, dtype=np.float64)).astype(float)
        return columns

    def bends(self, changes: Sequence[int]) -> Array:
        """Return a column for each change, a line that ends at it: there is no growth since."""
        columns: Array = np.minimum(self.day[:, None] - np.array(changes, dtype=np.float64), 0.0)
        return columns / len(self.day)

    def places(self, taken: Sequence[int]) -> list[int]:
        """List the days at which the trend may change, besides those that are taken."""
        inner = self.day[MIN_SIDE_DAYS : len(self.day) - MIN_SIDE_DAYS + 1]
        return [int(k) for k in inner if all(abs(k - other) >= MIN_SIDE_DAYS for other in taken)]


def fit_trend(peaks: Array) -> Trend:
    """Fit the latest daily peaks (queries/s), shape (days,), the last one now, NaN: not known.

    At least two weeks: with fewer the weekly pattern cannot be distinguished from growth.
    """
    peaks = peaks[-TREND_DAYS:]
    known = np.isfinite(peaks)
    week, scale = week_factors(peaks), median(peaks[known])
    day = days_until_now(len(peaks))[known]
    seen = _Days(day, np.sqrt(peaks[known] / week[day_of_week(day)] / scale))
    base = np.column_stack((np.ones_like(day), week_contrasts(day)))
    line = np.column_stack((base, day))
    changes = _find_changes(seen, line)
    level = np.column_stack((base, seen.steps(changes)))
    designs = {
        TrendShape.GROWTH: np.column_stack((line, seen.steps(changes))),
        TrendShape.LEVEL: level,
    }
    places = seen.places(changes)
    if places:
        ends = [place for place in places if place <= -SETTLING_DAYS]
        others = np.column_stack((seen.steps(places), seen.bends(ends)))
        best = int(np.argmax(_gains(seen, level, others)))
        designs[TrendShape.CHANGE] = np.column_stack((level, others[:, best]))
    weights = _shape_probabilities(seen, designs)
    candidates = (_candidate(seen, c, weights[c], design) for c, design in designs.items())
    return Trend(tuple(candidates), len(day), week, scale)


def _candidate(seen: _Days, shape: TrendShape, weight: float, design: Array) -> Candidate:
    fit = seen.fit(design)
    fitted = np.maximum(design @ fit.coefficients, MIN_NOISE)
    days, coefficients = design.shape
    spread = np.sqrt(days / max(days - coefficients, 1))  # a fit comes nearer than a new day does
    return Candidate(shape, weight, fit, spread * (seen.root / fitted - 1))


def _find_changes(seen: _Days, line: Array) -> list[int]:
    """Find changes of level, one after the other, while each clearly improves the line.

    Where none does alone, two may: holidays begin and end, and one step hardly describes them.
    """
    found: list[int] = []
    design = line
    while new := _next_changes(seen, design, found):
        found += new
        design = np.column_stack((design, seen.steps(new)))
    return found


def _next_changes(seen: _Days, design: Array, found: Sequence[int]) -> list[int]:
    """Find the next change of level, or the two of a temporary one; none if it is not clear."""
    places = seen.places(found)
    single = [[place] for place in places]
    pairs = [[a, b] for a, b in combinations(places, 2) if b - a >= MIN_SIDE_DAYS]
    for candidates in (single, pairs):
        if candidates:
            first, last = (seen.steps([each[end] for each in candidates]) for end in (0, -1))
            columns = first if candidates is single else last - first
            best = candidates[int(np.argmax(_gains(seen, design, columns)))]
            if _is_clearly_better(seen, design, best):
                return best
    return []


def _is_clearly_better(seen: _Days, design: Array, changes: Sequence[int]) -> bool:
    """Return whether these changes, each a place and a step, clearly improve the criterion."""
    before = seen.residuals(design)
    after = seen.residuals(np.column_stack((design, seen.steps(changes))))
    bound, effective = _residual_bound(after), _effective_days(after)
    improved = effective * (_ln_mean_square(before, bound) - _ln_mean_square(after, bound))
    return bool(improved >= MIN_CRITERION_GAIN + 2 * len(changes) * np.log(len(after)))


def _gains(seen: _Days, design: Array, columns: Array) -> Array:
    """Compute by how much each further column would lower the design's sum of squares."""
    residuals = seen.residuals(design)
    bound = _residual_bound(residuals)
    orthogonal, _ = np.linalg.qr(design)
    columns = columns - orthogonal @ (orthogonal.T @ columns)
    bounded = np.clip(residuals, -bound, bound)
    bounded = bounded - orthogonal @ (orthogonal.T @ bounded)
    squares = np.maximum(np.sum(columns**2, axis=0), MIN_NOISE**2)
    gains: Array = (bounded @ columns) ** 2 / squares
    return gains


def _shape_probabilities(
    seen: _Days, designs: Mapping[TrendShape, Array]
) -> dict[TrendShape, float]:
    """Compute the probability of each shape; correlated residuals count as fewer."""
    residuals = {shape: seen.residuals(design) for shape, design in designs.items()}
    bound = _residual_bound(residuals[TrendShape.GROWTH])
    effective = _effective_days(residuals[TrendShape.GROWTH])
    scores = {
        shape: effective * _ln_mean_square(residuals[shape], bound)
        + np.log(max(effective, 2.0)) * (design.shape[1] + (shape is TrendShape.CHANGE))
        for shape, design in designs.items()  # the place of the change is one parameter more
    }
    best = min(scores.values())
    odds = {shape: float(np.exp(-(score - best) / 2)) for shape, score in scores.items()}
    return {shape: odd / sum(odds.values()) for shape, odd in odds.items()}


def _effective_days(residuals: Array) -> float:
    """Compute the effective number of days: correlated ones, beyond the noise floor, are fewer."""
    squares = np.sum(residuals**2) + len(residuals) * MIN_NOISE**2
    alike = persistence_of(np.sum(residuals[1:] * residuals[:-1]), squares)
    return len(residuals) / float(alike)


def _ln_mean_square(residuals: Array, bound: float) -> float:
    """Compute the logarithm of the mean square, to which a day adds at most that of the bound."""
    return float(np.log(np.mean(np.minimum(residuals**2, bound**2)) + MIN_NOISE**2))


def _residual_bound(residuals: Array) -> float:
    return OUTLIER_DEVIATIONS * max(mad(residuals), MIN_NOISE)


def _positive_probability(fit: LinearFit) -> float:
    """Compute the probability that the growth is positive, by Student's distribution."""
    t = fit.coefficients[GROWTH_INDEX] / np.sqrt(fit.covariance[GROWTH_INDEX, GROWTH_INDEX])
    return float(student_cdf(np.array(t), fit.freedom))
