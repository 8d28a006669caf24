"""A made-up split of statement time that has a value for every part."""

from agent.window.recent_time_split import TimeUse
from models.time_split.disk_time_formulas import DiskProfile
from models.time_split.limiting_resource import LimitedBy
from models.time_split.time_parts import TimePart, TimeSplit

SECONDS = {
    TimePart.CPU: 100.0,
    TimePart.PROCESSOR_QUEUE: 10.0,
    TimePart.DISK_SEQUENTIAL: 40.0,
    TimePart.DISK_RANDOM: 250.0,
    TimePart.NETWORK: 20.0,
    TimePart.LOCKS: 30.0,
}


def known_time_use(at: float) -> TimeUse:
    """500 s of statements in 300 s: 58 % on disk, 10 % not allocated."""
    split = TimeSplit.of(500.0, SECONDS)
    return TimeUse(at, 300.0, split, LimitedBy.of(split), DiskProfile(130e6, 0.001))
