"""A target's load by the hour, for as many days as a forecast looks back."""

from agent.assessment.load_by_time_step import LoadSums
from models.forecast.daily_peak_growth import TREND_DAYS
from models.forecast.daily_peaks import DAY_HOURS
from models.forecast.hourly_means import HOUR_SECONDS

KEPT_HOURS = DAY_HOURS * (TREND_DAYS + 1)
"""Hours: those of a trend, and the day that has begun. 7 KiB a target."""


class HourlyLoad(LoadSums):
    """Sums by hour."""

    def __init__(self) -> None:
        super().__init__(HOUR_SECONDS, KEPT_HOURS)
