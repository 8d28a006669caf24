"""The offset of a server's clock from the agent's, from round trips that carry its time.

D. L. Mills, J. Martin, J. Burbank and W. Kasch, "Network Time Protocol Version 4", RFC 5905, 2010,
section 10, the clock filter: of the latest round trips the one with the least delay is used, since
a queue on one way of a trip cannot be distinguished from an offset. The server's time was taken at
some moment of the round trip, so its offset from the middle is wrong by at most half of the trip.
"""

from collections.abc import Sequence
from dataclasses import dataclass

ROUND_TRIP_LIFETIME = 300.0
"""Seconds for which a round trip counts."""
MAX_CLOCK_DRIFT = 15e-6
"""Seconds by which two clocks may drift apart in a second (PHI of RFC 5905, section 7.1)."""


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """One reading of a server's clock."""

    at: float
    """When the answer had arrived, monotonic seconds."""
    offset: float
    """The server's clock less the agent's at the middle of the trip, s."""
    seconds: float
    """Duration of the trip."""

    def uncertainty(self, now: float) -> float:
        """Return the uncertainty of the offset at `now` (monotonic s): half the trip, and drift."""
        return self.seconds / 2 + MAX_CLOCK_DRIFT * abs(now - self.at)


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """How far a server's clock is ahead of the agent's, s; below 0 it is behind."""

    seconds: float
    uncertainty: float
    """Seconds to either side."""


def add_round_trip(known: Sequence[RoundTrip], new: RoundTrip) -> tuple[RoundTrip, ...]:
    """Add a round trip, and drop those that are too old or no better than it.

    If it contradicts a known one, a clock was set in between, and all earlier ones are dropped.
    """
    recent = [trip for trip in known if new.at - trip.at < ROUND_TRIP_LIFETIME]
    margin = new.uncertainty(new.at)
    if any(abs(trip.offset - new.offset) > margin + trip.uncertainty(new.at) for trip in recent):
        return (new,)
    # an older one that is less certain now will never be the most certain
    return (*(trip for trip in recent if trip.uncertainty(new.at) < margin), new)


def clock_offset(known: Sequence[RoundTrip], now: float) -> ClockOffset | None:
    """Return the offset of the round trip that is least uncertain at `now` (monotonic seconds).

    None if there was none within the time that a round trip counts.
    """
    recent = [trip for trip in known if now - trip.at < ROUND_TRIP_LIFETIME]
    best = min(recent, key=lambda trip: trip.uncertainty(now), default=None)
    return None if best is None else ClockOffset(best.offset, best.uncertainty(now))


def clock_difference(offsets: Sequence[ClockOffset]) -> ClockOffset | None:
    """Return the difference of the clocks most ahead and most behind; None for fewer than two."""
    if len(offsets) < 2:
        return None
    first, last = (f(offsets, key=lambda one: one.seconds) for f in (max, min))
    return ClockOffset(first.seconds - last.seconds, first.uncertainty + last.uncertainty)
