"""The intervals of a window that have ended since the previous call."""

from agent.window.intervals import Window


class NewIntervals:
    """A selector of new intervals: it keeps the latest window and the end of its last interval."""

    def __init__(self, now: float) -> None:
        """Start with the intervals that end after `now` (monotonic seconds)."""
        self.seen_until = now
        """The end of the last interval seen, in monotonic seconds."""
        self._last_window: Window | None = None

    def select(self, window: Window) -> Window | None:
        """Return the window's new intervals; None if there are none."""
        if window is self._last_window:
            return None
        self._last_window, end = window, window["end"]
        is_new = end > self.seen_until
        if not is_new.any():
            return None
        self.seen_until = float(end.max())
        return window.select(is_new)
