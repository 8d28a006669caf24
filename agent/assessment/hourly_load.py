"""A target's load by the hour, for as many days as a forecast looks back."""

from agent.assessment.load_by_time_step import LoadSums
from models.forecast.daily_peak_growth import TREND_DAYS
from models.forecast.daily_peaks import DAY_HOURS
from models.forecast.hourly_means import HOUR_SECONDS

KEPT_HOURS = DAY_HOURS * (TREND_DAYS + 1)
"""Hours of the days of a trend and of the current day: 7 KiB per target."""


class HourlyLoad(LoadSums):
    """Load sums by hour."""

    def __init__(self) -> None:
        super().__init__(HOUR_SECONDS, KEPT_HOURS)
