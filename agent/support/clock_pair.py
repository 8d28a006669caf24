"""Instants on the monotonic clock and on the wall clock."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Now:
    """One instant on both clocks, in seconds."""

    monotonic: float
    unix: float

    def to_unix(self, monotonic: float) -> float:
        """The Unix time of a moment on the monotonic clock."""
        return self.unix - (self.monotonic - monotonic)

    def to_monotonic(self, unix: float) -> float:
        """The time on the monotonic clock of a Unix time."""
        return self.monotonic - (self.unix - unix)
