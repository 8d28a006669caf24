"""How far another clock is ahead of ours, from round trips that carry its time.

D. L. Mills, J. Martin, J. Burbank and W. Kasch, "Network Time Protocol Version 4", RFC 5905, 2010,
section 10, the clock filter: of the latest round trips that with the least delay is believed, since
what a queue adds to one way of a trip cannot be told from an offset. A server's time was taken at
some moment of the round trip, so its offset from the middle is off by half of the trip at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass

ROUND_TRIP_LIFETIME = 300.0
"""Seconds for which a round trip counts."""
MAX_CLOCK_DRIFT = 15e-6
"""Seconds that two clocks may part in a second (PHI of RFC 5905, section 7.1)."""
CLOCK_RESOLUTION = 1e-6
"""Seconds: the server's time comes in whole microseconds."""


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """One reading of another clock."""

    at: float
    """When the answer had arrived, monotonic seconds."""
    offset: float
    """The other clock less ours at the middle of the trip, s."""
    seconds: float
    """How long the trip took."""

    def uncertainty(self, now: float) -> float:
        """By how much the offset may be off at `now` (monotonic s): half the trip, and drift."""
        return self.seconds / 2 + CLOCK_RESOLUTION + MAX_CLOCK_DRIFT * abs(now - self.at)


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """How far a server's clock is ahead of the agent's, s; below 0 it is behind."""

    seconds: float
    uncertainty: float
    """Seconds to either side."""


def add_round_trip(known: Sequence[RoundTrip], new: RoundTrip) -> tuple[RoundTrip, ...]:
    """Remember one more round trip, and forget those that are too old or no better than it.

    Where it contradicts one that is known, a clock was set in between: all before it are forgotten.
    """
    recent = [one for one in known if new.at - one.at < ROUND_TRIP_LIFETIME]
    room = new.uncertainty(new.at)
    if any(abs(one.offset - new.offset) > room + one.uncertainty(new.at) for one in recent):
        return (new,)
    # an older one that is less certain now will never be the most certain
    return (*(one for one in recent if one.uncertainty(new.at) < room), new)


def clock_offset(known: Sequence[RoundTrip], now: float) -> ClockOffset | None:
    """Take the offset of the round trip that is least uncertain at `now` (monotonic seconds).

    None where there was none for as long as one counts.
    """
    recent = [one for one in known if now - one.at < ROUND_TRIP_LIFETIME]
    best = min(recent, key=lambda one: one.uncertainty(now), default=None)
    return None if best is None else ClockOffset(best.offset, best.uncertainty(now))


def clock_difference(offsets: Sequence[ClockOffset]) -> ClockOffset | None:
    """How far the clock that is most ahead and the one most behind are apart; of two at least."""
    if len(offsets) < 2:
        return None
    first, last = (f(offsets, key=lambda one: one.seconds) for f in (max, min))
    return ClockOffset(first.seconds - last.seconds, first.uncertainty + last.uncertainty)
