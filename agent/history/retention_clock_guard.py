"""A limit to the pace at which old rows are deleted, so that a wrong clock can be set right."""

from collections.abc import Mapping

MAX_PACE = (
    24  # seconds of rows that go in a second: a wrong hour costs a day, a month's gap 31 hours
)


class RetentionPace:
    """A clock that is wrong for a while must not empty a history, a year or a minute ahead.

    Rows go when they are older than they are kept; but of each kind no more than this pace allows,
    counted from its oldest row, however far the wall clock has leapt.
    """

    def __init__(self) -> None:
        self._at: float | None = None

    def wait(self, monotonic: float) -> None:
        """Nothing may go now: the wall clock is not trusted."""
        self._at = monotonic

    def cutoffs(
        self, monotonic: float, now: int, kept: Mapping[str, int], oldest: Mapping[str, int]
    ) -> dict[str, int]:
        """By kind: rows before this may go; times in ms but `monotonic`, which is in seconds."""
        elapsed = 0.0 if self._at is None else monotonic - self._at
        self._at = monotonic
        span = round(1000 * MAX_PACE * elapsed)
        return {name: min(now - kept[name], at + span) for name, at in oldest.items()}
