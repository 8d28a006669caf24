"""The possible rise of a load within the next hour, from its rises at this time on earlier days.

The usual rise at a time of day is taken from the days before, as a ratio, so that it applies to
higher and lower days alike. Moments at which the load had risen as much as now count most: what
has risen already, as by a nightly job or in the morning, does not rise again. A rise that those
days do not explain may be chance, or something new. After an outage the load only returns to that
of the day before. People follow their clocks: days before a change to or from summer time are
compared an hour later or earlier, as soon as the last hours show it.
Something new continues: by as much again as it has grown with a probability of one half, and by r
times as much with 1/(1 + r), which is all that is known of the end of a process observed at a
random time (J. R. Gott, *Nature* 363, 1993).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from models.arrays import Array
from models.capacity.distribution import Distribution
from models.forecast.daily_peaks import DAY_HOURS
from models.forecast.hourly_means import HOUR_SECONDS
from models.forecast.weekly_pattern import HALF_WEEK_DAYS, WEEK_DAYS
from models.numerics import NODE_COUNT, even_shares, median
from models.shared_constants import MIN_NOISE, MIN_POINTS

STEP_SECONDS = 300.0
"""Seconds of one mean: a saturation that lasts for less does not count."""
HORIZON_STEPS = (3, 6, 12)
"""Steps ahead: a quarter of an hour, half an hour, an hour."""
DAY_STEPS = int(DAY_HOURS * HOUR_SECONDS / STEP_SECONDS)
RISE_STEPS = 2
"""Steps over which a rise is measured."""
CLOCK_CHANGES = (int(HOUR_SECONDS / STEP_SECONDS), -int(HOUR_SECONDS / STEP_SECONDS))
"""Steps by which the days before a change of the clocks are later, or earlier, in Unix time."""
COURSE_STEPS = 2 * max(HORIZON_STEPS)
"""Steps whose course shows that the clocks have changed. With half, or one and a half times as
many, some mornings after a change still raise a page at 1.6 times the usual peak."""
CLEARLY_NEARER = 0.5
"""This share of the mean square is clearly less. With 0.3 the alerts are the same, with 0.15 a
sudden rise after a change of the clocks is recognised later."""
NEW_RISE_PROBABILITY = RISE_STEPS / (WEEK_DAYS * DAY_STEPS)
"""The prior probability that a rise is new: once in a week's rises."""
NEW_RISE_DEVIATION = 0.3
"""The deviation of a new rise, as a logarithm."""
RISE_END_PROBABILITIES = even_shares(NODE_COUNT)
"""Probabilities that a rise has ended by a time, each as probable."""
MEAN_AGE_STEPS = 0.5
"""The age of a mean over a step: a new rise has continued since."""
BANDWIDTH_FACTOR, BANDWIDTH_POWER = 1.06, -0.2
"""Of Silverman's rule of thumb for the bandwidth of a kernel (Density Estimation, 1986, 3.28)."""


@dataclass(frozen=True, eq=False, slots=True)
class Rise:
    """The possible rises of a load within a time, as logarithms of ratios."""

    usual: Array = field(repr=False)
    """Those on earlier days, shape (moments,)."""
    new_probability: float = 0.0
    """The probability of a new rise, which earlier days do not explain."""
    further_rises: Array = field(default_factory=lambda: np.zeros(1), repr=False)
    """By how much more the load then rises: equally probable values, shape (ways,)."""
    weights: Array | None = field(default=None, repr=False)
    """How much each of the usual rises counts, shape (moments,); None: all alike."""

    def saturation_probability(self, level: float, limit: Distribution) -> float:
        """Compute the probability that the load reaches the capacity; level is in queries/s."""
        as_usual = np.maximum(self.usual, 0.0)
        with_new = as_usual[:, None] + self.further_rises
        usual, new = (
            float(np.average(reached, weights=self.weights))
            for reached in (
                limit.at_most(level * np.exp(as_usual)),
                limit.at_most(level * np.exp(with_new)).mean(axis=1),
            )
        )
        return (1 - self.new_probability) * usual + self.new_probability * new


def possible_rises(means: Array, level: float, before: float | None) -> Mapping[int, Rise]:
    """Estimate the rises within each of `HORIZON_STEPS`.

    means: of the load (queries/s) in steps of five minutes up to about now, shape (steps,), NaN
    where not known; a step without a query counts as unknown, as it has no ratio. level and before:
    the mean of the last five minutes, and of those that ended `RISE_STEPS` steps earlier; None: not
    known. A load that only returns to where it was within the last hour, or at this time the day
    before, is no new rise.
    """
    logs = np.log(np.where(means > 0, means, np.nan))
    clock_shifts = _clock_shifts(logs)
    moments = _moments_of_earlier_days(len(means), clock_shifts)
    earlier = np.arange(RISE_STEPS, max(HORIZON_STEPS) + 1)
    changes = logs[moments] - np.fmax.reduce(logs[moments[:, None] - earlier], axis=1)
    highest = np.fmax.reduce(means[-max(HORIZON_STEPS) : -RISE_STEPS], initial=before or np.nan)
    day_before = _level_of_day_before(means, int(clock_shifts[0]))
    new, grown = _new_rise(level, float(highest), day_before, changes[np.isfinite(changes)])
    weights = _weights_of_moments(level, logs, moments)
    highest_ahead = np.fmax.accumulate(
        logs[moments[:, None] + np.arange(1, max(HORIZON_STEPS) + 1)], axis=1
    )
    rises = highest_ahead[:, np.array(HORIZON_STEPS) - 1] - logs[moments, None]
    # the same moments for all, so that a longer time is never less likely
    known = np.isfinite(rises[:, 0]) & (weights > 0)
    is_enough = np.count_nonzero(known) >= MIN_POINTS
    found = {}
    for steps, usual in zip(HORIZON_STEPS, rises.T, strict=True):
        further = grown * (
            np.minimum(RISE_END_PROBABILITIES / (1 - RISE_END_PROBABILITIES), steps / RISE_STEPS)
            + MEAN_AGE_STEPS / RISE_STEPS
        )
        found[steps] = Rise(
            usual[known] if is_enough else np.zeros(1),
            new,
            further,
            weights[known] if is_enough else None,
        )
    return found


def _level_of_day_before(means: Array, clock_shift: int) -> float:
    """Return the median load (queries/s) within half an hour of this time the day before, or NaN.

    means: shape (steps,), NaN where not known; clock_shift: of the day before.
    """
    same, around = len(means) - 1 - DAY_STEPS + clock_shift, HORIZON_STEPS[1]
    then = means[max(same - around, 0) : max(same + around + 1, 0)]
    known = then[then > 0]
    return median(known) if len(known) else np.nan


def _weights_of_moments(level: float, logs: Array, moments: NDArray[np.intp]) -> Array:
    """Weight moments by how far the load was above its mean of the hour and of the day before.

    logs: of the means, shape (steps,). Returns shape (moments,): the nearer both are to those of
    now, the more a moment counts; 0 where one is not known. The tails of a Cauchy kernel leave all
    moments alike where none is near. So they are while the last hour or day is not known.
    """
    distance, present = np.zeros(len(moments)), np.log(level) if level > 0 else np.nan
    for steps in (max(HORIZON_STEPS), DAY_STEPS):
        changes = logs[moments] - _means_before(logs, moments, steps)
        now = present - _means_before(logs, np.array([len(logs) - 1]), steps)[0]
        known = changes[np.isfinite(changes)]
        if not (np.isfinite(now) and len(known) >= MIN_POINTS):
            return np.ones(len(moments))
        deviation = max(float(known.std()), MIN_NOISE)
        bandwidth = BANDWIDTH_FACTOR * deviation * len(known) ** BANDWIDTH_POWER
        distance += ((changes - now) / bandwidth) ** 2
    return np.nan_to_num(1 / (1 + distance))


def _means_before(logs: Array, moments: NDArray[np.intp], steps: int) -> Array:
    """Compute the mean of the known values of so many steps before each moment.

    Shape (moments,), NaN where none is known.
    """
    known = np.isfinite(logs)
    sums = np.append(0.0, np.cumsum(np.where(known, logs, 0.0)))
    counts = np.append(0, np.cumsum(known))
    start = np.maximum(moments - steps, 0)
    count = counts[moments] - counts[start]
    total = sums[moments] - sums[start]
    mean: Array = np.divide(total, count, out=np.full(len(moments), np.nan), where=count > 0)
    return mean


def _new_rise(
    level: float, before: float, day_before: float, changes: Array
) -> tuple[float, float]:
    """Compute the probability of a new rise, and how high it is so far, as a logarithm.

    It is above the load before, as far as that usually changes, and above that of the day before.
    """
    if not 0 < before < level or len(changes) < MIN_POINTS:
        return 0.0, 0.0
    grown = float(np.fmin(np.log(level / before) - median(changes), np.log(level / day_before)))
    if grown <= 0:
        return 0.0, 0.0
    usual_deviation = max(float(changes.std()), MIN_NOISE)
    new_deviation = np.hypot(usual_deviation, NEW_RISE_DEVIATION)
    ln_ratio = (
        np.log(usual_deviation / new_deviation)
        + (grown / usual_deviation) ** 2 / 2
        - (grown / new_deviation) ** 2 / 2
    )
    odds_against = (1 - NEW_RISE_PROBABILITY) / NEW_RISE_PROBABILITY * np.exp(-ln_ratio)
    return float(1 / (1 + odds_against)), grown


def _clock_shifts(logs: Array) -> NDArray[np.intp]:
    """Tell by how many steps this time of day was later on each earlier day, latest day first.

    logs: of the means, shape (steps,). Returns shape (7,): one of `CLOCK_CHANGES` for days whose
    course then is clearly nearer to that of the last two hours, level apart; else 0. A single day
    is so by chance, several hardly ever.
    """
    found = np.zeros(WEEK_DAYS, dtype=np.intp)
    if len(logs) < DAY_STEPS:
        return found
    ends = (
        len(logs) - DAY_STEPS * np.arange(1, WEEK_DAYS + 1)[:, None] + np.array((0, *CLOCK_CHANGES))
    )
    steps = ends[:, :, None] + np.arange(-COURSE_STEPS, 0)
    then = np.where(steps >= 0, logs[np.maximum(steps, 0)], np.nan)
    unlike = _mean_squares(logs[-COURSE_STEPS:] - then)
    is_nearest = unlike <= np.fmin.reduce(unlike, axis=1)[:, None]
    is_clear = is_nearest & (unlike < CLEARLY_NEARER * unlike[:, :1])
    for column, shift in enumerate(CLOCK_CHANGES, 1):
        if np.count_nonzero(is_clear[:, column]) >= HALF_WEEK_DAYS:
            found[is_clear[:, column]] = shift
    return found


def _mean_squares(differences: Array) -> Array:
    """Compute the mean square about the mean, along the last axis, the noise's at least.

    NaN where less than half is known.
    """
    known = np.isfinite(differences)
    count = np.maximum(known.sum(axis=-1), 1)
    mean = np.where(known, differences, 0.0).sum(axis=-1) / count
    squares = np.where(known, (differences - mean[..., None]) ** 2, 0.0).sum(axis=-1) / count
    found: Array = np.where(count >= differences.shape[-1] / 2, squares + MIN_NOISE**2, np.nan)
    return found


def _moments_of_earlier_days(count: int, clock_shifts: NDArray[np.intp]) -> NDArray[np.intp]:
    """List the steps at about this time on earlier days, half an hour to either side.

    Those that have enough steps before and after. clock_shifts: of each day, latest first.
    """
    around = HORIZON_STEPS[1]
    same = count - 1 - DAY_STEPS * np.arange(1, WEEK_DAYS + 1) + clock_shifts
    found = (same[:, None] + np.arange(-around, around + 1)).ravel()
    kept: NDArray[np.intp] = found[
        (found >= max(HORIZON_STEPS)) & (found < count - max(HORIZON_STEPS))
    ]
    return kept
