"""When the values of a sample were read, from its round trip and the server's own clock."""

import pytest

from agent.sampling.server_clock_dating import round_trip, with_reading_time
from collectors.base import Sample
from collectors.server_clock import ANSWERED, OFFSET, ROUND_TRIP
from models.group.ntp_clock_filter import ClockOffset

AHEAD = ClockOffset(7.0, 0.001)
"""The server's clock, as quick round trips have shown."""


def reading(offset: float) -> Sample:
    """One that took 1.5 s, of which its statement took 0.8, and half a second went by after it.

    The offset was from the middle of the round trip.
    """
    values = {"questions": 5.0, OFFSET: offset, ROUND_TRIP: 0.8, ANSWERED: 100.0}
    return Sample("status", 100.5, values, took=1.5)


@pytest.mark.parametrize(
    ("offset", "at"),
    [
        (7.0, 99.6),  # in the middle of the round trip
        (6.7, 99.3),  # soon after it was asked: the answer came late
        (7.3, 99.9),  # the question came late
        (6.5, 99.2),  # a clock that was set: not before it was asked
        (9.0, 100.0),  # nor after it was answered
    ],
)
def test_a_reading_is_dated_by_the_servers_clock(offset: float, at: float) -> None:
    """Never outside of the round trip."""
    sample = reading(offset)
    found = with_reading_time(sample, round_trip(sample), AHEAD)
    assert found.at == pytest.approx(at)
    assert found.values == {"questions": 5.0}


def test_without_the_servers_clock_a_reading_is_dated_to_its_middle() -> None:
    """The middle of the time that the reading took."""
    bare = Sample("host", 100.0, {"cpu": 1.0}, took=1.0)
    assert round_trip(bare) is None
    assert with_reading_time(bare, None, AHEAD).at == 99.5
