"""Dates samples: the time at which a server's counters had the values of a sample.

An answer may arrive long after they were read: the server's thread waits for a processor before it
reads them, and on a full host the agent waits for one before it sees the answer. A rate over
seconds is then wrong by as much. Readings have the server's own time (`collectors.server_clock`),
and the offset of its clock is known from the quickest round trips
(`models.group.ntp_clock_filter`); so each is dated by the server, within its own round trip
whatever the clocks do.
"""

from collectors.base import Sample
from collectors.server_clock import ANSWERED, OFFSET, ROUND_TRIP, SERVER_TIME
from models.group.ntp_clock_filter import ClockOffset, RoundTrip

CLOCK_VALUES = (ANSWERED, OFFSET, ROUND_TRIP, SERVER_TIME)


def round_trip(sample: Sample) -> RoundTrip | None:
    """Return the round trip of a sample with the server's time; None for one without."""
    if OFFSET not in sample.values:
        return None
    values = sample.values
    return RoundTrip(values[ANSWERED], values[OFFSET], values[ROUND_TRIP])


def with_reading_time(sample: Sample, trip: RoundTrip | None, clock: ClockOffset | None) -> Sample:
    """Return the same sample at the time (monotonic s) when its values were read.

    That is the middle of the reading where the server's time is not known.
    """
    if trip is None or clock is None:
        return Sample(sample.collector, sample.at - sample.took / 2, sample.values, sample.took)
    read = trip.at - trip.seconds / 2 + trip.offset - clock.seconds
    values = {name: v for name, v in sample.values.items() if name not in CLOCK_VALUES}
    at = min(max(read, trip.at - trip.seconds), trip.at)
    return Sample(sample.collector, at, values, sample.took)
