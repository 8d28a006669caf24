"""The 90 % interval of a forecast daily peak, which is counted to hold the truth or not."""

from models.forecast.time_to_saturation import LoadForecast
from models.numerics import QUANTILES, quantiles


def peak_interval(forecast: LoadForecast, day: int) -> tuple[float, float] | None:
    """Return the ends (queries/s) of the interval of the peak of a day ahead; 1 is the next day."""
    if forecast.peaks is None or day > forecast.peaks.shape[1]:
        return None
    low, high = quantiles(forecast.peaks[:, day - 1], (QUANTILES[0], QUANTILES[-1]))
    return float(low), float(high)
