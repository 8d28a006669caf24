"""A check that the wall clock was not set recently: only then may it decide which rows are old."""

MAX_DIFFERENCE_SECONDS = 30.0  # seconds by which the clocks may drift apart
MIN_SECONDS = 600.0  # seconds since the wall clock was last set


class WallClockCheck:
    """Compares the two clocks at each call, and remembers when the wall clock was last set.

    A clock that is wrong by years at boot, and corrected a minute later, must not empty a history.
    """

    def __init__(self) -> None:
        self._offset: float | None = None
        self._since = 0.0

    def is_steady(self, monotonic: float, unix: float) -> bool:
        """Return whether the wall clock was not set for ten minutes; both clocks in seconds."""
        offset = unix - monotonic
        if self._offset is None or abs(offset - self._offset) > MAX_DIFFERENCE_SECONDS:
            self._offset, self._since = offset, monotonic
        return monotonic - self._since >= MIN_SECONDS
