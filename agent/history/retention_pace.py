"""A limit to how fast old rows are deleted, so that a wrong clock can be corrected in time."""

from collections.abc import Mapping

MAX_PACE = 24
"""Seconds of rows that are deleted per second: a wrong hour costs a day, a gap of a month takes
31 h."""


class RetentionPace:
    """Limits deletion by age: a temporarily wrong clock, even by a year, must not empty a history.

    Rows are deleted when they exceed their retention; but of each kind no more than the pace
    allows, counted from its oldest row, however far the wall clock has jumped.
    """

    def __init__(self) -> None:
        self._last_call: float | None = None

    def wait(self, monotonic: float) -> None:
        """Allow no deletion up to now, because the wall clock is not trusted."""
        self._last_call = monotonic

    def cutoffs(
        self, monotonic: float, now: int, kept: Mapping[str, int], oldest: Mapping[str, int]
    ) -> dict[str, int]:
        """Return for each kind the time before which rows may be deleted.

        Times are in ms, except `monotonic`, which is in seconds.
        """
        elapsed = 0.0 if self._last_call is None else monotonic - self._last_call
        self._last_call = monotonic
        span = round(1000 * MAX_PACE * elapsed)
        return {name: min(now - kept[name], at + span) for name, at in oldest.items()}
