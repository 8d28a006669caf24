"""Instants on the monotonic clock and on the wall clock."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClockPair:
    """One instant on both clocks, in seconds."""

    monotonic: float
    unix: float

    def to_unix(self, monotonic: float) -> float:
        """Convert a time on the monotonic clock to Unix time."""
        return self.unix - (self.monotonic - monotonic)

    def to_monotonic(self, unix: float) -> float:
        """Convert a Unix time to the time on the monotonic clock."""
        return self.monotonic - (self.unix - unix)


UNIX = ClockPair(0.0, 0.0)
"""A clock pair without offset: for times that are, or stay, in Unix seconds."""
