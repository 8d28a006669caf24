"""Statements that last for intervals: what they do is counted where they run, not where they end.

The server counts a call, its rows and (MariaDB) its time when it ends, but its CPU is used in all
intervals in which it runs. Compared with that CPU, such a class would seem to use nothing, and so
to wait.
"""

from dataclasses import replace

import numpy as np

from models.arrays import Array
from models.attribution.class_interval_table import ClassIntervals

MISPLACED_PART = 0.25
"""A class's statements are long if more than this part of its time is in other intervals than those
in which they end: if calls one after another take half an interval each, it is."""


class LongStatements:
    """Moves calls and rows of long statements to the intervals in which these ran.

    Their rows per second are those of all statements that have ended so far, since rows and time
    are counted together, at the end; `keep` is the factor for earlier ones.
    """

    def __init__(self, keep: float = 1.0) -> None:
        self._keep = keep
        self._sizes: tuple[str, ...] = ()
        self._sums: dict[str, Array] = {}
        """Work time of what has ended, statement time, how much of that is misplaced, and each
        size, by class."""

    def moved(self, intervals: ClassIntervals) -> ClassIntervals:
        """Return the intervals with the rows of long statements in proportion to their work time.

        A statement that runs for a whole interval counts as a call in it.
        """
        count = intervals.count
        if count is None or not len(intervals):
            return intervals
        intervals = with_running_time(intervals)
        ended, time, misplaced, *sizes = self._add(intervals)
        is_long = misplaced > MISPLACED_PART * time
        if not is_long.any():
            return intervals
        work, unit = intervals.work_time, np.where(ended > 0, ended, 1.0)
        calls = work / intervals.seconds.mean()
        pairs = zip(intervals.sizes, sizes, strict=True)
        return replace(
            intervals,
            count=np.where(is_long, calls, count),
            sizes=tuple((n, np.where(is_long, work * s / unit, table)) for (n, table), s in pairs),
        )

    def _add(self, intervals: ClassIntervals) -> Array:
        """Add a table; return the sums of its classes so far, shape (3 + F, K)."""
        sizes = tuple(name for name, _ in intervals.sizes)
        if sizes != self._sizes:
            self._sums, self._sizes = {}, sizes
        before = [self._sums.get(name, np.zeros(3 + len(sizes))) for name in intervals.names]
        delta = intervals.inflight_delta
        delta = np.zeros_like(intervals.statement_time) if delta is None else delta
        time, misplaced = np.maximum(intervals.statement_time + delta, 0.0), np.abs(delta) / 2
        ended = replace(intervals, inflight_delta=None).work_time
        tables = (ended, time, misplaced, *dict(intervals.sizes).values())
        sums = np.column_stack([table.sum(axis=0) for table in tables])
        sums += self._keep * np.array(before)
        self._sums = dict(zip(intervals.names, sums, strict=True))
        return sums.T


def with_running_time(intervals: ClassIntervals) -> ClassIntervals:
    """Return the intervals with the work time of long statements where they probably ran.

    Only of classes of which none was seen running: MariaDB does not show all of them. Where others
    were seen, only calls that are longer than an interval are moved, since shorter ones may have
    run between two readings. A call that takes d and ends at any time of an interval of W has spent
    d²/2W in earlier ones if d < W, else d − W/2. What is before the first interval is left out.
    """
    calls, known = intervals.count, intervals.inflight_delta
    if calls is None or (known is not None and not known.any()):
        return intervals
    work, room = intervals.work_time, calls * intervals.seconds[:, None]
    delta = np.zeros_like(work) if known is None else known.copy()
    unseen, elapsed = ~delta.any(axis=0), np.cumsum(intervals.seconds)
    is_long = work > (2 * MISPLACED_PART if known is None else 1.0) * room
    for t, k in np.argwhere((calls > 0) & is_long & unseen):
        within = min(float(work[t, k] / room[t, k]), 1.0)
        earlier = work[t, k] - room[t, k] * (within - within**2 / 2)
        delta[t, k] -= earlier
        begin = elapsed[t] - intervals.seconds[t] - earlier / calls[t, k]
        first = int(np.searchsorted(elapsed, begin))
        before = calls[t, k] * intervals.seconds[first:t][::-1]
        free = earlier - (np.cumsum(before) - before)
        delta[first:t, k] += np.clip(free, 0.0, before)[::-1]
    return replace(intervals, inflight_delta=delta)
