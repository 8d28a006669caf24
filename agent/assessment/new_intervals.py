"""Which intervals of a window have ended since it was looked at last."""

from agent.window.intervals import Window


class NewIntervals:
    """Remembers the latest window, and the end of its last interval."""

    def __init__(self, now: float) -> None:
        """Count intervals that end after now, in monotonic seconds."""
        self.until = now
        """The end of the last interval seen."""
        self._seen: Window | None = None

    def of(self, window: Window) -> Window | None:
        """Take the window's intervals that are new; None where there are none."""
        if window is self._seen:
            return None
        self._seen, end = window, window["end"]
        new = end > self.until
        if not new.any():
            return None
        self.until = float(end.max())
        return window.select(new)
