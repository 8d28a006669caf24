"""The forecast of a load against a capacity, on loads whose future is known."""

from itertools import pairwise

import numpy as np
import pytest

from models.arrays import Array
from models.capacity.distribution import Distribution
from models.forecast.daily_peak_growth import TrendShape, fit_trend
from models.forecast.daily_peaks import daily_peaks
from models.forecast.future_peaks import future_peaks
from models.forecast.hourly_means import HOUR_SECONDS, hourly_means
from models.forecast.time_to_saturation import (
    DAY_SECONDS,
    ForecastReason,
    Saturation,
    forecast_load,
    saturation,
)
from testbed.simulated.forecast_interval import peak_interval
from testbed.simulated.load_histories import AHEAD, HOURS, SCENARIOS, load_history

PEAK = 1000.0  # queries/s, today's
PER_DAY = 0.008  # of it
WEEKEND = 0.7


def load(days: int, growth: float = PER_DAY, *, noise: float = 0.01, seed: int = 1) -> Array:
    """Hourly means: a line, a daily and a weekly pattern; the last hour is now."""
    t = (np.arange(days * HOURS) + 0.5 - days * HOURS) / HOURS
    daily = 0.65 + 0.35 * np.sin(2 * np.pi * t)
    weekly = np.where(np.floor(t) % 7 >= 5, WEEKEND, 1.0)
    wobble = np.exp(noise * np.random.default_rng(seed).standard_normal(len(t)))
    made: Array = PEAK * (1 + growth * t) * daily * weekly * wobble
    return made


def around(value: float) -> Distribution:
    """A capacity that is known within 2 %."""
    return Distribution.of_quantiles(0.98 * value, value, 1.02 * value)


def meets(hours: Array, capacity: float) -> Saturation:
    """When the load meets that capacity."""
    return saturation(forecast_load(hours), around(capacity))


def days_until(found: Saturation) -> float:
    """The median in days; there must be one."""
    assert found.seconds is not None, found.reason
    return found.seconds / DAY_SECONDS


@pytest.mark.parametrize("ahead", [6, 12, 20])
def test_a_linear_trend_with_a_week_reaches_the_capacity_in_time(ahead: int) -> None:
    """A load with a known growth per day is at the capacity on the day that arithmetic gives."""
    found = meets(load(42), PEAK * (1 + PER_DAY * ahead))
    assert days_until(found) == pytest.approx(ahead, abs=0.2 * ahead + 1)
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < ahead * DAY_SECONDS < found.upper
    assert found.reason is None


@pytest.mark.parametrize(
    ("shape", "peaks"),
    [
        (TrendShape.LEVEL, np.full(42, 500.0)),
        (TrendShape.GROWTH, np.linspace(500.0, 900.0, 42)),
        (TrendShape.LEVEL, np.repeat([500.0, 800.0], (20, 22))),
        (TrendShape.CHANGE, np.concatenate((np.linspace(400.0, 800.0, 21), np.full(21, 800.0)))),
    ],
)
def test_the_simplest_sufficient_trend_shape_is_the_likeliest(
    shape: TrendShape, peaks: Array
) -> None:
    """Noise makes no growth; a step leaves a level, and a growth that has ended is a change."""
    weights = []
    for seed in range(12):
        noise = np.random.default_rng([20, seed]).normal(0, 0.03, len(peaks))
        found = fit_trend(peaks * np.exp(noise))
        weights.append({one.shape: one.weight for one in found.candidates}[shape])
    assert np.median(weights) > 0.5


def test_predicted_scatter_allows_for_the_fitted_coefficients() -> None:
    """Eight coefficients fit 21 days by a fifth better than they will fit the next."""
    deviations = []
    for seed in range(60):
        noise = np.random.default_rng([21, seed]).normal(0, 0.1, 21)
        growth, *_ = fit_trend(500.0 * np.exp(noise)).candidates
        deviations.append(growth.residuals.std())
    assert np.sqrt(np.mean(np.square(deviations))) == pytest.approx(0.05, rel=0.1)


def test_the_weekly_pattern_moves_the_day_of_saturation() -> None:
    """A limit that only working days reach is not reached at the weekend before."""
    forecast = forecast_load(load(42))
    assert forecast.peaks is not None
    friday, saturday, sunday, monday = np.median(forecast.peaks, axis=0)[4:8]
    assert max(saturday, sunday) < 0.8 * min(friday, monday)


@pytest.mark.parametrize("growth", [0.0, -0.004])
def test_a_constant_load_has_no_time_to_saturation(growth: float) -> None:
    """There is no time, with the reason; and next to no probability."""
    found = meets(load(42, growth, noise=0.05), 1.5 * PEAK)
    assert found.seconds is None
    assert found.lower is None
    assert found.reason is ForecastReason.NO_GROWTH
    assert dict(found.probability)[7] < 0.05


def test_a_load_without_noise_is_forecast_no_less_certainly() -> None:
    """Than one whose peaks vary by 1 %, which is the least error that is assumed."""
    ratios = []
    for noise in (0.0, 0.01):
        days = PEAK * np.exp(noise * np.random.default_rng(1).standard_normal(35))
        peaks = forecast_load(np.repeat(days, HOURS)).peaks
        assert peaks is not None
        ratios.append(np.quantile(peaks[:, 0], 0.95) / np.quantile(peaks[:, 0], 0.05))
    assert ratios[0] < ratios[1] < 1.15


def test_no_drawn_future_is_nan() -> None:
    """Of a thousand after three weeks one had none, and the load seemed to be at the limit."""
    seen = load_history("three weeks known", 4035).seen
    forecast = forecast_load(seen)
    assert forecast.peaks is not None
    assert np.isfinite(forecast.peaks).all()
    found = meets(seen, 3 * float(np.nanmax(seen)))
    assert found.seconds is None
    assert dict(found.probability)[7] < 0.05


def test_gaps_and_a_burst_move_the_forecast_little() -> None:
    """A sixth of the hours missing and one burst of three times the load: within two days."""
    hours, rng = load(42), np.random.default_rng(5)
    plain = days_until(meets(hours, PEAK * 1.1))
    hours[-9 * HOURS :][:HOURS] *= 3
    for at in rng.integers(0, len(hours) - HOURS, 8):
        hours[at : at + 24] = np.nan
    assert np.isnan(hours).mean() > 0.15
    assert days_until(meets(hours, PEAK * 1.1)) == pytest.approx(plain, abs=2)


def test_the_load_before_a_gap_of_days_is_not_that_of_now() -> None:
    """A burst in the last hour before an outage is no saturation once the agent reads again."""
    hours = load(35)
    hours[-3 * HOURS :] = np.nan
    usual = days_until(meets(hours, PEAK * 1.1))
    hours[-3 * HOURS - 1] = 3 * PEAK
    found = meets(hours, PEAK * 1.1)
    assert days_until(found) == pytest.approx(usual, abs=2)
    assert found.probability[0][1] < 0.1


@pytest.mark.parametrize("days", [14, 16, 28, 35])
def test_a_burst_does_not_distort_a_day_of_the_week(days: int) -> None:
    """Up to four days of twice a level load, anywhere: no load of several times that is likely."""
    for seed in range(40):
        rng = np.random.default_rng([seed, days])
        peaks = PEAK * np.exp(rng.normal(0, 0.03, days))
        peaks[rng.choice(days, rng.integers(1, 5), replace=False)] *= 2
        highest = future_peaks(fit_trend(peaks), 7).max(axis=1)
        assert np.quantile(highest, 0.9) < 6 * PEAK


def test_recurring_bursts_bring_the_capacity_nearer() -> None:
    """A load doubled now and then for an hour reaches the capacity before its line."""
    hours = load(42)
    plain = days_until(meets(hours, PEAK * 1.15))
    at_peak = np.argsort(hours[:HOURS])[-1]
    for days_ago in (2, 9, 17, 24, 31):
        hours[-days_ago * HOURS + at_peak] *= 2
    assert days_until(meets(hours, PEAK * 1.15)) < 0.7 * plain


def test_a_step_is_no_growth() -> None:
    """A level that stepped by a third ten days ago and stays is no trend."""
    hours = load(42, 0.0)
    hours[: -10 * HOURS] /= 1.33
    found = meets(hours, 1.4 * PEAK)
    assert found.seconds is None
    assert found.reason is ForecastReason.NO_GROWTH


@pytest.mark.parametrize("since", [5, 7, 10, 14])
@pytest.mark.parametrize("days", [35, 60])
def test_holidays_bring_no_capacity_nearer(days: int, since: int) -> None:
    """Ten days at 60 % of a constant load, which is as before again: its highest day is usual."""
    level = np.ones(days)
    level[days - since - 10 : days - since] = 0.6
    for seed in range(4):
        of_days = np.exp(np.random.default_rng([31, seed]).normal(0, 0.05, days))
        hours = load(days, growth=0.0, seed=seed) * np.repeat(level * of_days, HOURS)
        forecast = forecast_load(hours)
        assert forecast.peaks is not None
        assert np.quantile(forecast.peaks[:, :7], 0.95) < 1.3 * PEAK
        found = saturation(forecast, around(1.35 * PEAK))
        assert found.reason is ForecastReason.NO_GROWTH
        assert dict(found.probability)[7] < 0.1


@pytest.mark.parametrize("change", [1, -1])
@pytest.mark.parametrize("since", [1, 3, 8])
@pytest.mark.parametrize("now", [10, 12, 13, 14])
def test_a_change_of_the_clocks_is_no_growth(now: int, since: int, change: int) -> None:
    """A load whose daily peak, at 13 h by the clock, has come an hour earlier, or later, for days.

    The day of the change may have two of these peaks, or none, and the days before it are compared
    with other days of the week. The alert on the forecast needs 0.5.
    """
    hours = np.arange(35 * HOURS) + now
    clock = hours + np.where(hours >= len(hours) - since * HOURS, change, 0)
    weekly = np.where(clock // HOURS % 7 >= 5, WEEKEND, 1.0)
    daily = np.exp(3 * np.cos(2 * np.pi * (clock - 13) / HOURS) - 3)
    noise = np.exp(0.03 * np.random.default_rng(now).standard_normal(len(hours)))
    found = meets(PEAK * daily * weekly * noise, 1.3 * PEAK)
    assert found.reason is ForecastReason.NO_GROWTH
    assert dict(found.probability)[7] < 0.2


def test_growth_after_a_step_is_that_of_the_line() -> None:
    """A step is left out of the growth: the capacity is reached by the line that goes on."""
    hours = load(42, 0.01)
    hours[: -14 * HOURS] /= 1.4
    assert days_until(meets(hours, PEAK * 1.12)) == pytest.approx(12, abs=4)


def test_less_than_two_weeks_are_too_short() -> None:
    """Thirteen days of the clearest growth are not enough: it may be the week."""
    found = meets(load(13, 0.03), PEAK * 1.2)
    assert found == Saturation(reason=ForecastReason.HISTORY_TOO_SHORT)
    assert meets(load(15, 0.02), PEAK * 1.2).reason is not ForecastReason.HISTORY_TOO_SHORT


def test_each_missing_input_has_its_reason() -> None:
    """No load, no capacity, a limit beyond the horizon: each has its reason in words."""
    idle = saturation(forecast_load(np.zeros(42 * HOURS)), around(PEAK))
    nothing = saturation(forecast_load(np.zeros(0)), around(PEAK))
    unknown = saturation(forecast_load(load(42)), None)
    far = meets(load(42), 10 * PEAK)
    reasons = [found.reason for found in (idle, nothing, unknown, far)]
    assert reasons == [
        ForecastReason.NO_LOAD,
        ForecastReason.HISTORY_TOO_SHORT,
        ForecastReason.CAPACITY_UNKNOWN,
        ForecastReason.TOO_FAR,
    ]
    assert all(found.seconds is None for found in (idle, nothing, unknown, far))
    assert all(reason and reason.sentence for reason in ForecastReason)


@pytest.mark.parametrize("sunday", [0.0, 1e-6, 1.0])
def test_a_day_of_the_week_without_load_hides_no_growth(sunday: float) -> None:
    """The other days are forecast as they are, and reach the capacity when they would."""
    hours = load(42)
    t = (np.arange(len(hours)) + 0.5 - len(hours)) / HOURS
    closed = np.floor(t) % 7 == 3
    found = meets(np.where(closed, sunday, hours), PEAK * (1 + PER_DAY * 12))
    assert days_until(found) == pytest.approx(12, abs=4)
    peaks = forecast_load(np.where(closed, sunday, hours)).peaks
    assert peaks is not None
    tomorrow = np.median(peaks[:, 0])
    assert tomorrow == pytest.approx(PEAK, rel=0.1)


@pytest.mark.parametrize(
    ("since", "reason"),
    [
        (np.zeros(34 * HOURS), ForecastReason.NO_LOAD),
        (np.append(np.full(33 * HOURS, np.nan), load(2)), ForecastReason.HISTORY_TOO_SHORT),
        (np.append(np.full(36 * HOURS, np.nan), load(1)[:5]), ForecastReason.HISTORY_TOO_SHORT),
    ],
)
def test_old_days_alone_give_no_forecast(since: Array, reason: ForecastReason) -> None:
    """The load has ended since, or little of it is known."""
    assert forecast_load(np.append(load(60), since)).reason is reason


def test_the_unit_of_the_load_does_not_matter() -> None:
    """The same load in thousands reaches the same capacity in thousands at the same time."""
    hours = load(35)
    assert days_until(meets(1000 * hours, 1100 * PEAK)) == pytest.approx(
        days_until(meets(hours, 1.1 * PEAK)), rel=1e-6
    )


def test_the_same_load_gives_the_same_forecast() -> None:
    """Random draws have a fixed seed."""
    assert meets(load(30), 1.1 * PEAK) == meets(load(30), 1.1 * PEAK)


def test_intervals_widen_with_the_days() -> None:
    """Later days are less certain; a day beyond the forecast has no interval."""
    forecast = forecast_load(load(42))
    widths = []
    for day in (1, 8, 29, 57):  # the same day of the week
        interval = peak_interval(forecast, day)
        assert interval is not None
        widths.append((interval[1] - interval[0]) / interval[0])
    assert all(early < late for early, late in pairwise(widths))
    assert peak_interval(forecast, 200) is None


def test_a_less_certain_capacity_widens_the_times() -> None:
    """The lower bound is earlier and the upper one later."""
    forecast = forecast_load(load(42))
    narrow = saturation(forecast, Distribution.of_quantiles(1140, 1150, 1160))
    wide = saturation(forecast, Distribution.of_quantiles(1000, 1150, 1320))
    assert wide.lower is not None
    assert narrow.lower is not None
    assert wide.lower < narrow.lower
    assert dict(wide.probability)[1] > dict(narrow.probability)[1]


def test_spans_of_any_width_become_hours() -> None:
    """Minutes are averaged, a span of three hours counts for each; an hour half unknown is none."""
    until = 10 * HOUR_SECONDS
    minutes = until - 60 * np.arange(120)[::-1]
    found = hourly_means(minutes, np.full(120, 60.0), np.repeat([1.0, 3.0], 60), until)
    assert found == pytest.approx([1.0, 3.0])
    wide = hourly_means(
        [5 * HOUR_SECONDS, 10 * HOUR_SECONDS],
        [3 * HOUR_SECONDS, 0.4 * HOUR_SECONDS],
        [7.0, 9.0],
        until,
    )
    assert wide == pytest.approx([7, 7, 7, *[np.nan] * 5], nan_ok=True)
    assert len(hourly_means([], [], [], until)) == 0


def test_spans_that_overlap_count_once() -> None:
    """What two spans have in common is the earlier one's."""
    found = hourly_means(
        [HOUR_SECONDS, HOUR_SECONDS], [HOUR_SECONDS, HOUR_SECONDS], [2.0, 4.0], HOUR_SECONDS
    )
    assert found == pytest.approx([2.0])


def test_a_day_with_few_hours_is_a_gap() -> None:
    """Its peak may have been in the hours that are not known."""
    hours = load(5)
    hours[48:61] = np.nan
    peaks = daily_peaks(hours)
    assert np.isnan(peaks).tolist() == [False, False, True, False, False]
    assert peaks[4] == pytest.approx(hours[-24:].max())


@pytest.mark.parametrize("name", ["linear growth", "strong weeks", "flat, wandering", "gaps"])
def test_the_interval_holds_most_days(name: str) -> None:
    """Of simulated months, at least three of four days ahead are within the 90 % interval."""
    inside = []
    for seed in range(5000, 5008):
        known = load_history(name, seed)
        peaks = known.ahead.reshape(AHEAD, HOURS).max(axis=1)
        forecast = forecast_load(known.seen)
        for day in (1, 7, 30):
            interval = peak_interval(forecast, day)
            assert interval is not None
            inside.append(interval[0] <= peaks[day - 1] <= interval[1])
    assert np.mean(inside) >= 0.75


@pytest.mark.parametrize("name", [name for name, kind in SCENARIOS.items() if not kind.grows])
def test_a_load_without_growth_has_no_saturation(name: str) -> None:
    """One that is flat, stepped once or shrinks does not reach a limit within a month."""
    for seed in range(6000, 6006):
        known = load_history(name, seed)
        found = meets(known.seen, 1.6 * float(np.nanmax(known.seen)))
        assert found.seconds is None or found.seconds > 30 * DAY_SECONDS, seed
        assert dict(found.probability).get(7, 0) < 0.5


@pytest.mark.parametrize("sunday", [0.0, 0.01, 5.0])
def test_days_without_load_do_not_hide_growth(sunday: float) -> None:
    """A shop that closes on Sundays: its load reaches the capacity on a day that it is open."""
    hours = load(35)
    is_sunday = np.arange(len(hours)) // HOURS % 7 == 3
    closed = np.where(is_sunday, sunday, hours)
    found = meets(closed, PEAK * (1 + 12 * PER_DAY))
    assert days_until(found) == pytest.approx(12, abs=4)
    ahead = forecast_load(closed).peaks
    assert ahead is not None
    assert np.median(ahead[:, :14], axis=0).max() == pytest.approx(1.1 * PEAK, rel=0.1)
