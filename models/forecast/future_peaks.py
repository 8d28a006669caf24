"""Possible futures of daily peaks, drawn from the uncertainty of a trend.

A path takes one of the trend's shapes by its probability, and coefficients from their Student
distribution. Its growth differs a little from that of the days seen, its residuals are drawn from
theirs, and its level drifts. The random numbers are always the same, so that the same load gives
the same forecast.
"""

import numpy as np

from models.arrays import Array
from models.forecast.daily_peak_growth import GROWTH_INDEX, Candidate, Trend, TrendShape
from models.forecast.weekly_pattern import WEEK_DAYS, day_of_week, week_contrasts
from models.random_numbers import DRAW_COUNT, SEED, RandomNumbers
from models.robust_regression import LinearFit
from models.shared_constants import MIN_NOISE

GROWTH_SPREAD = 0.4
"""Deviation of future growth from that of the days seen, as a share of it. Without it 83 %
of the days a month ahead are within the 90 % interval, and half of those after growth that is in
proportion to the load."""
LEVEL_NOISE = 0.02
"""Deviation of a day's change of the level that no trend predicts, ln. With a half of it, or twice
as much, 88 and 96 % of the next days are within the 90 % interval, with it 89 %."""


def future_peaks(trend: Trend, days: int) -> Array:
    """Draw the peaks of the days ahead, queries/s, shape (paths, days)."""
    rng = RandomNumbers(SEED)
    shares = np.cumsum([candidate.weight for candidate in trend.candidates])
    ends = np.round(DRAW_COUNT * shares / shares[-1]).astype(int)
    counts = np.diff(ends, prepend=0)
    parts = [
        _draw_roots(candidate, count, days, rng)
        for candidate, count in zip(trend.candidates, counts, strict=True)
    ]
    week = trend.week[day_of_week(np.arange(1.0, days + 1))]
    walk = np.exp(_draw_random_walk(days, rng))
    peaks: Array = trend.scale * week * np.concatenate(parts) ** 2 * walk
    return peaks


def _draw_roots(c: Candidate, count: int, days: int, rng: RandomNumbers) -> Array:
    """Draw the roots of one shape, without the random walk, shape (count, days)."""
    drawn = _draw_coefficients(c.fit, count, rng)
    ahead = np.arange(1.0, days + 1)
    level = drawn[:, :1] + drawn[:, 1:WEEK_DAYS] @ week_contrasts(ahead).T
    if c.shape is TrendShape.GROWTH:
        pace = 1 + GROWTH_SPREAD * rng.normal((count, 1))
        level = level + drawn[:, GROWTH_INDEX, None] * pace * ahead
    residuals = np.sort(c.residuals)[:-1]  # without the highest, which happened only once
    drawn_residuals = residuals[rng.integers(len(residuals), (count, days))]
    roots: Array = np.maximum(level, MIN_NOISE) * np.maximum(1 + drawn_residuals, 0.0)
    return roots


def _draw_coefficients(fit: LinearFit, count: int, rng: RandomNumbers) -> Array:
    """Draw coefficients from their Student distribution, shape (count, p)."""
    values, vectors = np.linalg.eigh(fit.covariance)
    normal = rng.normal((count, len(values))) * np.sqrt(np.maximum(values, 0))
    chi = np.sqrt(rng.chi_square(fit.freedom, (count, 1)) / fit.freedom)
    drawn: Array = fit.coefficients + (normal @ vectors.T) / chi
    return drawn


def _draw_random_walk(days: int, rng: RandomNumbers) -> Array:
    """Draw random walks of the level, ln, shape (DRAW_COUNT, days)."""
    walk: Array = np.cumsum(LEVEL_NOISE * rng.normal((DRAW_COUNT, days)), axis=1)
    return walk
