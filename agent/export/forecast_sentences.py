"""The forecast in words: when the load reaches the capacity, or why that is not known."""

from models.forecast.hourly_means import HOUR_SECONDS
from models.forecast.time_to_saturation import DAY_SECONDS, ForecastReason, Saturation
from models.forecast.weekly_pattern import WEEK_DAYS

MIN_SHOWN_PROBABILITY = 0.05
"""Smaller probabilities are not mentioned."""


def forecast_text(found: Saturation) -> str:
    """Return one sentence, and a second one if saturation within a week is likely enough."""
    if found.seconds is not None:
        return f"At this growth the load reaches the limit in {_with_bounds(found.seconds, found)}."
    chance = dict(found.probability).get(WEEK_DAYS, 0.0)
    within_week = f" It may still be reached within a week: {100 * chance:.0f} %."
    return f"{_why_not_known(found)}{within_week if chance >= MIN_SHOWN_PROBABILITY else ''}"


def time_to_saturation_text(found: Saturation) -> str:
    """Return the forecast in a few words, for a table."""
    if found.seconds is not None:
        return _with_bounds(found.seconds, found)
    if found.reason is ForecastReason.TOO_FAR and found.lower is not None:
        return f"{format_time_ahead(found.lower)} or more"
    return found.reason.value.replace("_", " ") if found.reason else "not known"


def _with_bounds(seconds: float, found: Saturation) -> str:
    """Return a time ahead with its bounds, in the same unit, which follows where none preceded."""
    text = format_time_ahead(seconds)
    bound_text = _days_text if text.endswith("days") else _hours_text
    low = bound_text(found.lower or 0.0)
    bounds = f"{low} or more" if found.upper is None else f"{low} to {bound_text(found.upper)}"
    unit = " hours" if text.endswith("hour") else ""
    return f"{text} ({bounds}{unit})"


def _why_not_known(found: Saturation) -> str:
    if found.reason is ForecastReason.TOO_FAR and found.lower is not None:
        earliest = format_time_ahead(found.lower)
        return f"At this growth the load reaches the limit in {earliest} at the earliest."
    sentence = found.reason.sentence if found.reason else "nothing is known yet"
    return f"It is not known when the limit is reached: {sentence}."


def format_time_ahead(seconds: float) -> str:
    """Format a time ahead in hours below two days, else in days."""
    hours = seconds / HOUR_SECONDS
    if hours < 1:
        return "less than an hour"
    if hours >= 48:
        return f"{_days_text(seconds)} days"
    text = _hours_text(seconds)
    return f"{text} hour" if text == "1" else f"{text} hours"


def _hours_text(seconds: float) -> str:
    return f"{seconds / HOUR_SECONDS:.0f}"


def _days_text(seconds: float) -> str:
    """Format seconds as days, with one decimal below three."""
    days = seconds / DAY_SECONDS
    return f"{days:.1f}" if days < 3 else f"{days:.0f}"
