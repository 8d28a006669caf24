"""How the bench judges alerts, on courses and alerts made up by hand."""

import numpy as np
import pytest

from testbed.simulated.alert_judgement import AlertScore, saturations
from testbed.simulated.server_months import MINUTE, MINUTES, PER_DAY, STORIES, server_month

HOUR = 60  # minutes


def course(*parts: tuple[float, int]) -> np.ndarray:
    """What is asked for, so much for so many minutes each."""
    return np.concatenate([np.full(minutes, share) for share, minutes in parts])


def judged(*fired: tuple[int, int], weight: float = 1.0) -> AlertScore:
    """A saturation in the fifth hour that rose for half an hour, and alerts at these minutes."""
    asked = course((0.5, 4 * HOUR - 31), (0.85, 31), (1.1, HOUR), (0.4, 10 * HOUR))
    score = AlertScore()
    spans = [(MINUTE * start, MINUTE * end) for start, end in fired]
    played = (0.0, MINUTE * 12 * HOUR)
    score.add(spans, saturations(asked), asked, played, weight)
    return score


def test_saturations_last_and_close_ones_are_one() -> None:
    """Single minutes are none, and two that are half an hour apart count once."""
    asked = course((0.5, 90), (1.2, 3), (0.5, 90), (1.2, 20), (0.9, 30), (1.2, 20), (0.5, 90))
    [found] = saturations(asked)
    assert found.start == pytest.approx(183 * MINUTE, abs=2 * MINUTE)
    assert found.end == pytest.approx(253 * MINUTE, abs=2 * MINUTE)
    assert found.rise <= 3 * MINUTE


def test_an_alert_before_a_saturation_counts_as_its_detection() -> None:
    """The lead is the time from the alert to the saturation, the reset that from end to end."""
    score = judged((4 * HOUR - 20, 5 * HOUR + 15))
    assert score.leads == [pytest.approx(20 * MINUTE, abs=3 * MINUTE)]
    assert score.resets == [pytest.approx(15 * MINUTE, abs=3 * MINUTE)]
    assert (score.true, score.false) == (1, {})


def test_an_alert_that_ended_long_before_does_not_count() -> None:
    """A saturation without an alert near it is missed, and the early alert is not false either."""
    score = judged((2 * HOUR + 10, 3 * HOUR))
    assert score.leads == [-np.inf]
    assert (score.true, score.false) == (0, {})


def test_an_alert_without_a_saturation_is_false() -> None:
    """It counts as often as its part of the month, and as close only near the capacity."""
    score = judged((9 * HOUR, 10 * HOUR), weight=7.0)
    assert (score.false, score.close) == ({"": 7.0}, 0)
    assert score.leads == [-np.inf]


def test_a_sudden_saturation_does_not_count_as_slow() -> None:
    """No alert can precede a load that jumps from half to above the capacity."""
    asked = course((0.5, 4 * HOUR), (1.2, HOUR), (0.5, HOUR))
    score = AlertScore()
    score.add([], saturations(asked), asked, (0.0, MINUTE * 6 * HOUR), 1.0)
    assert (score.leads, score.fast) == ([], [-np.inf])


@pytest.mark.parametrize(("left", "is_fast"), [(0.6, True), (0.95, False)])
def test_a_capacity_that_falls_is_announced_by_nothing(left: float, is_fast: bool) -> None:
    """A load at 0.9 for hours has not risen when the capacity falls; a small fall explains little.

    In the second case the load itself rises to 1.1 of what there was before.
    """
    load = course((0.5, 60), (0.9, 4 * HOUR), (0.9 if is_fast else 1.1, HOUR), (0.5, HOUR))
    room = course((1.0, 60 + 4 * HOUR), (left, HOUR), (1.0, HOUR))
    [found] = saturations(load / room, room)
    assert found.rise > 30 * MINUTE
    assert (found.fell, found.is_fast, found.is_first) == (is_fast, is_fast, True)


def test_the_interval_of_a_share_is_wilsons() -> None:
    """Nine of ten is 60 to 98 % (the closed form, computed by hand)."""
    score = AlertScore(leads=[20 * MINUTE] * 9 + [0.0])
    assert "| 9/10 (60% to 98%) |" in score.row("x", 4)
    score.false = {"a": 4.0, "b": 0.0}
    assert "| 1.00 ± 0.87 |" in score.row("x", 4)


@pytest.mark.parametrize("story", STORIES)
def test_a_month_agrees_with_its_truth(story: str) -> None:
    """Below the capacity throughput and CPU follow the demand, above it they are limited."""
    known = server_month(story, 5)
    assert known.asked.shape == (MINUTES,)
    top = int(np.argmax(known.asked[PER_DAY:])) + PER_DAY
    low = int(np.argmin(known.asked))
    busy, idle = (known.intervals(at, at + 1)[0] for at in (top, low))
    assert busy.statement_time > idle.statement_time
    assert all(0 <= used <= 1 for used in busy.resources.values())
    cost = known.monthly_load.cost[top]
    assert busy.throughput <= 1.1 * known.server.capacity / cost
    if known.asked[top] < 0.95:
        expected = (
            known.monthly_load.load[top]
            * known.server.capacity
            * (1 - known.monthly_load.stuck[top])
        )
        assert busy.throughput == pytest.approx(expected, rel=0.12)


def test_a_quiet_month_has_no_saturation() -> None:
    """A server used by half has none, one with growth has."""
    assert saturations(server_month("half used", 1).asked) == []
    assert saturations(server_month("growth", 1).asked) != []
