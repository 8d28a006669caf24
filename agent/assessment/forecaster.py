"""Forecast when a target's load meets its capacity: once an hour, and when the capacity moves."""

from collections.abc import Iterable
from zlib import crc32

from agent.assessment.hourly_load import HourlyLoad
from agent.assessment.load_by_time_step import LoadSum
from agent.assessment.new_intervals import NewIntervals
from agent.assessment.snapshot import ForecastState
from agent.support.clock_pair import Now
from agent.window.intervals import Window
from models.capacity.distribution import Distribution
from models.capacity.result import Capacity
from models.forecast.saturation import forecast_load, limit_of, saturation

FORECAST_SECONDS = 3600.0
"""Seconds between two forecasts."""
MIN_FORECAST_SECONDS = 300.0
"""Seconds between two, where the capacity has moved."""
MIN_CAPACITY_CHANGE = 0.05
"""Of the capacity: by so much it has moved."""
START_SPREAD_SECONDS = 60
"""Seconds within which the first forecasts of many targets are made: one takes some 30 ms."""


class Forecaster:
    """One target's load by the hour, and the latest forecast of it. For the worker that fits."""

    def __init__(self, target: str, now: float) -> None:
        self.state: ForecastState | None = None
        self._load = HourlyLoad()
        self._new = NewIntervals(now)
        self._wait = float(crc32(target.encode()) % START_SPREAD_SECONDS)
        self._due = now + START_SPREAD_SECONDS + self._wait
        self._made_at = -MIN_FORECAST_SECONDS
        self._limit: Distribution | None = None

    def restore(self, sums: Iterable[LoadSum], now: float) -> None:
        """Add the load that was read back; a forecast of it is due soon."""
        self._load.add(sums)
        self._due = min(self._due, now + self._wait)

    def observe(self, window: Window, now: Now) -> None:
        """Take in the window's intervals that have ended since the last time."""
        new = self._new.of(window)
        if new is None:
            return
        ends = new["end"] + (now.unix - now.monotonic)
        self._load.add_intervals(ends, new["seconds"], new["throughput"])

    def advance(self, capacity: Capacity | None, now: Now) -> None:
        """Make a forecast, if it is time for one."""
        limit = limit_of(capacity)
        soonest = self._made_at + MIN_FORECAST_SECONDS
        is_moved = self.state is not None and _is_moved(self._limit, limit)
        if now.monotonic < self._due and not (is_moved and now.monotonic >= soonest):
            return
        self._due, self._made_at, self._limit = (
            now.monotonic + FORECAST_SECONDS,
            now.monotonic,
            limit,
        )
        self.state = self.forecast(capacity, now)

    def forecast(self, capacity: Capacity | None, now: Now) -> ForecastState:
        """Make a forecast at once, and keep nothing of it."""
        return forecast_state(self._load, capacity, now.unix)


def forecast_state(load: HourlyLoad, capacity: Capacity | None, now: float) -> ForecastState:
    """Forecast when this load meets that capacity; `now` in Unix seconds."""
    forecast = forecast_load(load.means(now))
    found, trend = saturation(forecast, limit_of(capacity)), forecast.trend
    growth = trend.growth_per_day if trend and trend.grows else None
    return ForecastState(now, found, growth, trend.days if trend else 0)


def _is_moved(before: Distribution | None, after: Distribution | None) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after.median - before.median) > MIN_CAPACITY_CHANGE * before.median
