"""How far a server's clock is off, from round trips with a truth that is known."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from collectors.base import CollectorError, FailureKind
from collectors.server_clock import OFFSET, ROUND_TRIP, unix_seconds, with_clock
from models.group.ntp_clock_filter import (
    MAX_CLOCK_DRIFT,
    ROUND_TRIP_LIFETIME,
    ClockOffset,
    RoundTrip,
    add_round_trip,
    clock_difference,
    clock_offset,
)

AHEAD = 0.25
"""Seconds that the simulated server is ahead."""


def trips(seed: int, drift: float = 0.0) -> list[RoundTrip]:
    """Every five seconds one: a millisecond each way, and queues of 30 and 10 ms in the mean."""
    rng = np.random.default_rng(seed)
    found = []
    for at in 5.0 * np.arange(60):
        there, back = 0.001 + rng.exponential((0.03, 0.01))
        offset = AHEAD + drift * at + (there - back) / 2  # the time is taken on arrival
        found.append(RoundTrip(float(at), float(offset), float(there + back)))
    return found


def remembered(readings: list[RoundTrip]) -> tuple[RoundTrip, ...]:
    """All of them, one after another."""
    known: tuple[RoundTrip, ...] = ()
    for one in readings:
        known = add_round_trip(known, one)
    return known


def offset_of(readings: list[RoundTrip]) -> ClockOffset:
    """What is known when the last has arrived."""
    found = clock_offset(remembered(readings), readings[-1].at)
    assert found is not None
    return found


@pytest.mark.parametrize("drift", [0.0, MAX_CLOCK_DRIFT, -MAX_CLOCK_DRIFT])
def test_the_true_offset_is_within_the_bounds(drift: float) -> None:
    """In each of 200 runs, whichever way the queues are, also as the clocks drift."""
    for seed in range(200):
        readings = trips(seed, drift=drift)
        found = offset_of(readings)
        truth = AHEAD + drift * readings[-1].at
        assert abs(found.seconds - truth) <= found.uncertainty


def test_the_quickest_round_trip_is_better_than_their_mean() -> None:
    """A queue in one direction does not count: the error is a fifth of the mean's, or less."""
    of_the_best, of_the_mean = [], []
    for seed in range(200):
        readings = trips(seed)
        of_the_best.append(abs(offset_of(readings).seconds - AHEAD))
        of_the_mean.append(abs(float(np.mean([one.offset for one in readings])) - AHEAD))
    assert np.median(of_the_best) < 0.002
    assert np.median(of_the_best) < np.median(of_the_mean) / 5


def test_a_clock_step_is_detected_at_once() -> None:
    """The first reading that contradicts the others counts alone, however long it took."""
    readings = trips(1)
    set_back = RoundTrip(300.0, AHEAD - 1.0, 0.05)
    known = add_round_trip(remembered(readings), set_back)
    assert known == (set_back,)


def test_old_round_trips_are_dropped() -> None:
    """A reading counts for minutes; without any there is no offset."""
    known = remembered([RoundTrip(0.0, AHEAD, 0.001)])
    assert clock_offset(known, ROUND_TRIP_LIFETIME - 1) is not None
    assert clock_offset(known, ROUND_TRIP_LIFETIME) is None
    assert add_round_trip(known, RoundTrip(ROUND_TRIP_LIFETIME, AHEAD, 0.1))[0].seconds == 0.1
    assert clock_offset((), 0.0) is None


def test_the_difference_of_clocks_is_that_of_the_extremes() -> None:
    """Bounds add up; a single clock has no difference."""
    a, b, c = ClockOffset(0.3, 0.01), ClockOffset(-0.1, 0.02), ClockOffset(0.0, 1.0)
    apart = clock_difference([a, b, c])
    assert apart is not None
    assert (apart.seconds, apart.uncertainty) == pytest.approx((0.4, 0.03))
    assert clock_difference([a]) is None


def test_the_servers_time_is_read_with_the_status() -> None:
    """A server with our own clock is at zero within half of the round trip."""

    def ask() -> tuple[Any, ...]:
        said = datetime.now(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
        return b"7", said.encode()

    row, clock = with_clock(ask, lambda row: row[-1])
    assert row[0] == b"7"
    assert abs(clock[OFFSET]) <= clock[ROUND_TRIP] / 2 + 2e-6


@pytest.mark.parametrize("cell", [None, b"", b"now", b"0000-00-00 00:00:00.000000", b"\xff" * 99])
def test_an_invalid_time_does_not_lose_the_counts(cell: bytes | None) -> None:
    """Whatever a server sends for its time: the row beside it is read."""
    assert with_clock(lambda: (b"7", cell), lambda row: row[1]) == ((b"7", cell), {})
    with pytest.raises(CollectorError) as failed:
        unix_seconds(cell)
    assert failed.value.kind is FailureKind.UNREADABLE
