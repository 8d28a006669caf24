"""How far a load may rise within the next hour, from earlier days and from what is new."""

import numpy as np
import pytest

from models.arrays import Array
from models.capacity.distribution import Distribution
from models.forecast.next_hour import (
    DAY_STEPS,
    HORIZON_STEPS,
    MEAN_AGE_STEPS,
    RISE_END_PROBABILITIES,
    RISE_STEPS,
    Rise,
    possible_rises,
)

WEEK = 7 * DAY_STEPS
LIMIT = Distribution.of_quantiles(990.0, 1000.0, 1010.0)


def daily(steps: Array, noise: float = 0.0) -> Array:
    """A load that swings between 200 and 800 a day, its lowest at step 0."""
    rng = np.random.default_rng(1)
    load = 500 - 300 * np.cos(2 * np.pi * steps / DAY_STEPS)
    found: Array = load * np.exp(noise * rng.standard_normal(len(steps)))
    return found


def test_the_load_rises_as_at_this_hour_of_earlier_days() -> None:
    """In the morning as the morning does, in the evening not at all, at any level of the day."""
    for at, factor in ((WEEK + 72, 1.0), (WEEK + 72, 1.3), (WEEK + 200, 1.0)):
        steps = np.arange(at + 1.0)
        means = daily(steps)
        level, before = factor * means[-1], factor * means[-1 - RISE_STEPS]
        found = possible_rises(means, level, before)
        assert tuple(found) == HORIZON_STEPS
        for ahead in HORIZON_STEPS:
            true = max(float(daily(steps[-1:] + k)[0]) for k in range(ahead + 1)) / means[-1]
            usual = np.maximum(found[ahead].usual, 0.0)
            assert np.exp(np.median(usual)) == pytest.approx(true, rel=0.03)
            assert found[ahead].new_probability < 0.05


def test_an_unusual_rise_may_continue() -> None:
    """A quarter more within ten minutes is new; in one of two cases it rises as much again."""
    means = daily(np.arange(WEEK + 144.0), noise=0.02)
    found = possible_rises(means, 1.25 * means[-1], means[-1 - RISE_STEPS])[12]
    assert found.new_probability > 0.99
    ways = (
        np.minimum(RISE_END_PROBABILITIES / (1 - RISE_END_PROBABILITIES), 12 / RISE_STEPS)
        + MEAN_AGE_STEPS / RISE_STEPS
    )
    assert found.further_rises == pytest.approx(np.log(1.25) * ways, rel=0.2)
    assert np.median(ways) == pytest.approx(1 + MEAN_AGE_STEPS / RISE_STEPS, abs=0.05)


@pytest.mark.parametrize("ratio", [0.7, 1.0, 1.03])
def test_noise_is_no_new_rise(ratio: float) -> None:
    """The usual scatter of a load, and a fall, predict no rise."""
    means = daily(np.arange(WEEK + 144.0), noise=0.03)
    found = possible_rises(means, ratio * means[-1 - RISE_STEPS], means[-1 - RISE_STEPS])
    assert all(rise.new_probability < 0.1 for rise in found.values())


def test_a_recovering_load_is_no_new_rise() -> None:
    """A lock blocks half of the load for a quarter of an hour: its end is no rise."""
    means = daily(np.arange(WEEK + 144.0), noise=0.02)
    level = means[-1]
    means[-4:] *= 0.5
    found = possible_rises(means, level, 0.5 * level)
    assert all(rise.new_probability < 0.1 for rise in found.values())


@pytest.mark.parametrize("hours", [1, 3, 8])
@pytest.mark.parametrize("share", [0.003, 0.2])
@pytest.mark.parametrize("at", [72, 144, 200])
def test_a_load_that_returns_to_that_of_the_day_before_is_no_new_rise(
    hours: int, share: float, at: int
) -> None:
    """After hours of maintenance or a failover it is as at this time on any day."""
    means = daily(np.arange(WEEK + at + 1.0), noise=0.02)
    level = float(means[-1])
    means[-12 * hours - 1 :] *= share
    found = possible_rises(means, level, float(means[-1 - RISE_STEPS]))
    assert all(rise.new_probability < 0.1 for rise in found.values())
    for known in (True, False):
        means[len(means) - 1 - DAY_STEPS - 12 : len(means) - DAY_STEPS + 12] *= (
            1 if known else np.nan
        )
        more = possible_rises(means, 2 * level, float(means[-1 - RISE_STEPS]))
        assert all(rise.new_probability > 0.9 for rise in more.values())


def nightly_job(steps: Array, start: int) -> Array:
    """A noisy load of 1000 that a job doubles for half an hour, each day at that step."""
    rng = np.random.default_rng(2)
    is_in_job = (steps % DAY_STEPS >= start) & (steps % DAY_STEPS < start + 6)
    noise = np.exp(0.03 * rng.standard_normal(len(steps)))
    found: Array = np.where(is_in_job, 2000.0, 1000.0) * noise
    return found


@pytest.mark.parametrize("earlier", [0, 4])
def test_a_rise_that_has_come_does_not_come_again(earlier: int) -> None:
    """A job that doubles the load each night is expected before it, and not anew while it runs.

    Nor where it begins twenty minutes earlier than on other nights.
    """
    steps = np.arange(WEEK + 60.0)
    nights = nightly_job(steps[:WEEK], 36 + earlier)
    means = np.concatenate((nights, nightly_job(steps[WEEK:], 36)))
    limit = Distribution.of_quantiles(2700.0, 3000.0, 3300.0)
    reached = Distribution.of_quantiles(1700.0, 1800.0, 1900.0)

    def rise_at(step: int) -> Rise:
        known = means[: WEEK + step + 1]
        return possible_rises(known, known[-1], known[-1 - RISE_STEPS])[12]

    before = rise_at(33)
    assert before.saturation_probability(means[WEEK + 33], reached) > 0.4
    assert before.saturation_probability(means[WEEK + 33], limit) < 0.05
    for step in range(36, 42):
        assert rise_at(step).saturation_probability(means[WEEK + step], limit) < 0.2, step


def test_a_morning_that_has_come_goes_on_no_further() -> None:
    """From 8:00 to 8:45 the load rises each day from 1500 to 5500, and then it stays there.

    Ten minutes after that it has risen in the last hour as much as it had ten minutes after eight.
    """
    steps = np.arange(WEEK + DAY_STEPS)
    hour = steps % DAY_STEPS / 12
    rise, fall = np.clip((hour - 8) / 0.75, 0, 1), np.clip((hour - 18) / 2, 0, 1)
    noise = np.exp(0.03 * np.random.default_rng(3).standard_normal(len(steps)))
    means = (1500 + 4000 * (rise - fall)) * noise

    def probability(step: int, limit: Distribution) -> float:
        known = means[: WEEK + step + 1]
        found = possible_rises(known, known[-1], known[-1 - RISE_STEPS])[12]
        return found.saturation_probability(known[-1], limit)

    above = Distribution.of_quantiles(6300.0, 7300.0, 8100.0)
    assert max(probability(step, above) for step in range(90, 120)) < 0.3
    below = Distribution.of_quantiles(4700.0, 5000.0, 5300.0)
    assert min(probability(step, below) for step in range(94, 105)) > 0.4


SUNDAY, MONDAY, TUESDAY, WEDNESDAY = range(8, 12)
"""Days of `office_weeks`."""


def office_weeks(seed: int, weekend: float, change: int = 0) -> Array:
    """A load that rises from 300 to 1000 within an hour from eight on, by the clock.

    On the last Sunday the clocks change by so many steps; weekend: the share of the rise then.
    """
    rng = np.random.default_rng(seed)
    steps = np.arange((WEDNESDAY + 1) * DAY_STEPS)
    clock = steps + np.where(steps >= SUNDAY * DAY_STEPS + 12, change, 0)
    hour, weekday = clock % DAY_STEPS / 12, (clock // DAY_STEPS + 5) % 7
    risen = np.clip(hour - 8, 0, 1) - np.clip((hour - 18) / 2, 0, 1)
    waves = np.interp(steps, steps[::3], rng.normal(0, 0.04, len(steps[::3])))
    noise = np.exp(waves + rng.normal(0, 0.01, len(steps)))
    found: Array = (300 + 700 * risen * np.where(weekday >= 5, weekend, 1.0)) * noise
    return found


def morning_probabilities(means: Array, day: int, capacity: float) -> list[float]:
    """Those of saturation within the hour, from five in the morning to noon, UTC."""
    limit = Distribution.of_quantiles(0.93 * capacity, capacity, 1.07 * capacity)
    found = []
    for end in range(DAY_STEPS * day + 60, DAY_STEPS * day + 144):
        known = means[max(end - WEEK - 24, 0) : end]
        rise = possible_rises(known, known[-1], known[-1 - RISE_STEPS])[12]
        found.append(rise.saturation_probability(known[-1], limit))
    return found


@pytest.mark.parametrize("weekend", [0.2, 1.0])
@pytest.mark.parametrize("change", [12, -12, 0])
@pytest.mark.parametrize("seed", range(3))
def test_a_morning_after_the_clocks_change_is_no_new_rise(
    seed: int, change: int, weekend: float
) -> None:
    """Nor does it come again an hour later: no page (0.35) where 1.6 times the peak is possible."""
    means = office_weeks(seed, weekend, change)
    for day in range(SUNDAY, WEDNESDAY + 1):
        assert max(morning_probabilities(means, day, 1600.0)) < 0.35, day


@pytest.mark.parametrize("change", [12, -12])
def test_after_the_clocks_change_a_launch_is_new(change: int) -> None:
    """By three fifths, at eleven by the clock."""
    means = office_weeks(0, 0.2, change)
    for day in (MONDAY, TUESDAY):
        grown = means[: DAY_STEPS * day + 132 - change].copy()
        grown[-RISE_STEPS:] *= 1.6
        found = possible_rises(grown[-WEEK - 24 :], grown[-1], grown[-1 - RISE_STEPS])[12]
        assert found.new_probability > 0.9


def test_without_an_earlier_day_no_rise_is_expected() -> None:
    """Nothing is known of this hour: neither a rise nor the usual level."""
    for count in (1, 40, DAY_STEPS // 2):
        means = daily(np.arange(float(count)))
        found = possible_rises(means, 900.0, 500.0)
        assert all(
            list(rise.usual) == [0.0] and rise.new_probability == 0 for rise in found.values()
        )
    assert possible_rises(np.zeros(0), 900.0, None)[3].saturation_probability(900.0, LIMIT) < 0.01


def test_gaps_and_silence_are_left_out() -> None:
    """Unknown days, and hours without a query, count for nothing."""
    steps = np.arange(WEEK + 73.0)
    means = daily(steps)
    whole = possible_rises(means, means[-1], means[-1 - RISE_STEPS])[12]
    means[: 5 * DAY_STEPS] = np.nan
    means[6 * DAY_STEPS + 60 : 6 * DAY_STEPS + 90 : 3] = np.nan
    found = possible_rises(means, means[-1], means[-1 - RISE_STEPS])[12]
    assert 0 < len(found.usual) < len(whole.usual) / 2
    assert np.median(found.usual) == pytest.approx(np.median(whole.usual), rel=0.05)
    assert possible_rises(np.zeros(WEEK), 0.0, 0.0)[12].saturation_probability(0.0, LIMIT) == 0


@pytest.mark.parametrize("seed", range(60))
def test_a_longer_time_is_never_less_likely_to_reach_the_capacity(seed: int) -> None:
    """Nor where more of the earlier moments have a known load later than soon after them."""
    rng = np.random.default_rng(seed)
    means = 100 * np.exp(0.3 * rng.standard_normal(2 * DAY_STEPS))
    means[rng.random(len(means)) < 0.6] = np.nan
    limit = Distribution.of_quantiles(120.0, 130.0, 140.0)
    rises = possible_rises(means, 100.0, 100.0).values()
    probabilities = [rise.saturation_probability(100.0, limit) for rise in rises]
    assert probabilities == sorted(probabilities)


def test_the_probability_is_the_mean_over_possible_rises() -> None:
    """Half of the days reached the capacity; a new rise does so in two of five ways."""
    usual = np.log(np.array([1.0, 1.1, 1.3, 1.4]))
    assert Rise(usual).saturation_probability(800.0, LIMIT) == pytest.approx(0.5, abs=0.01)
    further = np.log(np.array([1.0, 1.0, 1.0, 1.5, 1.5]))
    new = Rise(np.zeros(1), 0.5, further)
    assert new.saturation_probability(800.0, LIMIT) == pytest.approx(0.2, abs=0.01)
    below = Rise(np.log(np.array([0.5]))).saturation_probability(1000.0, LIMIT)
    assert below == pytest.approx(0.5, abs=0.01)  # the present load counts, too
