"""The weekly pattern of daily values: how each day of the week differs from the others."""

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array
from models.robust_regression import medians
from models.shared_constants import MIN_NOISE

WEEK_DAYS = 7
HALF_WEEK_DAYS = WEEK_DAYS // 2


def days_until_now(count: int) -> Array:
    """Number the days, oldest first, shape (count,); the last one is 0."""
    return np.arange(1.0 - count, 1.0)


def day_of_week(day: Array) -> NDArray[np.intp]:
    """Number the days of the week, 0 to 6, shape as given; day 0, the latest, is a 0."""
    return np.mod(np.round(day), WEEK_DAYS).astype(np.intp)


def week_factors(peaks: Array) -> Array:
    """Compute a day's peak over the median of the seven days around it (X-11's first step).

    peaks: shape (days,), the last one of day 0, NaN where not known. Returns shape (7,), by
    `day_of_week`, with a geometric mean of 1; with less than two weeks some of these have 1. A day
    counts as at least 1 % of the median, because one without load has no logarithm.
    """
    logs = np.log(np.maximum(peaks, MIN_NOISE * float(medians(peaks))))
    ratios = np.full(len(peaks), np.nan)
    if len(peaks) >= WEEK_DAYS:
        around = np.lib.stride_tricks.sliding_window_view(logs, WEEK_DAYS)
        full = np.isfinite(around).sum(axis=1) >= WEEK_DAYS - 1
        inner = slice(HALF_WEEK_DAYS, len(peaks) - HALF_WEEK_DAYS)
        ratios[inner] = np.where(full, logs[inner] - medians(around, 1), np.nan)
    place = day_of_week(days_until_now(len(peaks)))
    usual = medians(np.array([np.where(place == k, ratios, np.nan) for k in range(WEEK_DAYS)]), 1)
    found = np.nan_to_num(usual)
    factors: Array = np.exp(found - found.mean())
    return factors


def week_contrasts(day: Array) -> Array:
    """Return columns that code the days of the week, shape (days, 6); each sums to 0 in a week."""
    place = day_of_week(day)
    last = (place == WEEK_DAYS - 1)[:, None]
    columns: Array = (place[:, None] == np.arange(WEEK_DAYS - 1)).astype(np.float64) - last
    return columns
