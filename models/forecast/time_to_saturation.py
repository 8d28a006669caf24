"""The time until the load reaches the capacity, with the uncertainty of both.

P(saturated within h) = E[F(max of the daily peaks up to h)], the mean over possible futures, with
F the capacity's distribution.
"""

from dataclasses import dataclass, field

import numpy as np

from models.arrays import Array
from models.capacity.distribution import Distribution
from models.capacity.result import Capacity
from models.forecast.daily_peak_growth import SETTLING_DAYS, TREND_DAYS, Trend, fit_trend
from models.forecast.daily_peaks import DAY_HOURS, daily_peaks
from models.forecast.future_peaks import future_peaks
from models.forecast.hourly_means import HOUR_SECONDS
from models.numerics import QUANTILES, median
from models.reason_enum import ReasonEnum
from models.trust import Trust

DAY_SECONDS = DAY_HOURS * HOUR_SECONDS
"""Seconds."""
HORIZON_DAYS = (1, 7, 30)
"""Days within which the probability of saturation is given."""
MAX_DAYS_AHEAD = 3 * HORIZON_DAYS[-1]
"""The greatest number of days forecast; never more than twice the days seen."""


class ForecastReason(ReasonEnum):
    """Why there is no time to saturation."""

    HISTORY_TOO_SHORT = "history_too_short", "a forecast needs two weeks of load"
    NO_LOAD = "no_load", "there is no load to forecast"
    CAPACITY_UNKNOWN = "capacity_unknown", "the capacity is not known"
    NO_GROWTH = "no_growth", "the load is not clearly growing"
    TOO_FAR = "too_far", "the limit is further away than the history allows to forecast"


@dataclass(frozen=True, eq=False, slots=True)
class LoadForecast:
    """The daily peaks of the days ahead, or why there are none."""

    peaks: Array | None = field(repr=False, default=None)
    """Possible futures, queries/s, shape (paths, days); None: see `reason`."""
    now: float = 0.0
    """The load of the latest known hour of the last day, queries/s; 0: not known."""
    trend: Trend | None = field(repr=False, default=None)
    reason: ForecastReason | None = None


@dataclass(frozen=True, slots=True)
class Saturation:
    """When the limit is reached: seconds from now, and the probability within some days."""

    seconds: float | None = None
    """The median; None: see `reason`."""
    lower: float | None = None
    """The 5 % quantile: hardly sooner than that."""
    upper: float | None = None
    """The 95 % quantile; None where it is beyond the days forecast."""
    probability: tuple[tuple[int, float], ...] = ()
    """Pairs of a horizon in days and a probability; none where no forecast can be made, fewer where
    history is short."""
    reason: ForecastReason | None = None
    """Why there is no median."""


def forecast_load(hours: Array) -> LoadForecast:
    """Forecast daily peaks from hourly means, queries/s, shape (hours,), oldest first, NaN: gap."""
    peaks = daily_peaks(hours)
    recent = peaks[-TREND_DAYS:]
    recent = recent[np.isfinite(recent)]
    if len(recent) < SETTLING_DAYS:
        return LoadForecast(reason=ForecastReason.HISTORY_TOO_SHORT)
    if not median(recent) > 0:
        return LoadForecast(reason=ForecastReason.NO_LOAD)
    trend = fit_trend(peaks)
    ahead = min(MAX_DAYS_AHEAD, 2 * len(peaks))
    last_day = hours[-DAY_HOURS:]
    known = last_day[np.isfinite(last_day)]
    latest = float(known[-1]) if known.size else 0.0
    return LoadForecast(future_peaks(trend, ahead), latest, trend)


def usable_distribution(capacity: Capacity | None) -> Distribution | None:
    """Return the distribution of a capacity; None where it is not identifiable."""
    if capacity is None or capacity.trust is Trust.NOT_IDENTIFIABLE:
        return None
    return capacity.distribution


def saturation(forecast: LoadForecast, limit: Distribution | None) -> Saturation:
    """Compute when the load reaches the capacity, from a forecast and a distribution."""
    if forecast.peaks is None or forecast.trend is None:
        return Saturation(reason=forecast.reason)
    if limit is None:
        return Saturation(reason=ForecastReason.CAPACITY_UNKNOWN)
    highest = np.maximum.accumulate(forecast.peaks, axis=1)
    within = limit.at_most(highest).mean(axis=0)
    within = np.concatenate((limit.at_most(np.array([forecast.now])), within))
    within = np.maximum.accumulate(within)
    probability = tuple((h, float(within[h])) for h in HORIZON_DAYS if h < len(within))
    if not forecast.trend.is_growing:
        return Saturation(probability=probability, reason=ForecastReason.NO_GROWTH)
    lower, median, upper = (_seconds_until(within, share) for share in QUANTILES)
    reason = ForecastReason.TOO_FAR if median is None else None
    return Saturation(median, lower, upper, probability, reason)


def _seconds_until(within: Array, share: float) -> float | None:
    """Compute the seconds until the probability reaches that share; None: not within the days."""
    if within[-1] < share:
        return None
    day = int(np.argmax(within >= share))
    if day == 0:
        return 0.0
    before, after = within[day - 1], within[day]
    return DAY_SECONDS * (day - 1 + float((share - before) / (after - before)))
