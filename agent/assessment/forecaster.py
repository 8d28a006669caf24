"""Forecast of when a target's load reaches its capacity: hourly, or when the capacity changes."""

from collections.abc import Iterable
from zlib import crc32

from agent.assessment.hourly_load import HourlyLoad
from agent.assessment.load_by_time_step import LoadSum
from agent.assessment.new_intervals import NewIntervals
from agent.assessment.snapshot import ForecastState
from agent.support.clock_pair import ClockPair
from agent.window.intervals import Window
from models.capacity.distribution import Distribution
from models.capacity.result import Capacity
from models.forecast.time_to_saturation import forecast_load, saturation, usable_distribution

FORECAST_INTERVAL = 3600.0
"""Seconds between two forecasts."""
MIN_FORECAST_INTERVAL = 300.0
"""Minimum seconds between two forecasts if the capacity has changed."""
MIN_CAPACITY_CHANGE = 0.05
"""Relative change of the capacity after which the forecast is updated."""
START_SPREAD_SECONDS = 60
"""Seconds over which the first forecasts of many targets are spread: one takes over 20 ms."""


class Forecaster:
    """A target's hourly load and its latest forecast; used only by the worker that assesses."""

    def __init__(self, target: str, now: float) -> None:
        self.state: ForecastState | None = None
        self._load = HourlyLoad()
        self._new_intervals = NewIntervals(now)
        self._start_delay = float(crc32(target.encode()) % START_SPREAD_SECONDS)
        self._due_at = now + START_SPREAD_SECONDS + self._start_delay
        self._made_at = -MIN_FORECAST_INTERVAL
        self._last_limit: Distribution | None = None
        self._compared: Distribution | None = None

    def restore(self, sums: Iterable[LoadSum], now: float) -> None:
        """Add load read back from the history; a forecast is then due within a minute."""
        self._load.add(sums)
        self._due_at = min(self._due_at, now + self._start_delay)

    def observe(self, window: Window, now: ClockPair) -> None:
        """Add the window's intervals that have ended since the last call."""
        new = self._new_intervals.select(window)
        if new is None:
            return
        ends = new["end"] + (now.unix - now.monotonic)
        self._load.add_intervals(ends, new["seconds"], new["throughput"])

    def update_if_due(self, capacity: Capacity | None, now: ClockPair) -> None:
        """Update `state` with a new forecast, if one is due."""
        limit = usable_distribution(capacity)
        if now.monotonic < self._due_at and not self._is_outdated(limit, now.monotonic):
            return
        self._due_at, self._made_at = now.monotonic + FORECAST_INTERVAL, now.monotonic
        self._last_limit = self._compared = limit
        self.state = self.forecast(capacity, now)

    def _is_outdated(self, limit: Distribution | None, now: float) -> bool:
        """Return whether the latest forecast is of another capacity, and may be replaced already.

        Each capacity is compared once.
        """
        if self.state is None or limit is self._compared:
            return False
        if now < self._made_at + MIN_FORECAST_INTERVAL:
            return False
        self._compared = limit
        return _has_changed(self._last_limit, limit)

    def forecast(self, capacity: Capacity | None, now: ClockPair) -> ForecastState:
        """Return a forecast made now; `state` stays as it is."""
        return forecast_saturation(self._load, capacity, now.unix)


def forecast_saturation(load: HourlyLoad, capacity: Capacity | None, now: float) -> ForecastState:
    """Forecast when the load reaches the capacity; `now` in Unix seconds."""
    forecast = forecast_load(load.means(now))
    found, trend = saturation(forecast, usable_distribution(capacity)), forecast.trend
    growth = trend.growth_per_day if trend and trend.is_growing else None
    return ForecastState(now, found, growth, trend.days if trend else 0)


def _has_changed(before: Distribution | None, after: Distribution | None) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after.median - before.median) > MIN_CAPACITY_CHANGE * before.median
