"""Whether the wall clock has run evenly: only then are old rows deleted by it."""

SAME = 30.0  # seconds by which the clocks may drift apart
LONG_ENOUGH = 600.0  # seconds


class SteadyClock:
    """Told both clocks from time to time, it knows since when the wall clock has not been set.

    A clock that is wrong by years at boot, and set right a minute later, must not empty a history.
    """

    def __init__(self) -> None:
        self._offset: float | None = None
        self._since = 0.0

    def is_steady(self, monotonic: float, unix: float) -> bool:
        """Whether the wall clock was not set for ten minutes; both in seconds."""
        offset = unix - monotonic
        if self._offset is None or abs(offset - self._offset) > SAME:
            self._offset, self._since = offset, monotonic
        return monotonic - self._since >= LONG_ENOUGH
